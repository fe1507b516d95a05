//! Address ranges.

/// Address ranges, ascending and disjoint.
#[derive(Debug, Default, Clone)]
pub struct Ranges(pub(crate) Vec<(u64, u64)>);

impl Ranges {
    /// Makes them from ranges in any order, which may overlap.
    pub(crate) fn of(mut all: Vec<(u64, u64)>) -> Ranges {
        all.sort_unstable();
        let mut ranges = Ranges::default();
        let mut behind = 0;
        for (start, end) in all {
            if end > behind {
                ranges.push(start.max(behind), end);
                behind = end;
            }
        }
        ranges
    }

    /// Adds a range after the others.
    pub(crate) fn push(&mut self, start: u64, end: u64) {
        match self.0.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => self.0.push((start, end)),
        }
    }

    /// Yields the parts of them in `start..end`.
    pub fn within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let first = self.0.partition_point(|range| range.1 <= start);
        let parts = self.0[first..].iter().take_while(move |range| range.0 < end);
        parts.map(move |range| (range.0.max(start), range.1.min(end)))
    }

    /// Returns their bytes in `start..end`.
    pub fn bytes(&self, start: u64, end: u64) -> u64 {
        self.within(start, end).map(|(start, end)| end - start).sum()
    }

    /// Whether one of them contains an address.
    pub fn has(&self, at: u64) -> bool {
        self.within(at, at + 1).next().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_and_are_cut() {
        let mut ranges = Ranges::default();
        for (start, end) in [(0, 10), (10, 20), (30, 40)] {
            ranges.push(start, end);
        }
        assert_eq!(ranges.0, [(0, 20), (30, 40)]);
        assert_eq!(ranges.bytes(5, 35), 20);
        assert_eq!(ranges.bytes(20, 30), 0);
        assert!(ranges.has(19) && !ranges.has(20) && ranges.has(30));
    }

    #[test]
    fn ranges_in_any_order_count_once() {
        let ranges = Ranges::of(vec![(30, 40), (0, 0), (0, 10), (5, 8), (5, 20), (30, 40)]);
        assert_eq!(ranges.0, [(0, 20), (30, 40)]);
    }
}

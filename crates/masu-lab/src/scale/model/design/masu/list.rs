//! Lists of spans, linked through what is known about them.

/// A span's neighbours in its list.
#[derive(Debug, Clone, Copy, Default)]
pub struct Links {
    next: Option<u32>,
    prev: Option<u32>,
}

/// A list, of which each span is in one at most.
#[derive(Debug, Clone, Copy, Default)]
pub struct List {
    first: Option<u32>,
    last: Option<u32>,
    /// Its length.
    pub len: u32,
}

impl List {
    /// The first one.
    pub fn front(&self) -> Option<u32> {
        self.first
    }

    /// The last one.
    pub fn back(&self) -> Option<u32> {
        self.last
    }

    /// The one behind a member.
    pub fn after(links: &[Links], span: u32) -> Option<u32> {
        links[span as usize].next
    }

    /// Those whose links change when a member goes; the first one has the last one's number.
    pub fn around(&self, links: &[Links], span: u32) -> [Option<u32>; 2] {
        let Links { next, prev } = links[span as usize];
        [prev, next.or(self.first)]
    }

    /// Puts one before all others.
    pub fn push_front(&mut self, links: &mut [Links], span: u32) {
        links[span as usize] = Links { next: self.first, prev: None };
        match self.first.replace(span) {
            Some(second) => links[second as usize].prev = Some(span),
            None => self.last = Some(span),
        }
        self.len += 1;
    }

    /// Puts one behind all others.
    pub fn push_back(&mut self, links: &mut [Links], span: u32) {
        links[span as usize] = Links { next: None, prev: self.last };
        match self.last.replace(span) {
            Some(before) => links[before as usize].next = Some(span),
            None => self.first = Some(span),
        }
        self.len += 1;
    }

    /// Takes a member out.
    pub fn remove(&mut self, links: &mut [Links], span: u32) {
        let Links { next, prev } = std::mem::take(&mut links[span as usize]);
        match prev {
            Some(prev) => links[prev as usize].next = next,
            None => self.first = next,
        }
        match next {
            Some(next) => links[next as usize].prev = prev,
            None => self.last = prev,
        }
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(list: &List, links: &[Links]) -> Vec<u32> {
        let next = |span: &u32| List::after(links, *span);
        std::iter::successors(list.front(), next).collect()
    }

    #[test]
    fn spans_come_and_go_at_every_place() {
        let (mut links, mut list) = ([Links::default(); 4], List::default());
        for span in 0..3 {
            list.push_back(&mut links, span);
        }
        list.push_front(&mut links, 3);
        assert_eq!(members(&list, &links), [3, 0, 1, 2]);
        assert_eq!(list.around(&links, 3), [None, Some(0)]);
        assert_eq!(list.around(&links, 1), [Some(0), Some(2)]);
        assert_eq!(list.around(&links, 2), [Some(1), Some(3)]);
        for (gone, left) in [(0, vec![3, 1, 2]), (2, vec![3, 1]), (3, vec![1]), (1, vec![])] {
            list.remove(&mut links, gone);
            assert_eq!((members(&list, &links), list.len), (left.clone(), left.len() as u32));
            assert_eq!(list.back(), left.last().copied());
        }
    }
}

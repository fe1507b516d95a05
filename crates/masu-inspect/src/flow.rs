//! What a process has allocated between two looks, from the counts of its heaps.
//!
//! A heap's count is that of its present thread, or of its last one: the next thread that takes the heap over begins at
//! zero. It may also fall a little, because blocks in the thread's bins count as allocated until it is corrected.

/// The counts: a list for the heaps of each copy of masu, and one for its processors' caches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flow(Vec<Vec<u64>>);

impl Flow {
    /// Those of one copy of masu.
    pub(crate) fn of(heaps: Vec<u64>, caches: Vec<u64>) -> Flow {
        Flow(vec![heaps, caches])
    }

    /// Returns the counts of both, if both are known.
    pub fn both(first: Option<Flow>, second: Option<Flow>) -> Option<Flow> {
        first.zip(second).map(|(first, second)| Flow([first.0, second.0].concat()))
    }

    /// Returns the bytes allocated since an earlier look, or since the threads began if that saw nothing. What a thread
    /// allocates between the last look and its end is missing, and what it had allocated before, at most, of the thread
    /// that takes its heap over before the next look.
    pub fn since(&self, before: &Flow) -> u64 {
        // Of another copy of masu, nothing is known before.
        if !before.0.is_empty() && before.0.len() != self.0.len() {
            return 0;
        }
        let none = Vec::new();
        let lists = self.0.iter().zip(before.0.iter().chain(std::iter::repeat(&none)));
        let counts = lists.flat_map(|(now, then)| {
            now.iter().copied().zip(then.iter().copied().chain(std::iter::repeat(0)))
        });
        let new = counts.map(|(now, then)| match now.checked_sub(then) {
            Some(more) => more,
            None if now < then / 2 => now,
            None => 0,
        });
        new.fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_ends_takes_nothing_from_the_others() {
        let of = |heaps: &[u64], caches: &[u64]| Flow::of(heaps.to_vec(), caches.to_vec());
        let first = of(&[1000, 9000], &[]);
        assert_eq!(first.since(&Flow::default()), 10_000);
        // The second heap has another thread, and a third one has come.
        let second = of(&[1500, 70, 30], &[6]);
        assert_eq!(second.since(&first), 500 + 70 + 30 + 6);
        // A count that was corrected is not a new thread's.
        assert_eq!(of(&[1490, 80, 30], &[6]).since(&second), 10);
        assert_eq!(second.since(&second), 0);
        assert_eq!(second.since(&Flow(vec![vec![1]])), 0);
    }
}

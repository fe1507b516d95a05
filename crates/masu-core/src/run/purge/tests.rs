//! What the purge takes out of a set of units, for all page sizes.

use super::*;
use proptest::prelude::*;

proptest! {
    /// All whole pages of the set, each once, in their order, and nothing else.
    #[test]
    fn the_purge_takes_whole_pages(
        ranges in prop::collection::vec((0..UNITS, 1..40usize), 0..24),
        page in prop::sample::select(vec![1usize, 4, 16]),
    ) {
        // SAFETY: zero bytes are a valid set.
        let set = unsafe { core::mem::zeroed::<Bits>() };
        let mut model = [false; UNITS];
        for (start, n) in ranges {
            let end = (start + n).min(UNITS);
            set.set(start, end - start);
            model[start..end].fill(true);
        }
        let (mut taken, mut from) = (Vec::new(), 0);
        while let Some((start, n)) = next_range(&set, from, page) {
            prop_assert!(n != 0 && start % page == 0 && n % page == 0 && start >= from);
            taken.extend(start / page..(start + n) / page);
            from = start + n;
        }
        let whole = |p: &usize| model[p * page..(p + 1) * page].iter().all(|member| *member);
        let expected: Vec<_> = (0..UNITS / page).filter(whole).collect();
        prop_assert_eq!(taken, expected);
    }
}

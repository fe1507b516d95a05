//! What the purge takes out of a set of units, for all page sizes, and out of all shards.

use super::*;
use crate::clock;
use crate::discards;
use crate::ledger::{self, MORE_SHARDS};
use crate::own_process::alone;
use crate::region;
use crate::run::{Home, pool};
use crate::settings;
use crate::sync::Ordering;
use proptest::prelude::*;

/// Where each range takes a call of its own, ticks purge `whole` shards completely, one after another, and others as
/// far as a bound on system calls allows; long ranges always. After `ticks` ticks everything is gone.
fn visit(shards: usize, whole: usize, ticks: usize) {
    const SHORT: usize = 200;
    const LONG: usize = 100;
    let tick = || {
        clock::advance();
        purge_rested(|_| 0)
    };
    region::init().unwrap();
    // Otherwise chunks come with pages that were never used.
    settings::set_huge_pages(false);
    discards::one_by_one();
    assert!(region::map_shards(shards));
    MORE_SHARDS.store(shards - 1, Ordering::Relaxed);
    let of_shard = |shard| {
        let take = |units| pool::take(units, 1, Home::of(shard)).unwrap().0;
        let short: Vec<_> = (0..2 * SHORT).map(|_| take(1)).collect();
        (short, take(LONG))
    };
    let runs: Vec<_> = (0..shards).map(of_shard).collect();
    for (shard, (short, long)) in runs.iter().enumerate() {
        short.iter().step_by(2).for_each(|&at| pool::give(&[at]));
        pool::give(&[*long]);
        assert_eq!(ledger::shard(shard).account.dirty.load(Ordering::Relaxed), SHORT + LONG);
    }
    assert_eq!(tick(), 0, "what is new stays");
    assert_eq!(tick(), (whole * SHORT + shards * LONG) * UNIT, "what is long, too");
    for _ in 1..ticks {
        assert_eq!(tick(), whole * SHORT * UNIT, "the next shards'");
    }
    assert_eq!(pool::dirty_bytes(), 0);
}

#[test]
fn ticks_visit_one_shard_after_the_other() {
    alone!(ticks_visit_one_shard_after_the_other, || visit(4, 1, 4));
}

#[test]
fn however_many_shards_there_are_each_has_its_turn_in_time() {
    alone!(however_many_shards_there_are_each_has_its_turn_in_time, || visit(128, 4, 32));
}

proptest! {
    /// All whole pages of the set, each once, in their order, and nothing else; no short ranges.
    #[test]
    fn the_purge_takes_whole_pages(
        ranges in prop::collection::vec((0..UNITS, 1..40usize), 0..24),
        page in prop::sample::select(vec![1usize, 4, 16]),
        shortest in prop::sample::select(vec![1usize, 16]),
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
        while let Some((start, n)) = next_range(&set, from, page, shortest) {
            prop_assert!(n != 0 && start % page == 0 && n % page == 0 && start >= from);
            taken.extend(start / page..(start + n) / page);
            from = start + n;
        }
        let whole = |p: &usize| model[p * page..(p + 1) * page].iter().all(|member| *member);
        let pages: Vec<_> = (0..UNITS / page).filter(whole).collect();
        let in_a_row = pages.chunk_by(|page, next| page + 1 == *next);
        let expected = in_a_row.filter(|row| row.len() * page >= shortest).flatten();
        let expected: Vec<_> = expected.copied().collect();
        prop_assert_eq!(taken, expected);
    }
}

/// Of what has rested, the requested amount stays, in the lowest places; `stay` gets the largest possible amount.
#[test]
fn what_shall_stay_stays_below() {
    alone!(what_shall_stay_stays_below, || {
        region::init().unwrap();
        settings::set_huge_pages(false);
        let runs: Vec<_> = (0..40).map(|_| pool::take(1, 1, Home::ANY).unwrap().0).collect();
        runs.iter().step_by(2).for_each(|&at| pool::give(&[at]));
        assert_eq!(purge_rested(|old| old), 0, "what is new stays");
        let mut told = 0;
        let purged = purge_rested(|old| {
            told = old;
            7
        });
        assert_eq!((told, purged), (20, 13 * UNIT));
        let lowest = *runs.iter().min().unwrap();
        assert_eq!(pool::take(1, 1, Home::ANY), Some((lowest, false)));
        assert_eq!(purge_rested(|_| 0), 6 * UNIT);
    });
}

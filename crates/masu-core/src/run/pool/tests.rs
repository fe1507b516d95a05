//! Where chunks for spans and for runs come from.

use super::*;
use crate::config::Config;
use crate::own_process::alone;
use crate::sys::mem;
use std::thread;
use std::time::Duration;

/// A heap with few runs faults no page in ahead; one that has grown takes chunks as huge pages, which count as dirty.
#[test]
fn chunks_are_faulted_in_once_runs_have_grown() {
    alone!(chunks_are_faulted_in_once_runs_have_grown, || {
        settings::set_huge_pages(true);
        while used_bytes() < settings::huge_pages_from() / 8 * 3 {
            let (at, zero) = take(16, 1, Home::ANY).unwrap();
            assert!(zero && !mem::is_resident(at), "{} bytes", used_bytes());
        }
        let (_, zero) = take(16, 1, Home::ANY).unwrap();
        assert!(!zero);
    });
}

/// Pages that came one by one can become a huge page, and that they go back splits none.
#[test]
fn a_populated_chunk_counts_as_one_of_small_pages() {
    alone!(a_populated_chunk_counts_as_one_of_small_pages, || {
        settings::apply(&Config { populate: true, ..Config::DEFAULT }, false);
        let (at, zero) = take(16, 1, Home::ANY).unwrap();
        assert!(!zero);
        // SAFETY: the test's run, so its chunk is in the pool.
        assert_eq!(unsafe { record(split(at).0) }.pages.came(), Came::Small);
    });
}

const ANN: Option<Affinity> = Some(Affinity::of(0));
const BOB: Option<Affinity> = Some(Affinity::of(1));

fn span(own: Option<Affinity>) -> usize {
    take_granule(false, own, Home::ANY).unwrap().0
}

fn chunk_of(granule: usize) -> usize {
    granule / GRANULES_PER_CHUNK
}

/// A thread with an affinity takes neither others' spans nor others' chunks while few of them are free.
#[test]
fn what_an_affinity_gave_back_is_its_own_again() {
    alone!(what_an_affinity_gave_back_is_its_own_again, || {
        let turns: Vec<_> = (0..100).map(|_| (span(ANN), span(BOB))).collect();
        for &(ann, bob) in &turns {
            assert!(turns.iter().all(|other| chunk_of(other.0) != chunk_of(bob)), "{ann} {bob}");
        }
        let (ann, bob) = turns[50];
        give_granule(ann, 1);
        give_granule(bob, 1);
        assert!(!ledger::plenty_is_free());
        assert_eq!(span(BOB), bob);
        let fresh = span(BOB);
        assert_ne!(fresh, ann);
        assert_eq!(chunk_of(fresh), chunk_of(turns[99].1));
        assert_eq!(span(ANN), ann);
    });
}

/// Once much resident memory is free, it serves every thread before fresh pages do.
#[test]
fn much_that_is_free_serves_every_affinity() {
    alone!(much_that_is_free_serves_every_affinity, || {
        let anns: Vec<_> = (0..GRANULES_PER_CHUNK * 3).map(|_| span(ANN)).collect();
        let bob = span(BOB);
        // All of Ann's except the first of each chunk; then the rest of Bob's.
        anns.iter()
            .filter(|&g| !g.is_multiple_of(GRANULES_PER_CHUNK))
            .for_each(|&g| assert!(give_granule(g, !0)));
        let his: Vec<_> = (1..GRANULES_PER_CHUNK).map(|_| span(BOB)).collect();
        assert!(his.iter().all(|&g| chunk_of(g) == chunk_of(bob)), "his own were not the first");
        assert!(ledger::plenty_is_free());
        assert!(anns.contains(&span(BOB)));
    });
}

/// A chunk that is no longer in use goes to the next thread that needs one.
#[test]
fn a_free_chunk_changes_hands() {
    alone!(a_free_chunk_changes_hands, || {
        let anns: Vec<_> = (0..GRANULES_PER_CHUNK * 3).map(|_| span(ANN)).collect();
        let free = &anns[GRANULES_PER_CHUNK..GRANULES_PER_CHUNK * 2];
        free.iter().for_each(|&g| assert!(give_granule(g, 1)));
        assert!(!ledger::plenty_is_free());
        assert_eq!(chunk_of(span(BOB)), chunk_of(free[0]));
        assert_ne!(chunk_of(span(ANN)), chunk_of(free[0]));
    });
}

/// Without an affinity the lowest dirty pages come first, whoever had them.
#[test]
fn no_affinity_takes_what_is_dirty() {
    alone!(no_affinity_takes_what_is_dirty, || {
        let (ann, bob) = (span(ANN), span(BOB));
        assert_ne!(chunk_of(ann), chunk_of(bob));
        let other = span(ANN);
        give_granule(other, 1);
        assert_eq!(span(None), other);
        assert_eq!(chunk_of(span(None)), chunk_of(ann));
        assert_eq!(chunk_of(span(BOB)), chunk_of(bob));
    });
}

/// Each asks whether there is room when it has the lock, and not before it waits.
#[test]
fn threads_that_wait_for_a_shard_stay_below_the_hard_limit() {
    alone!(threads_that_wait_for_a_shard_stay_below_the_hard_limit, || {
        const HARD: usize = 16 << 20;
        const THREADS: usize = 64;
        const UNITS: usize = (1 << 20) / UNIT;
        settings::set_limit_hard(HARD);
        let pool = Locked::home(Home::ANY).expect("nobody forks");
        let threads: Vec<_> =
            (0..THREADS).map(|_| thread::spawn(|| take(UNITS, 1, Home::ANY).is_some())).collect();
        // All of them wait.
        thread::sleep(Duration::from_millis(200));
        drop(pool);
        let taken = threads.into_iter().filter_map(|it| it.join().ok()).filter(|&took| took);
        let bytes = taken.count() * UNITS * UNIT;
        assert!((HARD / 2..HARD).contains(&bytes), "{bytes} bytes");
    });
}

//! The shards of the pool of pages: new shards, and chunks that move from one to another, while threads take, give,
//! purge and fork.
//!
//! ```text
//!   one shard ──an eighth of the threads that took its lock have waited──▶ two
//!
//!   thread's shard without room ──much is free──▶ both locks, the lower number first ──▶ a chunk of the fullest
//!        │                                                                              moves, with all in it
//!        └─ and no fresh chunk is available ──▶ all that have room move
//!
//!   give: lock the shard that the chunk names ──it still names it──▶ there
//!                       ▲───────────────────── it has moved ◀──┘
//! ```
//!
//! Invariants: those of the pool ([`pages`](super::pages)); each chunk is in one shard's bucket and sets, and its dirty
//! units are in that shard's account; no thread waits for ever; a fork has the locks of all shards that were ever used.

use super::check;
use super::world::pages::{
    UNITS, give, give_granule, grow_shards, home, inspect, purge, reset_for_shards, settled,
    shard_at, take_from, take_granule_from, try_take_from,
};
use super::world::process::{self, fork, spawn};
use super::world::region;
use super::world::sys::mem;
use crate::ledger;
use std::sync::atomic::{AtomicBool, Ordering};

/// Nearly all of a chunk: the rest has no room for another.
const MOST: usize = 400;

/// Two shards from the start.
fn reset() {
    reset_for_shards();
    grow_shards();
    assert_eq!(ledger::last_shard(), 1);
}

/// The second shard's chunk: a run of 3 units in use, the rest free and dirty.
fn much_is_free() -> usize {
    let (kept, rest) = (take_from(home(1), 3), take_from(home(1), MOST));
    give(rest, MOST);
    kept
}

#[test]
fn a_chunk_moves_while_its_runs_are_freed() {
    check(3, || {
        reset();
        let kept = much_is_free();
        let other = spawn(move || give(kept, 3));
        let mine = take_from(home(0), MOST);
        assert_eq!(shard_at(mine), 0, "a fresh chunk was taken, or the other's lock");
        assert_eq!(region::chunks().len(), 1, "what is free has to serve first");
        other.join().unwrap();
        give(mine, MOST);
        settled();
    });
}

/// Each shard wants what the other has.
#[test]
fn two_shards_take_chunks_of_each_other() {
    check(2, || {
        reset();
        let kept = much_is_free();
        let other = spawn(|| {
            let mine = take_from(home(1), MOST);
            give(mine, MOST);
        });
        let mine = take_from(home(0), MOST);
        give(mine, MOST);
        give(kept, 3);
        other.join().unwrap();
        settled();
    });
}

/// Both shards have free pages, and want more than either has.
#[test]
fn two_shards_look_into_each_other() {
    check(2, || {
        reset();
        let runs = [0, 1].map(|number| [3, MOST].map(|units| take_from(home(number), units)));
        runs.iter().for_each(|&[_, rest]| give(rest, MOST));
        let other = spawn(|| assert_eq!(try_take_from(home(1), UNITS), None));
        assert_eq!(try_take_from(home(0), UNITS), None);
        other.join().unwrap();
        runs.iter().for_each(|&[kept, _]| give(kept, 3));
        settled();
    });
}

/// The kernel is discarding some of its units for the purge, or refuses; the other units move.
#[test]
fn a_chunk_moves_while_it_is_purged() {
    for refuse in [false, true] {
        check(3, move || {
            reset();
            let [first, kept, second] = [MOST, 1, 50].map(|units| take_from(home(1), units));
            give(first, MOST);
            give(second, 50);
            mem::refuse(refuse);
            let other = spawn(|| {
                purge();
            });
            let mine = take_from(home(0), 40);
            give(mine, 40);
            other.join().unwrap();
            mem::refuse(false);
            give(kept, 1);
            settled();
        });
    }
}

#[test]
fn a_chunk_moves_for_spans() {
    check(3, || {
        reset();
        let (kept, rest) = (take_granule_from(home(1), None), take_granule_from(home(1), None));
        give_granule(rest, 16);
        let other = spawn(move || give_granule(kept, 3));
        let mine = take_granule_from(home(0), None);
        assert_eq!(shard_at(region::granule_address(mine)), 0);
        give_granule(mine, 16);
        other.join().unwrap();
        settled();
    });
}

/// All chunks are taken: any shard with room serves.
#[test]
fn without_fresh_chunks_all_come_together() {
    check(3, || {
        reset();
        // Clean, and so not available as long as there are fresh chunks.
        let (a, b) = (take_from(home(1), 3), take_from(home(1), 512));
        let other = spawn(move || give(a, 3));
        let mine = take_from(home(0), MOST);
        assert_eq!(region::chunks().len(), 2);
        other.join().unwrap();
        give(mine, MOST);
        give(b, 512);
        settled();
    });
}

/// Threads that wait for each other get a shard each; threads that never do share one.
#[test]
fn shards_come_where_threads_wait() {
    static SEEN: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];
    check(2, || {
        reset_for_shards();
        let work = |number| {
            let at = take_from(home(number), 2);
            give(at, 2);
        };
        let other = spawn(move || work(1));
        work(0);
        other.join().unwrap();
        SEEN[ledger::last_shard()].store(true, Ordering::Relaxed);
        work(1);
        settled();
    });
    assert!(SEEN.iter().all(|seen| seen.load(Ordering::Relaxed)), "shards always come, or never");
}

/// The child of a fork at any time has all chunks, and their moves are over.
#[test]
fn a_child_finds_no_chunk_between_two_shards() {
    check(2, || {
        reset();
        process::interrupt_anywhere();
        let kept = much_is_free();
        let other = spawn(|| {
            let mine = take_from(home(0), MOST);
            give(mine, MOST);
        });
        fork(|| {
            whole_but_for(MOST);
            give(kept, 3);
            purge();
            inspect();
        });
        other.join().unwrap();
    });
}

/// So has the child of a process that adds a shard while it forks.
#[test]
fn a_child_has_the_shards_that_were_used() {
    check(2, || {
        reset_for_shards();
        process::interrupt_anywhere();
        let other = spawn(|| {
            grow_shards();
            let mine = take_from(home(1), 2);
            give(mine, 2);
        });
        fork(|| {
            whole_but_for(2);
            purge();
            inspect();
        });
        other.join().unwrap();
    });
}

/// Nothing is lost except what other threads were handling.
fn whole_but_for(most: usize) {
    let used = inspect();
    let live = region::all_live();
    let in_hands = if process::calls() == 0 { 0 } else { most };
    assert!((live.len()..=live.len() + in_hands).contains(&used), "units are lost");
}

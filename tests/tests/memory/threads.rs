//! What threads cost: many that have ended, and many that are alive.

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

use masu_tests::long;

use crate::compare::{Moment, compare};
use crate::figures::{Bytes, MIB, Memory};
use crate::probe::On;

/// After the last fifth of the threads, memory is what it was after the first fifth.
#[test]
fn threads_that_come_and_go_leave_nothing() {
    let threads = if long() { 1_000_000 } else { 50_000 };
    let run = compare("churn", &format!("churn --threads {threads}"), &[], |probe| {
        let memory: [Cell<Memory>; 5] = Default::default();
        let mut live = 0;
        for (i, fifth) in memory.iter().enumerate() {
            live = probe.at("fifth");
            fifth.set(probe.memory());
            if i < 4 {
                probe.go();
            }
        }
        let [first, .., last] = memory.map(Cell::into_inner);
        let bound = first.anon + first.anon / 20 + MIB;
        let (first, last_anon) = (Bytes(first.anon), Bytes(last.anon));
        assert!(probe.on == On::System || last.anon <= bound, "grew from {first} to {last_anon}");
        Moment { memory: last, live, before: 0 }
    });
    run.counted("remote_frees", 1.0).counted("spans_adopted", 1.0);
}

#[test]
fn ten_thousand_threads_with_little_blocks() {
    crowd("crowd-1KiB", 1024);
}

#[test]
fn ten_thousand_threads_with_blocks_of_all_small_sizes() {
    crowd("crowd-8KiB", 8192);
}

/// One crowd at a time: it has twenty thousand threads on both allocators, and a system allows 32,768 by default.
fn crowd(name: &str, largest: usize) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let scenario = format!("crowd --largest {largest}");
    compare(name, &scenario, &[], |probe| Moment::at(probe, "asleep")).at_most(1.5);
}

/// Blocks are allocated in one thread and freed in another, and the first exits: a window of 60 MiB, through which two
/// gibibytes pass.
#[test]
fn a_relay_between_threads_does_not_blow_up() {
    let run = compare("relay", "relay", &[], |probe| Moment::at(probe, "steady"));
    // The aim is 1.5 times the live bytes; glibc has between 75 and 106 MiB.
    let bound = 2 * run.live;
    assert!(run.ours.anon <= bound, "more than {}: {}", Bytes(bound), run.line);
    run.counted("remote_frees", 1e5);
}

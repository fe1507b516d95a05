//! Which heaps are in huge pages: growing ones from a size on, and aged ones again once they are full.

use std::thread;
use std::time::{Duration, Instant};

use masu_tests::{huge_pages, is_masu, left_out};

use crate::figures::{Bytes, MIB, Memory};
use crate::probe::{On, PATIENCE, Probe};

#[test]
fn a_growing_heap_has_huge_pages_from_the_size_on_that_is_asked_for() {
    let huge = |option: &str| {
        let mut probe = Probe::start(On::Library, "age --mib 24", &[("MASU_CONF", option)]);
        probe.at("filled");
        let Memory { huge, .. } = probe.memory();
        println!("24 MiB under {option}: huge={}", Bytes(huge));
        probe.go();
        probe.pass("dropped");
        probe.at("refilled");
        probe.finish();
        huge
    };
    if !is_masu() {
        return;
    }
    if !huge_pages::are_given() || huge("huge_pages_from:0") == 0 {
        left_out("huge pages of a growing heap", "this machine gave none");
        return;
    }
    assert_eq!(huge("policy:default"), 0);
    assert_eq!(huge("huge_pages_from:1GiB"), 0);
    for early in ["huge_pages_from:4MiB", "policy:throughput"] {
        // After one that took long, as on a busy machine, a process requests none for a while.
        let found = huge_pages::found(32 << 20, || (huge(early) >= 10 * MIB).then_some(()));
        if found.is_none() {
            left_out("huge pages of a growing heap", "this machine is slow to give them");
        }
    }
    assert_eq!(huge("policy:throughput,huge_pages:off"), 0);
}

/// What a heap that has aged uses: when filled, and when filled again, where the program waits. `None` if this machine
/// gives no huge pages, or another allocator is tested.
fn aged(arguments: &str) -> Option<(Probe, [Memory; 2])> {
    if !is_masu() {
        return None;
    }
    let filled = huge_pages::found(192 << 20, || {
        let settings = [("MASU_DECAY", "200ms"), ("MASU_BACKGROUND_THREAD", "on")];
        let mut probe = Probe::start(On::Library, arguments, &settings);
        probe.at("filled");
        let filled = probe.memory();
        // Of 192 MiB, the first 32 never use any; and after a slow one there are none for a while.
        (filled.huge >= 144 * MIB).then_some((probe, filled))
    });
    let Some((mut probe, filled)) = filled else {
        left_out("huge pages of an aged heap", "this machine gives none, or is slow to");
        return None;
    };
    probe.go();
    probe.at("dropped");
    let rested = probe.settled(Duration::from_secs(1));
    probe.go();
    probe.at("refilled");
    let refilled = probe.memory();
    // Not fewer: chunks that have stayed full get the huge pages that they did not have at first.
    assert!(rested.huge < filled.huge * 3 / 4, "the case is none: {rested:?} of {filled:?}");
    Some((probe, [filled, refilled]))
}

#[test]
fn huge_pages_come_back_and_take_no_memory() {
    for last in [false, true] {
        let Some((probe, [filled, refilled])) = aged("age") else { return };
        let start = Instant::now();
        let wanted = filled.huge * 9 / 10;
        while probe.memory().huge < wanted && start.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(100));
        }
        let now = probe.memory();
        println!(
            "age: huge={} refilled={} now={}",
            Bytes(filled.huge),
            Bytes(refilled.huge),
            Bytes(now.huge)
        );
        let are_back = now.huge >= wanted;
        if !are_back && !huge_pages::come_quickly(wanted as usize) {
            return left_out(
                "huge pages of an aged heap",
                "this machine has become slow to give them",
            );
        }
        // Other programs may have needed the memory meanwhile.
        assert!(are_back || !last, "{now:?} of {filled:?}");
        assert!(now.anon <= refilled.anon + refilled.anon / 100, "{now:?} of {refilled:?}");
        probe.finish();
        if are_back {
            return;
        }
    }
}

/// To copy pages that a child shares would waste memory.
#[test]
fn shared_pages_stay_shared() {
    let Some((probe, [_, refilled])) = aged("age --fork") else { return };
    thread::sleep(Duration::from_secs(8));
    let now = probe.memory();
    println!("age --fork: refilled={} now={}", Bytes(refilled.huge), Bytes(now.huge));
    // Pages that were whole at the fork may be split by then.
    assert!(now.huge <= refilled.huge + 8 * MIB, "{now:?} of {refilled:?}");
    probe.finish();
}

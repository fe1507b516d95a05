//! Freed memory goes back to the system while the program sleeps, without a call to the allocator.

use crate::compare::{compare, settled};
use crate::figures::{KIB, MIB};

#[test]
fn a_burst_in_eight_threads_goes_back() {
    compare("burst", "burst", &[], |probe| {
        probe.pass("peak");
        settled(probe, "freed")
    })
    .close_to_live(0)
    .counted("purged_bytes", 900.0 * MIB as f64);
}

#[test]
fn a_burst_in_a_single_threaded_program_goes_back() {
    compare("burst-single", "burst --threads 0 --mib 512", &[], |probe| {
        probe.pass("peak");
        settled(probe, "freed")
    })
    .close_to_live(0);
}

#[test]
fn what_another_thread_frees_goes_back() {
    compare("handoff", "handoff", &[], |probe| {
        probe.pass("peak");
        settled(probe, "freed")
    })
    .close_to_live(0)
    // A gibibyte of blocks of these sizes is more than eight million.
    .counted("remote_frees", 1e5);
}

/// At rest, a thread may pin one page a class and its own records; that is the whole residue.
#[test]
fn a_hundred_sleeping_threads_keep_one_page_a_class() {
    compare("sleepers", "sleepers", &[], |probe| {
        probe.pass("peak");
        settled(probe, "freed")
    })
    .close_to_live(100 * (20 * 4 * KIB + 16 * KIB));
}

#[test]
fn huge_blocks_go_back() {
    compare("huge", "huge", &[], |probe| {
        probe.pass("peak");
        settled(probe, "freed")
    })
    .close_to_live(0);
}

#[test]
fn without_a_background_thread_one_trim_gives_all_back() {
    compare("trim", "burst --trim", &[("MASU_BACKGROUND_THREAD", "off")], |probe| {
        probe.pass("peak");
        probe.pass("freed");
        let live = probe.at("trimmed");
        (probe.memory(), live)
    })
    .close_to_live(0);
}

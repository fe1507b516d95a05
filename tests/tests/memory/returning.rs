//! Freed memory goes back to the system while the program sleeps, without a call to the allocator.

use crate::compare::{Moment, compare};
use crate::figures::{KIB, MIB};
use crate::probe::{On, Probe};

/// What a burst's program uses before the burst, holding what it will hold after it.
fn held(probe: &mut Probe) -> u64 {
    let Moment { memory, .. } = Moment::at(probe, "held");
    probe.go();
    memory.anon
}

#[test]
fn a_burst_in_eight_threads_goes_back() {
    compare("burst", "burst", &[], |probe| {
        let before = held(probe);
        probe.pass("peak");
        Moment { before, ..Moment::settled(probe, "freed") }
    })
    .close_to_live(0)
    .counted("purged_bytes", 900.0 * MIB as f64)
    .counted("background_starts", 1.0)
    .counted("medium_allocs", 5e3);
}

#[test]
fn a_burst_in_a_single_threaded_program_goes_back() {
    compare("burst-single", "burst --threads 0 --mib 512", &[], |probe| {
        let before = held(probe);
        probe.pass("peak");
        Moment { before, ..Moment::settled(probe, "freed") }
    })
    .close_to_live(0);
}

#[test]
fn what_another_thread_frees_goes_back() {
    compare("handoff", "handoff", &[], |probe| {
        probe.pass("peak");
        Moment::settled(probe, "freed")
    })
    .close_to_live(0)
    // A gibibyte of blocks of these sizes is some seven million.
    .counted("remote_frees", 1e5);
}

/// Each thread keeps only its stack and its records.
#[test]
fn a_hundred_sleeping_threads_keep_nothing() {
    compare("sleepers", "sleepers", &[], |probe| {
        probe.pass("peak");
        Moment::settled(probe, "freed")
    })
    .close_to_live(100 * 16 * KIB);
}

#[test]
fn huge_blocks_go_back() {
    compare("huge", "huge", &[], |probe| {
        probe.pass("peak");
        Moment::settled(probe, "freed")
    })
    .close_to_live(0)
    .counted("huge_allocs", 8.0);
}

#[test]
fn without_a_background_thread_one_trim_gives_all_back() {
    compare("trim", "burst --trim", &[("MASU_BACKGROUND_THREAD", "off")], |probe| {
        let before = held(probe);
        probe.pass("peak");
        probe.pass("freed");
        Moment { before, ..Moment::at(probe, "trimmed") }
    })
    .close_to_live(0);
}

/// Memory that will soon be used again is kept: it would have to be faulted in, page by page. (On a busy machine 200 ms
/// may become a second, which is the usual decay time.)
#[test]
fn memory_in_use_every_200_ms_is_kept() {
    let faults = |on| {
        let mut probe = Probe::start(on, "cycle", &[("MASU_CONF", "decay:20000ms")]);
        probe.at("once");
        let once = probe.faults();
        probe.go();
        probe.at("done");
        (once, probe.faults() - once)
    };
    let (once, later) = faults(On::Library);
    let system = faults(On::System);
    println!("cycle: faults_first={once} faults_later={later} glibc_later={}", system.1);
    assert!(later <= 2 * once, "19 more cycles took {later} faults, the first one {once}");
}

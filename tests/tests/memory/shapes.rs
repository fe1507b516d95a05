//! Memory that is scattered, changes its sizes, or is shared with forked children.

use masu_tests::is_masu;

use crate::compare::{Moment, compare};
use crate::figures::{Bytes, MIB, Memory};
use crate::probe::{On, Probe};
use crate::stats::Stats;

/// One object in a hundred survives, anywhere.
#[test]
fn sparse_survivors_pin_no_more_than_elsewhere() {
    compare("sparse", "sparse", &[], |probe| {
        probe.pass("peak");
        Moment::settled(probe, "sparse")
    })
    .at_most(1.1);
}

/// Six times over, everything held is replaced by blocks of other sizes.
#[test]
fn changing_sizes_leave_nothing_stranded() {
    let run = compare("phases", "phases", &[], |probe| {
        (0..6).for_each(|_| probe.pass("phase"));
        Moment::settled(probe, "end")
    });
    let bound = run.live + run.live / 2;
    assert!(run.ours.anon <= bound, "more than {}: {}", Bytes(bound), run.line);
}

/// A forked worker pays for what it does, not for what its parent's allocator kept.
#[test]
fn sixty_four_forked_workers_share_their_parents_memory() {
    let run = compare("prefork", "prefork", &[], |probe| {
        probe.pass("loaded");
        let live = probe.at("forked");
        let mut sum = Memory::default();
        let children = probe.children();
        assert_eq!(children.len(), 64);
        children.into_iter().for_each(|pid| sum += Memory::of(pid));
        Moment { memory: sum, live, before: 0 }
    });
    let (ours, system) = (run.ours.private, run.system.private);
    println!("prefork: private={} glibc={}", Bytes(ours), Bytes(system));
    // The aim is 5 % more than the system's. A worker's first blocks of many classes touch a page
    // of its parent's each.
    assert!(ours <= 8 * system, "{} over {}", Bytes(ours), Bytes(system));
}

/// Growing never needs the old block and the new one at once: pages move, or the block grows in
/// place.
#[test]
fn growing_blocks_never_exist_twice() {
    let run = |on: On| {
        let mut probe = Probe::start(on, "grow", &[("MASU_SHOW_STATS", "1")]);
        let live = probe.at("grown");
        (live, probe.peak(), probe.finish())
    };
    let (live, ours, text) = run(On::Library);
    let (_, system, _) = run(On::System);
    println!("grow: peak={} live={} glibc_peak={}", Bytes(ours), Bytes(live), Bytes(system));
    let bound = live + live / 20 + 8 * MIB;
    assert!(ours <= bound, "more than {}: {}", Bytes(bound), Bytes(ours));
    if is_masu() {
        let stats = Stats::parse(&text);
        assert!(stats.get("huge_moves") + stats.get("huge_grown") >= 8.0, "{stats:?}");
    }
}

/// The kernel allows 65,530 mappings; a heap of 100 MiB in pieces of all sizes needs a handful.
#[test]
fn mappings_stay_few() {
    let mappings = |on| {
        let mut probe = Probe::start(on, "phases", &[]);
        (0..6).for_each(|_| probe.pass("phase"));
        Moment::settled(&mut probe, "end");
        probe.mappings()
    };
    let (ours, system) = (mappings(On::Library), mappings(On::System));
    println!("phases: mappings={ours} glibc={system}");
    assert!(ours <= system + 40, "{ours} over {system}");
}

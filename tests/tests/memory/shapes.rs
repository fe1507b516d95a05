//! Memory that is scattered, changes its sizes, or is shared with forked children.

use crate::compare::{compare, settled};
use crate::figures::{Bytes, Memory};
use crate::probe::{On, Probe};

/// One object in a hundred survives, anywhere.
#[test]
fn sparse_survivors_pin_no_more_than_elsewhere() {
    compare("sparse", "sparse", &[], |probe| {
        probe.pass("peak");
        settled(probe, "sparse")
    })
    .at_most(1.1);
}

/// Six times over, everything that is held is replaced by blocks of other sizes.
#[test]
fn changing_sizes_leave_nothing_stranded() {
    let run = compare("phases", "phases", &[], |probe| {
        (0..6).for_each(|_| probe.pass("phase"));
        settled(probe, "end")
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
        (sum, live)
    });
    let (ours, system) = (run.ours.private, run.system.private);
    println!("prefork: private={} glibc={}", Bytes(ours), Bytes(system));
    assert!(ours <= system + system / 20, "{} over {}", Bytes(ours), Bytes(system));
}

/// The kernel allows 65,530 mappings; a heap of 100 MiB in pieces of all sizes needs a handful.
#[test]
fn mappings_stay_few() {
    let mappings = |on| {
        let mut probe = Probe::start(on, "phases", &[]);
        (0..6).for_each(|_| probe.pass("phase"));
        settled(&mut probe, "end");
        probe.mappings()
    };
    let (ours, system) = (mappings(On::Library), mappings(On::System));
    println!("phases: mappings={ours} glibc={system}");
    assert!(ours <= system + 40, "{ours} over {system}");
}

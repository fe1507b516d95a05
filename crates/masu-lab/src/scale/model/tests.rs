use super::trace::Event;
use super::what::What;
use super::*;

/// Each of `threads` threads allocates and frees its own blocks.
pub(super) fn own(threads: u16, pairs: u32) -> Trace {
    own_of(threads, pairs, 64)
}

/// The same with blocks of `size` bytes.
fn own_of(threads: u16, pairs: u32, size: u32) -> Trace {
    let mut events = Vec::new();
    for pair in 0..pairs {
        for thread in 0..threads {
            let block = pair * u32::from(threads) + u32::from(thread);
            events.push(Event { thread, op: Op::Alloc { block, size } });
            events.push(Event { thread, op: Op::Free { block } });
        }
    }
    let blocks = usize::from(threads) * pairs as usize;
    Trace { workload: "own".into(), threads: threads.into(), blocks, events }
}

/// One thread allocates, and another frees, a hundred blocks later.
pub(super) fn handed(pairs: u32) -> Trace {
    let mut events = Vec::new();
    for block in 0..pairs + 100 {
        if block < pairs {
            events.push(Event { thread: 0, op: Op::Alloc { block, size: 64 } });
        }
        if block >= 100 {
            events.push(Event { thread: 1, op: Op::Free { block: block - 100 } });
        }
    }
    Trace { workload: "handed".into(), threads: 2, blocks: pairs as usize, events }
}

fn by_design(trace: &Trace, cores: u32) -> [Point; 3] {
    Design::ALL.map(|design| replay(trace, design, cores, COSTS).point)
}

#[test]
fn what_is_not_shared_scales_in_every_design() {
    for curve in curves(&own(1, 5_000), &Design::ALL, &[1, 16, 256]) {
        let last = curve.points.last().unwrap();
        assert!(last.speedup > 200.0, "{curve:?}");
        assert!(last.transfers < 0.02 && last.remote_frees == 0.0, "{curve:?}");
    }
}

#[test]
fn on_one_core_nothing_moves() {
    for point in by_design(&handed(5_000), 1) {
        assert_eq!((point.transfers, point.hand_overs), (0.0, 0.0));
    }
}

/// The difference between the designs: sixteen blocks in one message, one by one, or through a lock.
#[test]
fn handed_over_blocks_cost_what_the_design_makes_them() {
    let [masu, arena, page] = by_design(&handed(50_000), 2);
    for point in [&masu, &arena, &page] {
        assert!((point.remote_frees - 0.5).abs() < 0.01, "half of all operations: {point:?}");
    }
    assert_eq!((page.hand_overs, arena.hand_overs > 0.01), (0.0, true), "{arena:?}");
    assert!(arena.locks < 0.1, "blocks of 64 bytes go back without a lock: {arena:?}");
    assert!(masu.hand_overs < arena.hand_overs / 10.0, "{masu:?} {arena:?}");
    assert!(masu.transfers < page.transfers - 0.1, "{masu:?} {page:?}");
}

/// A thread's cache in front of an arena ends with the thread.
#[test]
fn threads_that_end_take_the_locks_of_arenas() {
    let stays = own(1, 1_000);
    let mut ends = stays.clone();
    let end = Event { thread: 0, op: Op::Replace };
    ends.events =
        stays.events.chunks(100).flat_map(|calls| calls.iter().copied().chain([end])).collect();
    let locks = |trace: &Trace| replay(trace, Design::Arena, 1, COSTS).point.locks;
    assert_eq!(locks(&stays), 0.0);
    assert!(locks(&ends) > 0.02, "{}", locks(&ends));
}

#[test]
fn more_cores_than_threads_are_filled_with_copies() {
    let trace = handed(2_000);
    let point = replay(&trace, Design::Masu, 64, COSTS).point;
    assert!((point.remote_frees - 0.5).abs() < 0.03, "{point:?}");
    assert!(
        point.speedup > 20.0 * replay(&trace, Design::Masu, 2, COSTS).point.speedup,
        "{point:?}"
    );
}

#[test]
fn the_model_is_deterministic() {
    let curves = || curves(&handed(500), &Design::ALL, &[1, 4]);
    assert_eq!(curves(), curves());
}

/// As in a scheduler: the busy ones apart, the others where there is room.
#[test]
fn threads_are_spread_by_what_they_do() {
    let mut trace = own(3, 100);
    // The second thread calls as often as the other two together.
    let second = |block| [Op::Alloc { block, size: 64 }, Op::Free { block }];
    let more = (1000..1100).flat_map(second).map(|op| Event { thread: 1, op });
    trace.events.extend(more);
    assert_eq!(places(&trace, 1, 2), [1, 0, 1]);
    assert_eq!(places(&trace, 2, 6).len(), 6);
}

/// A thread's calls while no other calls are not spread over other cores.
#[test]
fn a_phase_of_one_thread_is_not_shared_out() {
    let mut trace = own(2, 20_000);
    let speedup = |trace: &Trace| {
        let run = |cores| replay(trace, Design::Page, cores, COSTS).point.speedup;
        run(2) / run(1)
    };
    assert!(speedup(&trace) > 1.95);
    trace.events.sort_by_key(|event| event.thread);
    assert!(speedup(&trace) < 1.05);
}

/// A variant of the design.
fn tried(variant: &str) -> Design {
    Design::Tried(variant.parse().unwrap())
}

/// Blocks that no cache keeps come from the pool. One lock stops all threads; the engine's shards do not.
#[test]
fn long_runs_meet_at_the_pool_s_lock_unless_it_is_sharded() {
    let trace = own_of(1, 2_000, 200 << 10);
    let curve = |design| curves(&trace, &[design], &[1, 4, 8, 16, 32]).remove(0);
    let (one, line) = (curve(tried("1+caches")), What::Pool.words());
    assert!(one.stops().is_some_and(|(cores, why)| cores < 4 && why == line), "{one:?}");
    assert!(one.points.iter().all(|point| point.locks > 0.9), "{one:?}");
    for sharded in [curve(tried("0")), curve(Design::Masu)] {
        assert_eq!(sharded.stops(), None, "{sharded:?}");
        assert!(sharded.points.iter().all(|point| point.hand_overs < 0.01), "{sharded:?}");
    }
    let eight = curve(tried("8"));
    assert!(eight.points[4].speedup > 2.0 * one.points[4].speedup, "{eight:?}");
}

/// The lock, where it looks for a chunk, the chunk's head and sets, and one line of counters.
#[test]
fn lines_follow_the_pool_s_lock_as_they_lie() {
    let point = replay(&own_of(1, 2_000, 200 << 10), tried("1"), 2, COSTS).point;
    assert!(point.hand_overs > 0.9, "{point:?}");
    let lines = point.transfers / point.hand_overs;
    assert!((5.5..7.5).contains(&lines), "seven for a run taken, six for one freed: {lines}");
}

/// If sixteen threads keep medium blocks, four full caches' worth in all leave nothing for others. The engine allows as
/// many as there are processors.
#[test]
fn many_threads_have_no_caches_unless_each_core_may_have_one() {
    let trace = own_of(1, 2_000, 60 << 10);
    let locks = |cores, design| replay(&trace, design, cores, COSTS).point.locks;
    assert_eq!(locks(16, tried("1")), 0.0);
    assert!(locks(32, tried("1")) > 0.3);
    assert_eq!(locks(32, Design::Masu), 0.0);
}

/// Few processors for many threads: their blocks come from the shared arena, under its lock.
#[test]
fn oversubscribed_threads_borrow() {
    let trace = own(100, 200);
    let borrowed = replay(&trace, Design::Masu, 2, COSTS).point;
    assert!(borrowed.locks > 0.01, "{borrowed:?}");
    let own = replay(&trace, Design::Masu, 100, COSTS).point;
    assert!(own.locks < borrowed.locks / 10.0, "{own:?} {borrowed:?}");
}

/// A thread that frees into a span without an owner claims it.
#[test]
fn a_full_queue_has_spans_change_hands() {
    let trace = handed(60_000);
    let claimed = |trace: &Trace| replay(trace, Design::Masu, 2, COSTS).tally.claimed;
    assert_eq!(claimed(&trace), 0, "the producer finds them in its own spans");
    assert!(claimed(&trace.behind(50_000)) > 0);
}

/// Threads of two nodes that take runs from one shard, whose lengths vary, get what the other one has touched.
#[test]
fn shards_of_one_node_s_threads_have_pages_of_that_node() {
    let mut trace = own_of(1, 2_000, 200 << 10);
    for event in trace.events.iter_mut().step_by(4) {
        let Op::Alloc { size, .. } = &mut event.op else { unreachable!("every other one is") };
        *size -= 50 << 10;
    }
    let layout = Layout { nodes: 2, spread: Spread::Anywhere };
    let far = |shards| replay_on(&trace, tried(shards), 96, COSTS, layout).far;
    let (alike, engine) = (far("64+lenders"), far("64+lenders+nodes"));
    assert!(alike.bytes > 0.02 && alike.lines > 0.1, "{alike:?}");
    assert!(engine.bytes < alike.bytes / 10.0 && engine.lines < alike.lines / 10.0, "{engine:?}");
}

/// A queue that is full has spans change hands, with blocks of both nodes in them.
#[test]
fn spans_that_nobody_owns_go_to_their_node_first() {
    let trace = handed(60_000).behind(50_000);
    let layout = Layout { nodes: 2, spread: Spread::Together };
    let far = |design| replay_on(&trace, design, 32, COSTS, layout).far.bytes;
    let (alike, engine) = (far(tried("16+caches+lists+lenders")), far(Design::Masu));
    assert!(engine < alike / 2.0, "{engine} {alike}");
}

#[test]
fn on_one_node_nothing_is_far() {
    let far = replay(&handed(2_000), Design::Masu, 8, COSTS).far;
    assert_eq!((far.bytes, far.blocks, far.lines), (0.0, 0.0, 0.0));
}

/// What a thread has at hand stays where it was when the thread moves.
#[test]
fn a_thread_that_moved_goes_on_with_far_pages() {
    let layout = |spread| Layout { nodes: 2, spread };
    let far = |spread| replay_on(&own(2, 5_000), Design::Masu, 8, COSTS, layout(spread)).far;
    let (stays, moved) = (far(Spread::Anywhere), far(Spread::Moved));
    assert_eq!(stays.bytes, 0.0);
    assert!(moved.bytes > 0.9 && moved.blocks > 0.45, "{moved:?}");
}

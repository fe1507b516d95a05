use super::super::super::machine::{COSTS, Machine};
use super::heap::Place;
use super::*;

/// A generator of numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// Threads that allocate blocks of all sizes, free each other's, and are replaced.
fn shuffle(threads: usize, cores: usize, variant: Variant) -> (Masu, Machine, Vec<u32>) {
    let mut machine = Machine::new(cores, COSTS);
    let mut masu = Masu::new(threads, cores, variant);
    let (mut numbers, mut live) = (Numbers(7), Vec::new());
    for round in 0..60_000 {
        let thread = numbers.below(threads);
        let caller = &mut Caller { machine: &mut machine, core: thread % cores, thread };
        if round % 5_000 == 4_999 {
            masu.replace(caller);
        }
        if numbers.below(100) < 51 {
            let size = 16 << numbers.below(13);
            live.push(masu.alloc(caller, size as u32));
        } else if !live.is_empty() {
            let block = live.swap_remove(numbers.below(live.len()));
            masu.free(caller, block);
        }
    }
    (masu, machine, live)
}

#[test]
fn no_block_is_handed_out_twice() {
    // Of forty on four cores, some have no heaps.
    for threads in [4, 40] {
        let (_, _, mut live) = shuffle(threads, 4, Variant::default());
        let all = live.len();
        live.sort_unstable();
        live.dedup();
        assert_eq!(live.len(), all);
        assert!(all > 500);
    }
}

#[test]
fn what_is_freed_goes_back_to_the_pool() {
    for variant in ["1", "4", "0+caches+lists+lenders"] {
        let (mut masu, mut machine, live) = shuffle(4, 4, variant.parse().unwrap());
        for (at, block) in live.into_iter().enumerate() {
            let caller = &mut Caller { machine: &mut machine, core: at % 4, thread: at % 4 };
            masu.free(caller, block);
        }
        for thread in [0, 1, 2, 3, 0, 1, 2, 3] {
            let caller = &mut Caller { machine: &mut machine, core: thread, thread };
            masu.replace(caller);
        }
        let active = masu.spans.iter().filter(|span| span.place == Place::Active).count();
        assert_eq!(masu.pages.used(), active * PER_GRANULE, "{variant}");
        assert!(masu.tally.claimed > 0 && masu.tally.adopted > 0, "{:?}", masu.tally);
    }
}

/// The owner of a span waits while another thread frees its blocks and needs some.
#[test]
fn a_thread_takes_back_what_it_has_freed_into_anothers_span() {
    let mut machine = Machine::new(2, COSTS);
    let mut masu = Masu::new(2, 2, Variant::default());
    let [first, second] = [0, 1];
    let mut of =
        |thread: usize, masu: &mut Masu, call: &mut dyn FnMut(&mut Masu, &mut Caller<'_>)| {
            call(masu, &mut Caller { machine: &mut machine, core: thread, thread });
        };
    let mut blocks = Vec::new();
    of(first, &mut masu, &mut |masu, caller| {
        blocks.extend((0..64).map(|_| masu.alloc(caller, 1024)))
    });
    let mut again = Vec::new();
    of(second, &mut masu, &mut |masu, caller| {
        let before = masu.tally.fresh_spans;
        blocks.iter().skip(16).for_each(|&block| masu.free(caller, block));
        again.extend((0..32).map(|_| masu.alloc(caller, 1024)));
        assert_eq!(masu.tally.fresh_spans, before);
    });
    again.sort_unstable();
    again.dedup();
    assert_eq!(again.len(), 32);
    assert!(again.iter().all(|block| blocks[16..].contains(block)));
}

/// Memory that grows takes the pages of a span of which nothing was used since the look before, and not twice.
#[test]
fn a_sparse_span_is_purged_at_the_second_look() {
    let mut machine = Machine::new(1, COSTS);
    let mut masu = Masu::new(1, 1, Variant::default());
    let caller = &mut Caller { machine: &mut machine, core: 0, thread: 0 };
    let blocks: Vec<u32> = (0..1024).map(|_| masu.alloc(caller, 1024)).collect();
    let kept = |place: usize| place.is_multiple_of(32);
    blocks.iter().enumerate().filter(|(at, _)| !kept(*at)).for_each(|(_, &block)| {
        masu.free(caller, block);
    });
    let mut looks = [0; 3];
    for look in &mut looks {
        let before = caller.machine.counts.discards;
        masu.purge_sparse(caller);
        *look = caller.machine.counts.discards - before;
    }
    assert!(looks[0] == 0 && looks[1] > 0 && looks[2] == 0, "{looks:?}");
}

/// A thread leaves its active span to the next one.
#[test]
fn a_span_into_which_much_was_freed_is_not_left() {
    let mut machine = Machine::new(1, COSTS);
    for (freed, left) in [(4, true), (12, false)] {
        let mut masu = Masu::new(2, 1, Variant::default());
        let caller = &mut Caller { machine: &mut machine, core: 0, thread: 0 };
        let blocks: Vec<u32> = (0..16).map(|_| masu.alloc(caller, 1024)).collect();
        blocks.into_iter().take(freed).for_each(|block| masu.free(caller, block));
        masu.replace(caller);
        assert_eq!(masu.heaps[0].active[class_of(1024)].is_some(), left, "{freed} blocks");
    }
}

/// Threads that have nothing of their own share what lies at their processors, and each lock is one atomic operation.
#[test]
fn threads_of_an_oversubscribed_process_take_blocks_from_processors() {
    let (threads, cores) = (100, 2);
    let mut machine = Machine::new(cores, COSTS);
    let mut masu = Masu::new(threads, cores, Variant::default());
    let mut call = |masu: &mut Masu, thread: usize| {
        let core = thread % cores;
        let caller = &mut Caller { machine: &mut machine, core, thread };
        let block = masu.alloc(caller, 64);
        masu.free(caller, block);
        (block, caller.machine.counts)
    };
    let (first, before) = call(&mut masu, 50);
    let (second, after) = call(&mut masu, 98);
    assert_eq!(first, second);
    assert_eq!((after.locks - before.locks, after.atomics - before.atomics), (2, 2));
    assert_eq!(after.hand_overs, 0);
}

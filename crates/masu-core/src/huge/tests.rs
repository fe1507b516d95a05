//! The whole window against a model: random operations, some of whose system calls are refused, and
//! checks of every block's contents and the window's invariants after each.
//!
//! `MASU_TEST_CASES` sets the number of sequences (by default a few).

use super::*;
use crate::config::Delay;
use crate::own_process::alone;
use crate::space::{RangeState, dirty_bytes, mapped_bytes, purge, unmap_free};
use crate::sys::auxv;
use crate::sys::mem::refusals;
use crate::{clock, settings};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Duration;

const PAGE: usize = 4096;
/// Live blocks take at most this much: 160 MiB, and little under Miri, which takes a second for a few MiB.
const MOST_LIVE: usize = if cfg!(miri) { 24 << 20 } else { 160 << 20 };

#[derive(Clone, Debug)]
enum Step {
    Alloc { size: usize, log_align: u32, zeroed: bool, touch: usize },
    Free(Index),
    Resize { which: Index, size: usize, zeroed: bool, touch: usize },
    Move { which: Index, more: usize, zeroed: bool, touch: usize },
    Purge { all: bool },
    Tick,
    UnmapFree,
    Decay(bool),
    HugePages(bool),
    HugeCache(usize),
}

fn size() -> impl Strategy<Value = usize> {
    let odd = prop_oneof![Just(0), Just(1), 1..UNIT_BYTES];
    let units = match cfg!(miri) {
        true => (1..5usize).boxed(),
        false => prop_oneof![4 => 1..5usize, 2 => 4..10usize, 3 => 10..30usize].boxed(),
    };
    (units, odd).prop_map(|(units, odd)| (units * UNIT_BYTES - odd).max(MEDIUM_MAX + 1))
}

/// A block's owner writes one page in this many.
fn touch() -> impl Strategy<Value = usize> {
    prop_oneof![1 => Just(1usize), 2 => Just(7), 2 => Just(600), 2 => Just(usize::MAX)]
}

fn step() -> impl Strategy<Value = Step> {
    let which = any::<Index>;
    let zeroed = any::<bool>;
    prop_oneof![
        8 => (size(), prop_oneof![5 => Just(0u32), 1 => 21..24u32], zeroed(), touch()).prop_map(
            |(size, log_align, zeroed, touch)| Step::Alloc { size, log_align, zeroed, touch }
        ),
        6 => which().prop_map(Step::Free),
        10 => (which(), size(), zeroed(), touch())
            .prop_map(|(which, size, zeroed, touch)| Step::Resize { which, size, zeroed, touch }),
        5 => (which(), size(), zeroed(), touch())
            .prop_map(|(which, more, zeroed, touch)| Step::Move { which, more, zeroed, touch }),
        1 => any::<bool>().prop_map(|all| Step::Purge { all }),
        1 => Just(Step::Tick),
        1 => Just(Step::UnmapFree),
        1 => any::<bool>().prop_map(Step::Decay),
        1 => any::<bool>().prop_map(Step::HugePages),
        1 => (0..64usize << 20).prop_map(Step::HugeCache),
    ]
}

/// Which of a step's system calls are refused, one bit each.
fn refused() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => Just(0u64),
        2 => (0..6u32).prop_map(|call| 1 << call),
        1 => any::<u64>(),
        1 => Just(u64::MAX),
    ]
}

/// A live block, and the words written in it, by their place.
struct Block {
    p: *mut u8,
    words: BTreeMap<usize, u64>,
}

impl Block {
    fn bytes(&self) -> usize {
        usable_size(self.p)
    }

    fn word(&self, at: usize) -> *mut u64 {
        // SAFETY: inside the block.
        unsafe { self.p.add(at).cast() }
    }

    /// Writes the block's first and last words, and those of one in `every` of its pages.
    fn touch(&mut self, from: usize, every: usize, stamp: &mut u64) {
        let bytes = self.bytes();
        let first = from.next_multiple_of(PAGE);
        let pages = (first..bytes).step_by(every.saturating_mul(PAGE));
        for at in [0, from, bytes - 8].into_iter().chain(pages.flat_map(|p| [p, p + PAGE - 8])) {
            let at = at / 8 * 8;
            *stamp += 1;
            // SAFETY: inside the block, which is the test's alone.
            unsafe { self.word(at).write(*stamp) };
            self.words.insert(at, *stamp);
        }
    }

    /// Checks that the written words are there.
    fn check(&self) {
        for (&at, &word) in self.words.range(..self.bytes()) {
            // SAFETY: inside the block.
            assert_eq!(unsafe { self.word(at).read() }, word, "{at:#x} of {:#x}", self.bytes());
        }
    }

    /// Checks that it is zero from one place to another.
    fn check_zero(&self, from: usize, to: usize) {
        let every = if cfg!(miri) { PAGE - 8 } else { 8 };
        let wrong = (from.next_multiple_of(8)..to / 8 * 8)
            .step_by(every)
            // SAFETY: inside the block.
            .find(|&at| unsafe { self.word(at).read() } != 0);
        assert_eq!(wrong, None, "not zero from {from:#x} to {to:#x}");
    }
}

struct World {
    blocks: Vec<Block>,
    stamp: u64,
    pagemap: Option<std::fs::File>,
}

impl World {
    fn new() -> Self {
        // Nothing from another sequence may be left.
        settings::set_decay(Delay::Never);
        settings::set_huge_cache(usize::MAX);
        settings::set_huge_pages(true);

        World {
            blocks: Vec::new(),
            stamp: 0,
            // Miri's addresses are not the system's.
            pagemap: std::fs::File::open("/proc/self/pagemap").ok().filter(|_| !cfg!(miri)),
        }
    }

    fn free_all(&mut self) {
        for block in self.blocks.drain(..) {
            // SAFETY: live.
            unsafe { give(block.p) };
        }
    }

    fn pick(&self, which: Index) -> Option<usize> {
        (!self.blocks.is_empty()).then(|| which.index(self.blocks.len()))
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.blocks.iter().map(Block::bytes).sum::<usize>() + bytes <= MOST_LIVE
    }

    fn run(&mut self, step: &Step, refused: u64) {
        refusals::set(refused);
        match *step {
            Step::Alloc { size, log_align, zeroed, touch } if self.has_room(size) => {
                let align = 1usize << log_align;
                let p = if zeroed { alloc_zeroed(size, align) } else { alloc(size, align) };
                assert!(!p.is_null() || refused != 0);
                if p.is_null() {
                    return;
                }
                assert!((p as usize).is_multiple_of(align.max(UNIT_BYTES)));
                let mut block = Block { p, words: BTreeMap::new() };
                assert!(block.bytes() >= size && block.bytes() < size + UNIT);
                if zeroed {
                    block.check_zero(0, size);
                }
                block.touch(0, touch, &mut self.stamp);
                self.blocks.push(block);
            }
            Step::Free(which) => {
                if let Some(at) = self.pick(which) {
                    // SAFETY: live.
                    unsafe { give(self.blocks.swap_remove(at).p) };
                }
            }
            Step::Resize { which, size, zeroed, touch } if self.has_room(size) => {
                let Some(at) = self.pick(which) else { return };
                let old = self.blocks[at].bytes();
                // SAFETY: live.
                let done = unsafe { resize_in_place(self.blocks[at].p, size, zeroed) };
                self.resized(at, old, if done { size } else { old }, zeroed && done, touch);
            }
            Step::Move { which, more, zeroed, touch } => {
                let Some(at) = self.pick(which) else { return };
                let old = self.blocks[at].bytes();
                let size = old + more / 4 + 1;
                if !self.has_room(size) {
                    return;
                }
                // SAFETY: live.
                let p = unsafe { grow_by_moving(self.blocks[at].p, size, 1, zeroed) };
                assert!(!p.is_null() || refused != 0);
                if !p.is_null() {
                    self.blocks[at].p = p;
                    self.resized(at, old, size, zeroed, touch);
                }
            }
            Step::Purge { all } => drop(purge(all)),
            Step::Tick => clock::advance(),
            Step::UnmapFree => drop(unmap_free()),
            Step::Decay(at_once) => {
                settings::set_decay(if at_once { Delay::Millis(0) } else { Delay::Never });
            }
            Step::HugePages(may) => settings::set_huge_pages(may),
            Step::HugeCache(bytes) => settings::set_huge_cache(bytes),
            _ => {}
        }
    }

    /// The block of `old` bytes now has `size`.
    fn resized(&mut self, at: usize, old: usize, size: usize, zeroed: bool, touch: usize) {
        let block = &mut self.blocks[at];
        let bytes = block.bytes();
        assert_eq!(bytes, size.next_multiple_of(UNIT));
        block.words.split_off(&bytes);
        block.check();
        if bytes > old {
            if zeroed {
                block.check_zero(old, bytes);
            }
            block.touch(old, touch, &mut self.stamp);
        }
    }

    /// Checks contents, and the space's invariants.
    fn check(&self) {
        self.blocks.iter().for_each(Block::check);
        let space = Locked::enter().expect("nobody forks");
        let (first, end) = (Window::Blocks.first() as u32, Window::Blocks.end() as u32);
        let mut live = BTreeSet::new();
        let (mut unit, mut dirty, mut dirty_count, mut clean_before) = (first, 0, 0, false);
        let (mut bare, mut apart) = (0, 0);
        while unit != end {
            let r = record(unit);
            let n = r.units.get();
            let state = r.state.get();
            let at = format!("{state:?} range of {n} units at {unit}, apart: {}", r.apart.get());
            assert!(n != 0 && unit as usize + n <= end as usize, "{at}");
            for inside in unit + 1..unit + n as u32 {
                assert_eq!(record(inside).state.get(), RangeState::Inside, "{inside} in the {at}");
            }
            match state {
                RangeState::Inside => panic!("{at}"),
                RangeState::Live => {
                    assert!(r.bytes.get() <= n * UNIT_BYTES, "{at}");
                    live.insert(address(unit));
                }
                RangeState::Clean => {
                    assert!(!clean_before && r.dirty.get() == 0 && r.apart.get() == 0, "{at}");
                    bare += if r.bare.get() { n } else { 0 };
                }
                RangeState::Dirty => {
                    dirty += r.dirty.get();
                    dirty_count += 1;
                }
            }
            if state != RangeState::Live {
                assert_eq!(record(unit + n as u32 - 1).first.get(), unit, "{at}");
            }
            assert!(r.dirty.get() <= n * UNIT_BYTES, "{at}");
            apart += usize::from(r.apart.get() != 0);
            self.check_rest(unit, &at);
            clean_before = state == RangeState::Clean;
            unit += n as u32;
        }
        assert_eq!((dirty, dirty_count), (dirty_bytes(), space.dirty_count()));
        assert_eq!(apart, space::apart());
        let mapped = (end - first) as usize - bare;
        assert_eq!(mapped_bytes(Window::Blocks), mapped * UNIT_BYTES);
        assert_eq!(live, self.blocks.iter().map(|b| b.p as usize).collect());
        assert_eq!(self.blocks.iter().map(Block::bytes).sum::<usize>(), usage().live);
    }

    /// Checks that a range has no pages beyond its dirty bytes, or zero ones if they came as part of
    /// huge pages.
    fn check_rest(&self, unit: u32, at: &str) {
        let r = record(unit);
        let from = (address(unit) + r.dirty.get()).next_multiple_of(PAGE);
        let to = address(unit) + r.units.get() * UNIT_BYTES;
        for page in self.resident(from, to) {
            // The system may have made any page huge.
            let huge = page < from.next_multiple_of(UNIT_BYTES);
            assert!(
                huge,
                "a page at {:#x}, behind {:#x}, of the {at}",
                page - address(unit),
                r.dirty.get()
            );
            // SAFETY: mapped, and no thread writes to it.
            let words = unsafe { core::slice::from_raw_parts(page as *const u64, PAGE / 8) };
            assert!(words.iter().all(|word| *word == 0), "{:#x} of the {at}", page - address(unit));
        }
    }

    /// The resident pages from one address to another.
    fn resident(&self, from: usize, to: usize) -> Vec<usize> {
        /// The page exists and is mapped here alone: it is not the page of zeroes.
        const OWN: u64 = 1 << 63 | 1 << 56;
        let Some(pagemap) = &self.pagemap else { return Vec::new() };
        let mut entries = vec![0u8; to.saturating_sub(from) / PAGE * 8];
        pagemap.read_exact_at(&mut entries, (from / PAGE * 8) as u64).expect("a mapped range");
        let entries = entries.chunks_exact(8).map(|e| u64::from_ne_bytes(e.try_into().unwrap()));
        let pages = entries.enumerate().filter(|(_, entry)| entry & OWN == OWN);
        pages.map(|(page, _)| from + page * PAGE).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // After a failure too: the next sequence begins with nothing.
        refusals::set(0);
        self.free_all();
        unmap_free();
    }
}

fn cases() -> u32 {
    let usual = if cfg!(miri) { 1 } else { 8 };
    std::env::var("MASU_TEST_CASES").map_or(usual, |cases| cases.parse().expect("a number"))
}

#[test]
fn blocks_keep_their_contents_and_ranges_their_invariants() {
    alone!(blocks_keep_their_contents_and_ranges_their_invariants, || {
        let most = if cfg!(miri) { 40 } else { 120 };
        let steps = prop::collection::vec((step(), refused()), 1..most);
        let mut runner = TestRunner::new(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::with_cases(cases())
        });
        let outcome = runner.run(&steps, |steps| {
            let mut world = World::new();
            for (step, refused) in &steps {
                world.run(step, *refused);
                refusals::set(0);
                world.check();
            }
            world.free_all();
            world.check();
            while unmap_free() {}
            prop_assert_eq!(usage().mapped, 0);
            Ok(())
        });
        outcome.unwrap_or_else(|failure| panic!("{failure}"));
    });
}

/// A block counts before the next thread asks whether there is room.
#[test]
fn threads_that_wait_for_the_space_stay_below_the_hard_limit() {
    alone!(threads_that_wait_for_the_space_stay_below_the_hard_limit, || {
        const HARD: usize = 64 << 20;
        const SIZE: usize = 24 << 20;
        settings::set_limit_hard(HARD);
        for _ in 0..40 {
            let space = Locked::lock();
            let threads: Vec<_> =
                (0..8).map(|_| thread::spawn(|| alloc(SIZE, 1) as usize)).collect();
            thread::sleep(Duration::from_millis(5));
            drop(space);
            let blocks = threads.into_iter().map(|it| it.join().expect("it ends"));
            let blocks: Vec<_> = blocks.filter(|&p| p != 0).collect();
            assert_eq!(blocks.len(), HARD / SIZE);
            for p in blocks {
                // SAFETY: a live block, freed once.
                unsafe { give(p as *mut u8) };
            }
            purge(true);
        }
    });
}

/// Where the kernel gives huge pages unasked (`always`), a block's last unit is all resident.
#[test]
fn what_a_huge_page_has_behind_a_block_goes_back_with_it() {
    alone!(what_a_huge_page_has_behind_a_block_goes_back_with_it, || {
        settings::set_huge_pages(false);
        let p = alloc(UNIT_BYTES + PAGE, 1);
        let last = p as usize + 2 * UNIT_BYTES - auxv::page_size();
        // SAFETY: invariant 2 of `huge`; where there are only zeroes, one more changes nothing.
        unsafe { (last as *mut u8).write_volatile(0) };
        assert!(mem::is_resident(last));
        // SAFETY: a live block.
        unsafe { give(p) };
        purge(true);
        assert!(!mem::is_resident(last));
    });
}

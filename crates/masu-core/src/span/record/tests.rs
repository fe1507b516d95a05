//! The arithmetic of spans, for every class.

use super::*;
use crate::own_process::alone;
use crate::run::Home;
use crate::size_class::{LAST_CLASS, class_of};
use crate::span::pool;
use crate::sync::AtomicUsize;
use crate::sys::signal;
use std::collections::BTreeSet;

/// A span of a class, this thread's alone until it is dropped.
struct Owned(u32);

impl Owned {
    fn new(class: usize) -> Self {
        region::init().expect("address space");
        let span = pool::take(false, None, Home::ANY).expect("memory");
        // SAFETY: from the pool, this thread's alone.
        unsafe { init(span, class, u32::MAX - 1) };
        Owned(span)
    }

    #[allow(clippy::mut_from_ref, reason = "one thread, one reference at a time")]
    fn record(&self) -> &mut Span {
        // SAFETY: this thread's alone.
        unsafe { &mut *record(self.0) }
    }

    fn start(&self) -> usize {
        region::granule_address(self.0 as usize)
    }

    /// Carves it out in steps and returns the blocks in their order.
    fn carve_all(&self, step: usize) -> Vec<*mut Block> {
        let mut blocks = Vec::new();
        // SAFETY: this thread's alone.
        while let Some((list, n, _)) = unsafe { self.record().carve(self.0, step) } {
            let carved = walk(list);
            assert_eq!(carved.len(), n as usize);
            blocks.extend(carved);
        }
        blocks
    }

    /// Frees a block as its owner does.
    fn free(&self, block: *mut Block) {
        let s = self.record();
        // SAFETY: a block of the span that no other code uses.
        unsafe { Block::make_free(block, s.free) };
        s.free = block;
        s.base = s.base.wrapping_add(1);
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the span is on no list, and its blocks are no longer used.
        unsafe { pool::give(self.0) };
    }
}

fn walk(mut at: *mut Block) -> Vec<*mut Block> {
    let mut blocks = Vec::new();
    while !at.is_null() {
        blocks.push(at);
        // SAFETY: a list that the test made.
        at = unsafe { (*at).next };
    }
    blocks
}

#[test]
fn carving_covers_the_span_exactly() {
    for class in 1..=LAST_CLASS {
        for step in [1, CARVE, CARVE_GROWING, GRANULE] {
            let span = Owned::new(class);
            let (size, capacity) = (size_of_class(class), GRANULE / size_of_class(class));
            let blocks = span.carve_all(step);
            let expected: Vec<_> =
                (0..capacity).map(|i| (span.start() + i * size) as *mut Block).collect();
            assert_eq!(blocks, expected, "class {class} in steps of {step}");
            assert!(GRANULE - capacity * size < size, "one more block fits");
            let s = span.record();
            assert_eq!((usize::from(s.carved), s.capacity() as usize), (capacity, capacity));
            assert_eq!(s.out() as usize, capacity);
            assert!(s.touched() as usize >= capacity * size && s.touched() as usize <= GRANULE);
        }
    }
}

/// A class whose size is a multiple of a power of two has blocks aligned to it.
#[test]
fn blocks_are_aligned_to_every_power_of_two_in_their_size() {
    for class in 1..=LAST_CLASS {
        let span = Owned::new(class);
        let align = 1usize << size_of_class(class).trailing_zeros();
        assert!(align >= 16);
        for block in span.carve_all(CARVE) {
            assert!((block as usize).is_multiple_of(align), "class {class}: {block:?} for {align}");
        }
    }
}

#[test]
fn a_block_and_its_number_are_the_same() {
    for class in 1..=LAST_CLASS {
        let span = Owned::new(class);
        for block in span.carve_all(CARVE) {
            assert_eq!(block_at(span.0, sixteenths(block)), block);
            assert_eq!(span_of(region::offset(block.cast())), span.0);
            // It fits the remote word and is not its mark for no block.
            assert!(sixteenths(block) < GRANULE as u32 / 16);
        }
        // SAFETY: the span exists.
        let entry = unsafe { page_map(span.0) };
        assert_eq!((entry.class(), entry.block_size()), (class, size_of_class(class)));
    }
}

/// Blocks that carving reports as zero are zero, except for the links.
#[test]
fn fresh_blocks_that_are_said_to_be_zero_are() {
    for class in [1, 5, 20, 30, LAST_CLASS] {
        let span = Owned::new(class);
        // SAFETY: this thread's alone.
        while let Some((list, _, zero)) = unsafe { span.record().carve(span.0, CARVE) } {
            for block in walk(list) {
                // SAFETY: a block that is this test's.
                let bytes = unsafe {
                    core::slice::from_raw_parts_mut(block.cast::<u8>(), size_of_class(class))
                };
                assert!(!zero || bytes[8..].iter().all(|b| *b == 0), "class {class}");
                bytes.fill(0xa5);
            }
        }
    }
}

/// A fork may freeze the owner at its first write to the blocks.
#[test]
#[cfg_attr(miri, ignore = "no signals")]
fn whoever_forks_while_blocks_are_carved_knows_what_may_be_written() {
    static SPAN: AtomicUsize = AtomicUsize::new(0);
    static TOUCHED: AtomicUsize = AtomicUsize::new(0);
    alone!(whoever_forks_while_blocks_are_carved_knows_what_may_be_written, || {
        let owned = Owned::new(class_of(1024));
        SPAN.store(owned.0 as usize, Ordering::Relaxed);
        assert!(signal::catch_faults(|_| {
            let span = SPAN.load(Ordering::Relaxed) as u32;
            // SAFETY: the thread that has the span is here.
            let touched = unsafe { (&raw const (*record(span)).touched).read_volatile() };
            TOUCHED.store(usize::from(touched) * 16, Ordering::Relaxed);
            // SAFETY: the span's, as it was.
            unsafe { mem::protect(region::granule_address(span as usize), GRANULE, true) };
        }));
        // SAFETY: only the carving below accesses it, and the handler deals with that.
        assert!(unsafe { mem::protect(owned.start(), GRANULE, false) });
        // SAFETY: this thread's alone.
        let (_, blocks, _) = unsafe { owned.record().carve(owned.0, CARVE) }.expect("room");
        assert_eq!(TOUCHED.load(Ordering::Relaxed), blocks as usize * 1024);
    });
}

#[test]
fn counts_follow_frees_merges_and_countdowns() {
    let span = Owned::new(10);
    let blocks = span.carve_all(GRANULE);
    let (local, remote) = blocks.split_at(5);
    local.iter().for_each(|b| span.free(*b));
    let s = span.record();
    assert_eq!(s.free_len(), 5);
    assert_eq!(s.out() as usize, blocks.len() - 5);
    // The owner's frees count down, and the list's length stays known.
    s.set_countdown(7);
    assert_eq!((s.free_len(), s.countdown), (5, 7));
    s.countdown -= 3;
    assert_eq!(s.free_len(), 8, "three more were freed");
    s.countdown += 3;

    // A chain from the remote word, first block first, the last one's link null.
    for pair in remote[..4].windows(2) {
        // SAFETY: blocks of the span that no other code uses.
        unsafe { (*pair[0]).next = pair[1] };
    }
    // SAFETY: as above.
    unsafe { (*remote[3]).next = null_mut() };
    let chain = Chain { head: sixteenths(remote[0]), tail: sixteenths(remote[3]), count: 4 };
    // SAFETY: a chain of four blocks of the span.
    unsafe { s.merge(span.0, chain) };
    assert_eq!(s.free_len(), 9);
    let listed: BTreeSet<_> = walk(s.free).into_iter().collect();
    assert_eq!(listed, blocks[..9].iter().copied().collect());
    // An empty chain changes nothing.
    // SAFETY: as above.
    unsafe { s.merge(span.0, Chain { head: 0, tail: 0, count: 0 }) };
    assert_eq!(s.free_len(), 9);

    let list = s.take_free();
    assert_eq!(walk(list).len(), 9);
    assert!(s.free.is_null());
    assert_eq!((s.free_len(), s.out() as usize), (0, blocks.len()));
}

#[test]
fn a_threshold_is_an_eighth_of_the_span_within_bounds() {
    for class in 1..=LAST_CLASS {
        let blocks = GRANULE / size_of_class(class);
        assert_eq!(threshold(class) as usize, (blocks / 8).clamp(1, 32));
        assert!(threshold(class) as usize <= blocks);
    }
}

/// Each link of chains of every length is changed in every way that leads elsewhere, or nowhere.
#[test]
fn a_chain_with_a_broken_link_is_not_whole() {
    let owned = Owned::new(class_of(64));
    let blocks = owned.carve_all(CARVE);
    let link = |from: *mut Block, to: usize| {
        // SAFETY: a block of the span, this thread's alone; the link is only compared.
        unsafe { (*from).next = to as *mut Block };
    };
    for n in (2..=70).filter(|n| !cfg!(miri) || [2, 5, 17].contains(n)) {
        let used = &blocks[7..7 + n];
        for (i, &block) in used.iter().enumerate() {
            link(block, used.get(i + 1).map_or(0, |next| next.addr()));
        }
        let ends = (sixteenths(used[0]), sixteenths(used[n - 1]));
        let chain = Chain { head: ends.0, tail: ends.1, count: n as u32 };
        // SAFETY: freed blocks, this thread's alone.
        let is_whole = |chain: &Chain| unsafe { chain.is_whole(owned.0) };
        assert!(is_whole(&chain), "{n} blocks");
        assert!(!is_whole(&Chain { count: n as u32 - 1, ..chain }), "{n} blocks and a short count");
        assert!(!is_whole(&Chain { count: n as u32 + 1, ..chain }), "{n} blocks and a long count");
        for i in 0..n {
            let right = used.get(i + 1).map_or(0, |next| next.addr());
            let aside = [
                right ^ 1,
                right ^ 1 << GRANULE_SHIFT,
                right ^ 1 << 40,
                right & 0xffff_ffff | 1 << 33,
                right & (GRANULE - 1) | 1,
                used[i].addr(),
                used[0].addr(),
                blocks[0].addr(),
                usize::MAX,
                1,
            ];
            for wrong in aside.into_iter().filter(|&wrong| wrong != right) {
                link(used[i], wrong);
                assert!(!is_whole(&chain), "link {i} of {n} is {wrong:#x} instead of {right:#x}");
            }
            link(used[i], right);
        }
    }
}

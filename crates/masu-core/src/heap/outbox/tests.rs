//! When chains go out. A purge may send them too.

use super::*;
use crate::config::Delay;
use crate::heap::tls::current;
use crate::own_process::alone;
use crate::size_class::SMALL_MAX;
use crate::span::{remote, span_of};
use crate::tuning::CHAIN_OF_SMALL;
use crate::{alloc, dealloc, region, settings};
use std::sync::Barrier;
use std::thread;

/// Bytes in a block: as many per chain as possible, and so few spans for many of them that their owner keeps all.
const SIZE: usize = 16;

/// A block of a thread that sleeps, and many others, in other spans of that thread.
struct Blocks {
    one: *mut u8,
    others: Vec<*mut u8>,
}

// SAFETY: freed once, by the thread that they are sent to.
unsafe impl Send for Blocks {}
// SAFETY: as above.
unsafe impl Sync for Blocks {}

/// Runs `f` on a separate thread, with blocks of one that sleeps meanwhile, the others of a size.
fn beside_a_sleeper(many: usize, size: usize, f: impl FnOnce(&Blocks) + Send) {
    let (ready, done) = (Barrier::new(2), Barrier::new(2));
    let made = std::sync::OnceLock::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            let others = (0..many).map(|_| alloc(size)).collect();
            assert!(made.set(Blocks { one: alloc(8 * SIZE), others }).is_ok());
            ready.wait();
            done.wait();
        });
        let worked = scope
            .spawn(|| {
                // SAFETY: a block that no other code knows. The thread now has a heap.
                unsafe { dealloc(alloc(SIZE)) };
                ready.wait();
                f(made.get().unwrap());
            })
            .join();
        done.wait();
        assert!(worked.is_ok());
    });
}

fn pending(p: *mut u8) -> u32 {
    // SAFETY: the span of a block of the engine.
    unsafe { remote(span_of(region::offset(p))) }.pending()
}

#[test]
fn a_chain_that_no_longer_grows_goes_out_while_others_do() {
    alone!(a_chain_that_no_longer_grows_goes_out_while_others_do, || {
        let chains = 3 * SLOTS;
        beside_a_sleeper(chains * CHAIN_OF_SMALL.0 as usize, SIZE, |blocks| {
            // Blocks that came back when another thread had the span, and left it to this one.
            let before = pending(blocks.one);
            // SAFETY: live blocks, freed once.
            unsafe { dealloc(blocks.one) };
            for &block in &blocks.others {
                // SAFETY: as above.
                unsafe { dealloc(block) };
            }
            assert_eq!(pending(blocks.one), before + 1, "it stayed after {chains} chains");
        });
    });
}

#[test]
fn a_chain_goes_out_when_it_is_full() {
    alone!(a_chain_goes_out_when_it_is_full, || {
        beside_a_sleeper(2 * CHAIN_OF_SMALL.0 as usize, SIZE, |blocks| {
            for &block in &blocks.others {
                // SAFETY: live blocks, freed once.
                unsafe { dealloc(block) };
            }
            // A purge may have sent a part earlier.
            assert!(pending(blocks.others[0]) > CHAIN_OF_SMALL.0, "a full chain stayed");
            // SAFETY: as above.
            unsafe { dealloc(blocks.one) };
        });
    });
}

/// Blocks of spans that share all slots.
#[test]
fn a_chain_stays_while_blocks_go_out_that_are_chains_by_themselves() {
    alone!(a_chain_stays_while_blocks_go_out_that_are_chains_by_themselves, || {
        // No purge sends it.
        settings::set_decay(Delay::Millis(3_600_000));
        let in_span = GRANULE / SMALL_MAX;
        beside_a_sleeper(3 * SLOTS * in_span, SMALL_MAX, |blocks| {
            // SAFETY: live blocks, freed once.
            unsafe { dealloc(blocks.one) };
            let before = pending(blocks.one);
            for &block in &blocks.others {
                // SAFETY: as above.
                unsafe { dealloc(block) };
            }
            assert_eq!(pending(blocks.one), before, "another span's block sent it");
        });
    });
}

/// The next block that goes out counts what the purge has sent, whatever its length.
#[test]
fn a_block_that_is_a_chain_by_itself_counts_what_the_purge_has_sent() {
    alone!(a_block_that_is_a_chain_by_itself_counts_what_the_purge_has_sent, || {
        // No purge comes by itself.
        settings::set_decay(Delay::Millis(3_600_000));
        beside_a_sleeper(1, SMALL_MAX, |blocks| {
            let heap = current();
            let before = heap.counters.remote_frees.get();
            // SAFETY: live blocks, freed once.
            unsafe { dealloc(blocks.one) };
            let inside = heap.outbox.holder.enter();
            // As the purge does.
            heap.outbox.send_all(None);
            drop(inside);
            // SAFETY: as above.
            unsafe { dealloc(blocks.others[0]) };
            assert_eq!(heap.counters.remote_frees.get() - before, 2);
        });
    });
}

#[test]
fn the_first_free_takes_over_a_span_with_room_that_nobody_owns() {
    alone!(the_first_free_takes_over_a_span_with_room_that_nobody_owns, || {
        const LONG: usize = 4000;
        // SAFETY: a block that no other code knows. The thread now has a heap.
        unsafe { dealloc(alloc(LONG)) };
        let made = thread::spawn(|| {
            let blocks: Vec<_> = (0..2 * GRANULE / LONG).map(|_| alloc(LONG)).collect();
            // SAFETY: a live block, freed once. It lies in a full span, which is partial now.
            unsafe { dealloc(blocks[0]) };
            blocks.into_iter().skip(1).map(|p| p as usize).collect::<Vec<_>>()
        });
        let blocks = made.join().expect("it ends");
        let owner = || owner_of(span_of(region::offset(blocks[0] as *const u8)));
        assert_eq!(owner(), 0);
        // SAFETY: live blocks, freed once.
        unsafe { dealloc(blocks[0] as *mut u8) };
        assert_eq!(owner(), super::super::tls::current().id.get());
        // SAFETY: as above.
        blocks.into_iter().skip(1).for_each(|p| unsafe { dealloc(p as *mut u8) });
    });
}

//! The functions that the checks call: allocation and freeing as in programs, and the beginning and end of threads.
//!
//! A thread of a model has no heap unless it [`begin`]s one, like one that is past its destructors.

use super::fast::Freed;
use super::outbox::Added;
use super::record::{Heap, Role};
use super::tls::{EMPTY, current, gone, set_current};
use super::{birth, exit, fast, fork, free as frees, handover, retain, source, table, unowned};
use crate::lock;
use crate::models::world::region::offset;
use crate::models::world::{process, region};
use crate::size_class::class_of;
use crate::span::{Block, span_of};
use std::cell::RefCell;
use std::collections::BTreeMap;

std::thread_local! {
    /// The heaps of a model by the names that it gives them.
    static HEAPS: RefCell<BTreeMap<usize, *const Heap>> = const { RefCell::new(BTreeMap::new()) };
}

/// Gives the calling thread a heap, unless a fork is in progress: then it has none.
pub fn begin(name: usize) {
    process::call(|| {
        set_current(&EMPTY);
        let Some(heap) = birth::current_or_made() else {
            assert!(lock::fork::has_been(), "the world is out of heaps");
            return set_current(gone());
        };
        HEAPS.with_borrow_mut(|heaps| heaps.insert(name, heap));
        if table::counts().1 == 1 {
            // No heap gives anything up before there has been a second one.
            assert!(table::take_back(table::acquire().unwrap()));
        }
    });
}

/// Lets the calling thread go on with a heap that it began before.
pub fn resume(name: usize) {
    // SAFETY: begun, and not another thread's.
    HEAPS.with_borrow(|heaps| set_current(unsafe { &*heaps[&name] }));
}

/// Leaves the calling thread without a heap until it goes on with one.
pub fn pause() {
    set_current(gone());
}

/// Ends the calling thread as its destructor does if a heap was already left: it gives everything up.
pub fn exit() {
    process::call(|| {
        let heap = current();
        if heap.role.get() != Role::Thread {
            return;
        }
        set_current(gone());
        exit::abandon(heap);
        table::release(heap);
    });
}

/// Ends the calling thread as its destructor does: it leaves its active spans to the next one.
pub fn leave() {
    process::call(|| exit::end(current()));
}

/// The purge gives up the heap that a thread left to the next one.
pub fn rest() {
    process::call(|| handover::give_up_idle(true));
}

/// A block of up to 8 KiB, by its address.
pub fn alloc(size: usize) -> usize {
    process::call(|| {
        let mut block = fast::alloc_small(size);
        if block.is_null() {
            block = source::alloc_small_slow(class_of(size)).cast();
        }
        if block.is_null() && lock::fork::has_been() {
            if lock::fork::is_in_progress() {
                return SPARE;
            }
            block = source::alloc_small_slow(class_of(size)).cast();
        }
        assert!(!block.is_null(), "the world is out of spans");
        // SAFETY: the block is the caller's.
        assert!(!unsafe { Block::is_marked(block.cast()) }, "a block is handed out with its mark");
        region::handed_out(block as usize);
        block as usize
    })
}

/// What a thread without free blocks gets during a fork: not a span's memory, and never missed.
const SPARE: usize = 16;

/// Frees a block.
pub fn free(block: usize) {
    if block == SPARE {
        return;
    }
    process::call(|| {
        region::freed(block);
        let p = block as *mut u8;
        // SAFETY: the block was live. This is what the face does.
        let done = unsafe {
            match fast::dealloc(p) {
                Freed::Done => Some(0),
                Freed::Look(line) => Some(frees::look_at_freed(line).into()),
                Freed::Others(granule, base) => match frees::add_to_chain(base, p, granule) {
                    Added::Yes => Some(0),
                    Added::Begin(class) if frees::begin_chain(p, granule, class) => Some(0),
                    Added::Full(class) => frees::send_chain(p, granule, class)
                        .or_else(|| frees::free_of_others(p, granule)),
                    Added::Begin(_) | Added::No => frees::free_of_others(p, granule),
                },
                Freed::Unknown => None,
            }
        };
        if done.is_none() {
            // SAFETY: as above; nothing has changed.
            unsafe { frees::remote_free(span_of(offset(p)), p.cast()) };
        }
    });
}

/// The purge gives back spans that were freed during a fork, and purges the free pages of the abandoned ones. Returns
/// the bytes given back.
pub fn purge_spans() -> usize {
    process::call(|| {
        fork::free_deferred();
        unowned::purge_spans(true)
    })
}

/// The purge sends out what threads hold in their outboxes.
pub fn visit() {
    process::call(|| table::for_each(|heap| heap.outbox.visit(true)));
}

/// Gives up an owned span that is on no list.
pub fn give_up(span: u32) {
    // SAFETY: the caller owns it.
    unsafe { retain::give_up_partial(span, false) };
}

/// Takes apart a heap whose thread a fork left behind, if there is one.
pub fn adopt_an_orphan() {
    process::call(fork::adopt_an_orphan);
}

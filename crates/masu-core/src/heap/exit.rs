//! A thread's exit: everything that its heap owns passes to other owners.
//!
//! The destructor of a pthread key runs after C++ and Rust thread-locals. Destructors of other keys
//! may still run after it and allocate, so it puts itself off to the second round. Calls that come later
//! still (further rounds, and the C library's own clean-up) find
//! [`gone`](super::tls::gone): frees are remote ones, allocations borrow from the shared arena.

use super::bin::abandon_active;
use super::record::Heap;
use super::retain::give_up;
use super::sampling::bins;
use super::tls::{gone, set_current};
use super::{handover, scope, table};
use crate::hardened;
use crate::size_class::LAST_CLASS;
use crate::sync::{AtomicU32, AtomicUsize, Ordering, shared_static};
use crate::sys::host;
use core::ffi::c_void;
use core::mem::transmute;

/// The call of the destructor that ends the heap. The C library makes four rounds (`PTHREAD_DESTRUCTOR_ITERATIONS`), and
/// calls it in two of them at least even if the thread first used the engine in another key's destructor, up to the
/// second round.
const ROUNDS: u32 = 2;

shared_static! {
    /// The pthread key + 1; 0 before it is made, `NO_KEY` if none is available.
    static KEY: AtomicU32 = AtomicU32::new(0);
}
const NO_KEY: u32 = u32::MAX;

/// Makes the key whose destructor gives a thread's heap back. Called by the first heap's birth and
/// again harmlessly by the library's constructor; early, so that the key's number is low and its
/// destructor runs after those of the program.
pub fn init_process() {
    if KEY.load(Ordering::Acquire) != 0 {
        return;
    }
    let key = host::key_create(destructor).map_or(NO_KEY, |k| k.wrapping_add(1));
    // Two first threads at once: the loser's key stays unused.
    let _ = KEY.compare_exchange(0, key, Ordering::AcqRel, Ordering::Relaxed);
}

/// Asks the C library to run [`destructor`] at the calling thread's exit.
pub fn arm(heap: &'static Heap) -> bool {
    match KEY.load(Ordering::Acquire) {
        0 | NO_KEY => false,
        key => host::key_set(key - 1, (heap as *const Heap).cast_mut().cast()),
    }
}

/// The key's destructor.
///
/// # Safety
/// Must be called by the C library, with what [`arm`] stored.
pub unsafe extern "C" fn destructor(heap: *mut c_void) {
    // SAFETY: the value is the thread's heap, set by `arm`, and stays one (invariant 4 of `heap`).
    end(unsafe { &*(heap as *const Heap) });
}

shared_static! {
    /// The function to call once a thread has ended, as an address; 0 if there is none.
    static ENDED: AtomicUsize = AtomicUsize::new(0);
}

/// Has `ended` called after each thread's end.
pub fn set_ended(ended: fn()) {
    ENDED.store(ended as usize, Ordering::Release);
}

/// Ends the thread of a heap, if this is its last round.
pub fn end(heap: &'static Heap) {
    let round = heap.exit_round.get() + 1;
    heap.exit_round.set(round);
    if round < ROUNDS && arm(heap) {
        return;
    }
    set_current(gone());
    abandon_all_but_active(heap);
    if !handover::leave(heap) {
        abandon_active(heap);
        table::release(heap);
    }
    let ended = ENDED.load(Ordering::Acquire);
    if ended != 0 {
        // SAFETY: stored by `set_ended`, from a function of this type.
        unsafe { transmute::<usize, fn()>(ended)() }
    }
}

/// Gives away all that a heap owns. The calling thread is the heap's, or the heap is an orphan.
pub fn abandon(heap: &'static Heap) {
    abandon_all_but_active(heap);
    abandon_active(heap);
}

fn abandon_all_but_active(heap: &'static Heap) {
    scope::close_all(heap);
    heap.runs.drain();
    heap.outbox.drain(heap);
    abandon_lists(heap);
    heap.zero.set(0);
    bins::end(heap);
    hardened::cache::empty(heap.index.get() as usize);
    for i in 0..=LAST_CLASS {
        heap.borrowed[i].set(0);
        heap.larger_waste[i].set(0);
    }
}

/// Gives up the heap's partial and full spans.
pub(super) fn abandon_lists(heap: &Heap) {
    for class in 1..=LAST_CLASS {
        for list in [heap.partial(class), heap.full(class)] {
            // SAFETY: invariants 1 and 2 of `heap`, whose thread this is (or it is an orphan).
            unsafe {
                while let Some(span) = list.pop_front() {
                    give_up(heap, span);
                }
            }
        }
    }
    heap.full_count.set(0);
}

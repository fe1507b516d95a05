//! What a thread gives up because it has not used it for a tick.
//!
//! The threads of a server's pool work in turns, and sleep in between. Each would keep, for every class
//! that it ever used, an active slab and some partial and full ones, while the thread whose turn it is
//! takes fresh ones. So a thread that refills a bin looks, once in a tick, what has rested since the
//! tick before last, and gives it up: to whoever needs it first, or to the purge, which hollows it.
//!
//! Only a heap with blocks that others free does so. Where nobody shares anything, nobody else would
//! have a use for the slabs, and their own thread would free into them as if they were others'.

use super::refill::{give_up_full, give_up_partial, gives_up};
use super::{Heap, Role, exit};
use crate::clock::Tick;
use crate::size_class::{LAST_CLASS, size_of_class};
use crate::slab;

/// Called when the class's bin is about to be filled: notes that, and, in a new tick, gives up what has
/// rested. O(what is given up, and the blocks in its bins), at most once in a tick.
#[inline]
pub fn look(heap: &Heap, class: usize) {
    let now = Tick::now();
    heap.used[class & 63].set(now.into());
    if heap.rested.replace(now) != now
        && heap.role.get() == Role::Thread
        && heap.is_shared()
        && gives_up(heap)
    {
        give_up_rested(heap);
    }
}

#[cold]
#[inline(never)]
fn give_up_rested(heap: &Heap) {
    // SAFETY: the heap is the calling thread's, and so are its slabs; who has been taken out of a list is
    // in none, and slabs in lists have no blocks in a bin.
    unsafe {
        let rested = |slab: u32| (*slab::record(slab)).since.rested();
        for class in 1..=LAST_CLASS {
            let partial = heap.partial(class);
            while let Some(oldest) = partial.back().filter(|s| rested(*s)) {
                partial.remove(oldest);
                give_up_partial(oldest, true);
            }
            while let Some(oldest) = heap.full(class).front().filter(|s| rested(*s)) {
                heap.full(class).remove(oldest);
                heap.full_count.set(heap.full_count.get() - 1);
                give_up_full(heap, oldest, class);
            }
            if heap.used[class].get().rested() {
                let binned = exit::leave_active(heap, class);
                heap.bytes.sub(u64::from(binned) * size_of_class(class) as u64);
            }
        }
    }
}

// The model checker takes this file in from elsewhere.
#[cfg(all(test, not(loom)))]
#[path = "rest/tests.rs"]
mod tests;

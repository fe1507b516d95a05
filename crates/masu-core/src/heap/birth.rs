//! A thread's first allocation: its heap, and the promise to clean up at its exit.

use super::record::{Heap, Role};
use super::sampling::bins;
use super::tls::{current, set_current};
use super::{exit, processor_cache, table};
use crate::region;
use crate::sync::{AtomicU64, Ordering, array_of, shared_static};
use crate::sys::thread;

/// The calling thread's heap, made now if it has none yet; `None` for a thread that is past its
/// destructors, if memory is out, or if caches per processor suffice.
#[inline]
pub fn current_or_new() -> Option<&'static Heap> {
    let heap = current();
    if heap.role.get() == Role::Thread {
        return Some(heap);
    }
    if processor_cache::suffices() { None } else { new() }
}

/// The same for a thread that asks for what only a heap has.
#[cold]
pub fn current_or_made() -> Option<&'static Heap> {
    let heap = current();
    if heap.role.get() == Role::Thread { Some(heap) } else { new() }
}

/// The same for a thread that frees a block of another one: none for its first such frees. On a thread that ends, past
/// all destructors, the C library frees what it kept of earlier threads, and no call would end that heap.
pub fn current_or_later() -> Option<&'static Heap> {
    let waits = || processor_cache::suffices() || !frees_many();
    if current().role.get() == Role::Empty && waits() {
        // The only heap there is may get its blocks back from threads that never have one.
        table::note_others();
        return None;
    }
    current_or_new()
}

/// Frees of a thread without a heap after which it gets one. glibc keeps stacks of 40 MiB in all, five of the usual
/// length, and frees a block for each. These blocks go out one by one, and nobody checks the links of such: so not many.
const MANY: u64 = if cfg!(loom) { 1 } else { 8 };

shared_static! {
    /// The last threads without a heap that freed blocks: their numbers in the upper halves, and how many in the lower.
    static FREED: [AtomicU64; 16] = array_of!(AtomicU64::new(0); 16);
}

/// Counts a free of the calling thread, which has no heap. Returns whether there were many; if several threads share a
/// count, that may take longer.
#[cold]
#[inline(never)]
fn frees_many() -> bool {
    let me = u64::from(thread::id());
    let count = &FREED[me as usize % FREED.len()];
    let before = count.load(Ordering::Relaxed);
    let freed = if before >> 32 == me { before & u64::from(u32::MAX) } else { 0 };
    if freed < MANY {
        count.store((me << 32) | (freed + 1), Ordering::Relaxed);
    }
    freed >= MANY
}

#[cold]
fn new() -> Option<&'static Heap> {
    if current().role.get() == Role::Gone {
        return None;
    }
    debug_assert_eq!(current().role.get(), Role::Empty);
    // The C library may not know of the thread that has the other heap.
    if table::counts().1 != 0 {
        crate::sharing::begin();
    }
    // The hook may have made the heap.
    if current().role.get() == Role::Thread {
        return Some(current());
    }
    if region::base() == 0 {
        region::init().ok()?;
    }
    super::fork::adopt_an_orphan();
    let heap = table::acquire()?;
    heap.bytes.begin();
    heap.runs.seat.settle();
    // The word first, because what follows may allocate.
    set_current(heap);
    bins::begin(heap);
    exit::init_process();
    exit::arm(heap);
    Some(heap)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::own_process::alone;
    use crate::sync::AtomicU32;
    use std::time::Duration;

    static CALLS: AtomicU32 = AtomicU32::new(0);

    /// Neither finds that the other has a heap. A fork has to know of the locks that they take.
    #[test]
    fn of_two_first_threads_one_is_the_second() {
        alone!(of_two_first_threads_one_is_the_second, || {
            crate::sharing::set_hook(|| {
                CALLS.fetch_add(1, Ordering::Relaxed);
            });
            region::init().expect("address space");
            let guard = table::lock_for_fork().lock();
            let threads: Vec<_> = (0..2)
                .map(|_| std::thread::spawn(|| assert!(current_or_new().is_some())))
                .collect();
            // Both wait for the lock.
            std::thread::sleep(Duration::from_millis(200));
            drop(guard);
            threads.into_iter().for_each(|thread| thread.join().expect("a heap"));
            assert_eq!(CALLS.load(Ordering::Relaxed), 1);
        });
    }
}

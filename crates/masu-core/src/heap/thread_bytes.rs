//! Counts what the calling thread allocates and frees, in its [account](super::account).

use super::record::Role;
use super::tls::current;
use super::{birth, flush};
use crate::span;

pub use super::account::ThreadBytes;

/// Makes the calling thread's words exact, for the next reader. O(spans of its heap + blocks in its bins); what
/// its outbox holds goes out.
pub fn settle() {
    let heap = current();
    if heap.role.get() != Role::Thread {
        return;
    }
    heap.outbox.drain(heap);
    heap.for_each_span(|span| {
        // SAFETY: invariant 2 of `heap`: an owned span of the heap, whose thread this is. So its line is this thread's
        // (invariant 5 of `span::record`).
        heap.bytes.freed_own(unsafe { (*span::record(span)).take_freed() });
    });
    heap.bytes.settle(flush::binned_bytes(heap));
}

/// The calling thread's account; `None` for a thread past its destructors, or if there is no memory
/// for a heap. That of a thread that needed no heap before begins at zero.
pub fn account() -> Option<&'static ThreadBytes> {
    birth::current_or_made().map(|heap| &heap.bytes)
}

/// Counts a medium or huge block that the calling thread has allocated.
#[inline]
pub fn allocated(bytes: usize) {
    if let Some(heap) = birth::current_or_new() {
        heap.bytes.add(bytes as u64);
    }
}

/// Counts a medium or huge block that the calling thread has freed.
#[inline]
pub fn freed(bytes: usize) {
    let heap = current();
    if heap.role.get() == Role::Thread {
        heap.bytes.sub(bytes as u64);
    }
}

/// Counts a medium or huge block that the calling thread has resized.
pub fn resized(from: usize, to: usize) {
    if from != to
        && let Some(heap) = birth::current_or_new()
    {
        heap.bytes.sub(from as u64);
        heap.bytes.add(to as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{source, tls};
    use crate::own_process::alone;
    use crate::size_class::class_of;
    use crate::tuning::NEVER_BORROW;
    use std::sync::{Arc, Barrier};
    use std::thread;

    /// All threads past their destructors have one account, and no lock for it.
    #[test]
    fn a_thread_that_has_ended_counts_nothing() {
        alone!(a_thread_that_has_ended_counts_nothing, || {
            let threads = NEVER_BORROW as usize;
            let (begun, end) =
                (Arc::new(Barrier::new(threads + 1)), Arc::new(Barrier::new(threads + 1)));
            let others: Vec<_> = (0..threads)
                .map(|_| {
                    let (begun, end) = (Arc::clone(&begun), Arc::clone(&end));
                    thread::spawn(move || {
                        assert!(super::account().is_some());
                        begun.wait();
                        end.wait();
                    })
                })
                .collect();
            begun.wait();
            // The second batch has two blocks, one of which is left over.
            let borrower =
                || (0..2).for_each(|_| assert!(!source::alloc_exact(class_of(100)).is_null()));
            thread::spawn(borrower).join().expect("it ends");
            let account = &tls::gone().bytes;
            assert_eq!((account.uncounted.get(), account.undone.get()), (0, 0));
            end.wait();
            others.into_iter().for_each(|thread| thread.join().expect("it waited"));
        });
    }
}

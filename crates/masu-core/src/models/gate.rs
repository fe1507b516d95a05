//! The gate of an arena: an allocation waits for the lock, a free never does.
//!
//! ```text
//!  free ── try ─┬─ inside ────────────────────▶ put, take what was left ─▶ exit ─┬─ nothing left ─▶ out
//!               └─ held ─▶ leave it ─▶ try ─┬─ inside ──▲              ▲─────────┘ something, and inside
//!                                           └─ held ─▶ out: the thread inside sees to it
//! ```
//!
//! A free of a hardened block notes what it has freed, without waiting, and rings; the thread inside takes the notes.
//!
//! Invariants: one thread at a time uses the heap; when all calls have returned, every freed block was put back once,
//! and nothing is left.

use super::check;
use super::world::heap::gate::Gate;
use crate::lock::Guard;
use crate::span::Block;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use std::sync::Arc;

const BLOCKS: usize = 3;

/// A heap that only counts which blocks were put back.
struct Heap {
    gate: Gate,
    put: UnsafeCell<[u32; BLOCKS]>,
    /// Blocks noted, and how many of these notes were taken.
    noted: AtomicUsize,
    taken: UnsafeCell<usize>,
    /// The blocks' first words.
    links: [UnsafeCell<usize>; BLOCKS],
}

// SAFETY: the checker watches the cells.
unsafe impl Sync for Heap {}
// SAFETY: as above.
unsafe impl Send for Heap {}

/// A block's address, and back.
fn address(block: usize) -> usize {
    (block + 1) * 16
}

impl Heap {
    fn new() -> Arc<Self> {
        Arc::new(Heap {
            gate: Gate::new(),
            put: UnsafeCell::new([0; BLOCKS]),
            noted: AtomicUsize::new(0),
            taken: UnsafeCell::new(0),
            links: core::array::from_fn(|_| UnsafeCell::new(0)),
        })
    }

    fn put(&self, block: usize) {
        // SAFETY: inside the gate; the checker sees a race.
        self.put.with_mut(|put| unsafe { (*put)[block] += 1 });
    }

    fn leave(&self, inside: Guard<'_>) {
        let mut inside = inside;
        loop {
            let mut at = self.gate.take(&inside);
            while at != 0 {
                let block = at / 16 - 1;
                // SAFETY: blocks left belong to the holder.
                at = Gate::below(self.links[block].with(|link| unsafe { *link }));
                self.put(block);
            }
            self.take_note();
            match self.gate.exit(inside) {
                Some(again) => inside = again,
                None => return,
            }
        }
    }

    fn free(&self, block: usize) {
        let inside = match self.gate.try_enter() {
            Some(inside) => {
                self.put(block);
                Some(inside)
            }
            None => self.gate.leave_behind(address(block) as *mut Block, |top| {
                // SAFETY: the block is this thread's until it is left.
                self.links[block].with_mut(|link| unsafe { *link = top });
            }),
        };
        if let Some(inside) = inside {
            self.leave(inside);
        }
    }

    /// Takes the notes.
    fn take_note(&self) {
        let noted = self.noted.swap(0, Ordering::Acquire);
        // SAFETY: inside the gate; the checker sees a race.
        self.taken.with_mut(|taken| unsafe { *taken += noted });
    }

    /// A free of a hardened block.
    fn note(&self) {
        self.noted.fetch_add(1, Ordering::Release);
        if let Some(inside) = self.gate.try_enter().or_else(|| self.gate.ring()) {
            self.take_note();
            self.leave(inside);
        }
    }

    fn all_taken(&self, notes: usize) {
        // SAFETY: all other threads have ended.
        assert_eq!(
            self.taken.with(|taken| unsafe { *taken }),
            notes,
            "what was noted is forgotten"
        );
    }

    /// An allocation: one call inside the gate.
    fn alloc(&self) {
        let inside = self.gate.enter();
        // SAFETY: inside the gate.
        self.put.with(|put| unsafe { assert!((*put).iter().all(|n| *n <= 1)) });
        self.leave(inside);
    }

    /// The purge: goes inside if no thread is.
    fn visit(&self) {
        if let Some(inside) = self.gate.try_enter() {
            self.leave(inside);
        }
    }

    fn settled(&self, blocks: usize) {
        // SAFETY: all other threads have ended.
        let put = self.put.with(|put| unsafe { *put });
        assert!(
            put.iter().take(blocks).all(|n| *n == 1),
            "blocks are lost, or back twice: {put:?}"
        );
    }
}

fn spawn(heap: &Arc<Heap>, f: impl FnOnce(&Heap) + 'static) -> thread::JoinHandle<()> {
    let heap = heap.clone();
    thread::spawn(move || f(&heap))
}

#[test]
fn frees_against_an_allocation() {
    check(3, || {
        let heap = Heap::new();
        let freers = [0, 1].map(|block| spawn(&heap, move |heap| heap.free(block)));
        heap.alloc();
        freers.into_iter().for_each(|freer| freer.join().unwrap());
        heap.settled(2);
    });
}

#[test]
fn one_free_against_an_allocation_in_every_interleaving() {
    check(None, || {
        let heap = Heap::new();
        let freer = spawn(&heap, |heap| heap.free(0));
        heap.alloc();
        freer.join().unwrap();
        heap.settled(1);
    });
}

#[test]
fn frees_against_the_purge_and_each_other() {
    check(3, || {
        let heap = Heap::new();
        let freer = spawn(&heap, |heap| heap.free(0));
        let purge = spawn(&heap, Heap::visit);
        heap.free(1);
        freer.join().unwrap();
        purge.join().unwrap();
        heap.settled(2);
    });
}

/// Two blocks left one after the other: the second links to the first.
#[test]
fn a_chain_that_is_left_comes_back_whole() {
    check(2, || {
        let heap = Heap::new();
        let freer = spawn(&heap, |heap| {
            heap.free(0);
            heap.free(1);
        });
        let other = spawn(&heap, |heap| heap.free(2));
        heap.alloc();
        freer.join().unwrap();
        other.join().unwrap();
        heap.settled(3);
    });
}

#[test]
fn one_note_against_an_allocation_in_every_interleaving() {
    check(None, || {
        let heap = Heap::new();
        let freer = spawn(&heap, Heap::note);
        heap.alloc();
        freer.join().unwrap();
        heap.all_taken(1);
    });
}

/// A bell and a chain at once: neither is lost.
#[test]
fn notes_and_blocks_that_are_left_at_once() {
    check(3, || {
        let heap = Heap::new();
        let noter = spawn(&heap, |heap| {
            heap.note();
            heap.note();
        });
        let freer = spawn(&heap, |heap| heap.free(0));
        heap.alloc();
        noter.join().unwrap();
        freer.join().unwrap();
        heap.all_taken(2);
        heap.settled(1);
    });
}

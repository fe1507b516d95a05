//! A heap, as production code sees it.

use super::absent::{Counters, RunCache, thread_bytes};
use super::outbox::Outbox;
use crate::clock::{LowTick, Tick};
use crate::models::world::atomic::Watch;
use crate::region::NIL;
use crate::size_class::CLASSES;
use crate::span::{Block, List};
use crate::sync::AtomicU32;
use core::cell::Cell;
use core::ptr::null_mut;

pub use super::absent::Counter;

/// The looks at an active span in a tick: as many as there are frees here.
const PLENTY: u8 = u8::MAX;

/// A heap, as production code sees it.
pub struct Heap {
    pub bins: [Cell<*mut Block>; CLASSES],
    pub id: Cell<u32>,
    pub role: Cell<Role>,
    pub zero: Cell<u64>,
    pub tick: Cell<Tick>,
    pub full_count: Cell<u32>,
    pub claimed_back: Cell<u32>,
    active: [Cell<u32>; CLASSES],
    partial: [List; CLASSES],
    full: [List; CLASSES],
    pub emptied: Cell<u32>,
    pub emptied_class: Cell<usize>,
    pub empties: [Cell<u8>; CLASSES],
    pub walks: [Cell<u8>; CLASSES],
    pub used: [Cell<LowTick>; CLASSES],
    pub borrowed: [Cell<u8>; CLASSES],
    pub larger_waste: [Cell<u8>; CLASSES],
    pub sent: [Cell<u8>; CLASSES],
    pub aside: Cell<u64>,
    pub exit_round: Cell<u32>,
    pub next_free: Cell<u32>,
    pub live: AtomicU32,
    pub index: Cell<u32>,
    pub runs: RunCache,
    pub outbox: Outbox,
    pub bytes: thread_bytes::ThreadBytes,
    pub counters: Counters,
    /// Stands for all parts that only its thread touches.
    watch: Watch,
}

/// The roles of a heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Not a heap: what a thread has before its first allocation.
    Empty,
    /// Not a heap: what a thread has after its destructors.
    Gone,
    /// A thread's.
    Thread,
    /// The arena that lends blocks.
    SharedArena,
    /// Does not occur here.
    Arena,
}

// SAFETY: a heap is its thread's alone, and those that are not heaps are never written to.
unsafe impl Send for Heap {}
// SAFETY: as above.
unsafe impl Sync for Heap {}

impl Heap {
    /// An empty heap.
    pub fn new(role: Role, id: u32) -> Self {
        Heap {
            bins: [const { Cell::new(null_mut()) }; CLASSES],
            id: Cell::new(id),
            role: Cell::new(role),
            zero: Cell::new(0),
            // It never changes.
            tick: Cell::new(Tick::now()),
            full_count: Cell::new(0),
            claimed_back: Cell::new(0),
            active: [const { Cell::new(NIL) }; CLASSES],
            partial: [const { List::new() }; CLASSES],
            full: [const { List::new() }; CLASSES],
            emptied: Cell::new(0),
            emptied_class: Cell::new(0),
            empties: [const { Cell::new(PLENTY) }; CLASSES],
            walks: [const { Cell::new(PLENTY) }; CLASSES],
            used: [const { Cell::new(LowTick::NEVER) }; CLASSES],
            borrowed: [const { Cell::new(0) }; CLASSES],
            larger_waste: [const { Cell::new(0) }; CLASSES],
            sent: [const { Cell::new(0) }; CLASSES],
            aside: Cell::new(0),
            exit_round: Cell::new(0),
            next_free: Cell::new(NIL),
            live: AtomicU32::new(0),
            index: Cell::new(NIL),
            runs: RunCache::new(),
            outbox: Outbox::new(),
            bytes: thread_bytes::ThreadBytes,
            counters: Counters::new(),
            watch: Watch::new(),
        }
    }

    /// Records that its thread uses it. Those that are not heaps are only read.
    fn touch(&self) {
        match self.role.get() {
            Role::Empty | Role::Gone => self.watch.read(),
            _ => self.watch.written(),
        }
    }

    pub fn partial(&self, class: usize) -> &List {
        self.touch();
        &self.partial[class]
    }

    pub fn full(&self, class: usize) -> &List {
        self.touch();
        &self.full[class]
    }

    pub fn bin(&self, class: usize) -> &Cell<*mut Block> {
        self.touch();
        &self.bins[class]
    }

    pub fn active(&self, class: usize) -> &Cell<u32> {
        self.touch();
        &self.active[class]
    }

    pub fn has_put_aside(&self, class: usize) -> bool {
        self.aside.get() >> class & 1 != 0
    }

    /// Everything is shared already.
    pub fn note_sharing(&self) {}

    pub fn note_claimed_back(&self) {}

    /// Always.
    pub fn is_shared(&self) -> bool {
        true
    }
}

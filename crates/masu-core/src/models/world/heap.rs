//! A thread's heap: the production code of its slow paths, around a heap without counters, medium
//! blocks and commons, and with a thread's local words that the checker can follow.

#[path = "../../heap/event.rs"]
mod event;
#[path = "../../heap/exit.rs"]
mod exit;
#[path = "../../heap/fast.rs"]
mod fast;
#[path = "../../heap/free.rs"]
mod free;
#[path = "../../heap/shared/gate.rs"]
pub mod gate;
#[path = "../../heap/refill.rs"]
mod refill;
#[path = "../../heap/sparse.rs"]
mod sparse;

use crate::region::NIL;
use crate::size_class::CLASSES;
use crate::slab::{Block, List};
use core::cell::{Cell, UnsafeCell};
use core::ptr::null_mut;

/// Partial slabs that a heap keeps per class.
pub const PARTIAL_KEEP: u32 = 1;
/// Full slabs of one class that a heap keeps.
pub const FULL_KEEP: u32 = 8;
/// Looks that an active slab gets in a tick: as many as there are frees here.
const PLENTY: u8 = u8::MAX;

/// A counter that nobody reads.
pub struct Counter;

impl Counter {
    /// Counts nothing.
    pub fn add(&self, _: u64) {}
}

/// What the production code counts.
pub struct Counters {
    pub refills: Counter,
    pub refilled_bytes: Counter,
    pub fresh_slabs: Counter,
    pub adopted: Counter,
    pub claimed: Counter,
    pub remote_frees: Counter,
}

/// Bytes that nobody counts.
pub mod thread_bytes {
    /// Counts nothing.
    pub fn freed(_: usize) {}

    /// Nobody's account.
    pub struct ThreadBytes;

    impl ThreadBytes {
        /// Counts nothing.
        pub fn add(&self, _: u64) {}
        /// Counts nothing.
        pub fn sub(&self, _: u64) {}
    }
}

/// A cache of medium blocks, of which there are none.
pub struct RunCache;

impl RunCache {
    /// Gives nothing back.
    pub fn drain(&self) {}
}

/// An outbox that is never used: every block freed goes to its slab at once.
pub struct Outbox;

impl Outbox {
    /// Refuses the block.
    ///
    /// # Safety
    /// None is needed.
    pub unsafe fn add(&self, _: u32, _: *mut Block) -> bool {
        false
    }

    /// Refuses the block.
    ///
    /// # Safety
    /// None is needed.
    pub unsafe fn put(&self, _: &Heap, _: u32, _: *mut Block) -> bool {
        false
    }

    /// Sends nothing.
    pub fn drain(&self, _: &Heap) {}
}

/// A heap, as production code sees it.
pub struct Heap {
    pub bins: [Cell<*mut Block>; CLASSES],
    pub id: Cell<u32>,
    pub role: Cell<Role>,
    pub zero: Cell<u64>,
    pub full_count: Cell<u32>,
    active: [Cell<u32>; CLASSES],
    partial: [UnsafeCell<List>; CLASSES],
    full: [UnsafeCell<List>; CLASSES],
    pub empties: [Cell<u8>; CLASSES],
    pub walks: [Cell<u8>; CLASSES],
    pub borrowed: [Cell<u8>; CLASSES],
    pub lent: [Cell<u8>; CLASSES],
    pub exit_round: Cell<u32>,
    pub runs: RunCache,
    pub outbox: Outbox,
    pub bytes: thread_bytes::ThreadBytes,
    pub counters: Counters,
}

/// What a heap is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Not a heap: what a thread has after its destructors.
    Gone,
    /// A thread's.
    Thread,
    /// Never here.
    Commons,
    /// Never here.
    Shared,
}

// SAFETY: a heap is its thread's alone, and `GONE` is never written to.
unsafe impl Sync for Heap {}

impl Heap {
    /// A heap with nothing in it.
    pub const fn new(role: Role, id: u32) -> Self {
        Heap {
            bins: [const { Cell::new(null_mut()) }; CLASSES],
            id: Cell::new(id),
            role: Cell::new(role),
            zero: Cell::new(0),
            full_count: Cell::new(0),
            active: [const { Cell::new(NIL) }; CLASSES],
            partial: [const { UnsafeCell::new(List::new()) }; CLASSES],
            full: [const { UnsafeCell::new(List::new()) }; CLASSES],
            empties: [const { Cell::new(PLENTY) }; CLASSES],
            walks: [const { Cell::new(PLENTY) }; CLASSES],
            borrowed: [const { Cell::new(0) }; CLASSES],
            lent: [const { Cell::new(0) }; CLASSES],
            exit_round: Cell::new(0),
            runs: RunCache,
            outbox: Outbox,
            bytes: thread_bytes::ThreadBytes,
            counters: Counters {
                refills: Counter,
                refilled_bytes: Counter,
                fresh_slabs: Counter,
                adopted: Counter,
                claimed: Counter,
                remote_frees: Counter,
            },
        }
    }

    #[allow(clippy::mut_from_ref, reason = "as in production")]
    pub fn partial(&self, class: usize) -> &mut List {
        // SAFETY: one thread only, and no two of these overlap.
        unsafe { &mut *self.partial[class].get() }
    }

    #[allow(clippy::mut_from_ref, reason = "as in production")]
    pub fn full(&self, class: usize) -> &mut List {
        // SAFETY: as above.
        unsafe { &mut *self.full[class].get() }
    }

    pub fn bin(&self, class: usize) -> &Cell<*mut Block> {
        &self.bins[class]
    }

    pub fn active(&self, class: usize) -> &Cell<u32> {
        &self.active[class]
    }

    /// The tick never changes.
    pub fn observe_tick(&self) {}

    /// Everything is shared.
    pub fn note_sharing(&self) {}

    /// So it is.
    pub fn is_shared(&self) -> bool {
        true
    }
}

/// What the checks call.
#[cfg(test)]
pub mod face {
    use super::{Heap, Role, exit, fast, refill, sparse, tls};
    use crate::region;
    use crate::size_class::class_of;
    use std::cell::RefCell;

    std::thread_local! {
        /// The heaps of a test, one after the other in memory that stays.
        static HEAPS: RefCell<Vec<*mut Heap>> = const { RefCell::new(Vec::new()) };
    }

    /// Gives the calling thread a new heap, the `index`th of its model.
    pub fn begin(index: usize) {
        let new = || Heap::new(Role::Thread, index as u32 + 2);
        let heap = HEAPS.with_borrow_mut(|heaps| {
            while heaps.len() <= index {
                heaps.push(Box::into_raw(Box::new(new())));
            }
            heaps[index]
        });
        // SAFETY: the heap is this test's, and of no other thread of the model.
        unsafe {
            heap.write(new());
            tls::set_current(&*heap);
        }
    }

    /// Lets the calling thread go on with a heap that it began before.
    pub fn resume(index: usize) {
        // SAFETY: begun, and of no other thread.
        HEAPS.with_borrow(|heaps| tls::set_current(unsafe { &*heaps[index] }));
    }

    /// Ends the calling thread as its destructor does.
    pub fn exit() {
        let heap = core::ptr::from_ref(tls::current()).cast_mut();
        // SAFETY: the thread's heap.
        unsafe { exit::destructor(heap.cast()) };
    }

    /// A block of up to 8 KiB, by its address.
    pub fn alloc(size: usize) -> usize {
        let block = fast::alloc_small(size);
        let block =
            if block.is_null() { refill::alloc_small_slow(class_of(size)).cast() } else { block };
        assert!(!block.is_null(), "the world is out of slabs");
        region::handed_out(block as usize);
        block as usize
    }

    /// Frees it.
    pub fn free(block: usize) {
        region::freed(block);
        // SAFETY: the block was live.
        unsafe { fast::dealloc(block as *mut u8) };
    }

    /// The purge hollows the available slabs. Returns the bytes given back.
    pub fn hollow() -> usize {
        sparse::hollow(true)
    }

    /// Lets go of an owned slab that is in no list.
    pub fn give_up(slab: u32) {
        // SAFETY: the caller owns it.
        unsafe { refill::give_up_partial(slab, false) };
    }
}

/// The calling thread's heap.
pub mod tls {
    use super::{Heap, Role};
    use std::cell::Cell;

    /// The heap of a thread whose destructors have run.
    pub static GONE: Heap = Heap::new(Role::Gone, u32::MAX);

    loom::thread_local! {
        static CURRENT: Cell<&'static Heap> = Cell::new(&GONE);
    }

    /// The calling thread's heap.
    pub fn current() -> &'static Heap {
        CURRENT.with(Cell::get)
    }

    /// Whether `owner` is the id of the calling thread's heap.
    pub fn is_mine(owner: u32) -> bool {
        owner == current().id.get()
    }

    /// Sets the calling thread's heap.
    pub fn set_current(heap: &'static Heap) {
        CURRENT.with(|c| c.set(heap));
    }
}

mod birth {
    use super::{Heap, Role, tls};

    pub fn current_or_new() -> Option<&'static Heap> {
        Some(tls::current()).filter(|heap| heap.role.get() == Role::Thread)
    }

    pub fn arm(_: &Heap) -> bool {
        false
    }
}

mod table {
    use super::Heap;

    /// Not so many that slabs are shared out.
    pub fn is_crowd() -> bool {
        false
    }

    /// Enough for slabs to be given up.
    pub fn counts() -> (u32, u32) {
        (2, 2)
    }

    pub fn release(_: &Heap) {}
}

mod fork {
    pub fn adopt_an_orphan() {}
}

mod scope {
    use super::Heap;
    use super::shared::SharedHeap;

    pub fn of(_: &Heap) -> Option<&'static SharedHeap> {
        None
    }

    pub fn close_all(_: &Heap) {}
}

/// Heaps that programs make: there are none.
mod shared {
    use crate::slab::Block;

    pub enum SharedHeap {}

    impl SharedHeap {
        pub fn of(_: *const u8) -> Option<&'static SharedHeap> {
            None
        }

        pub fn alloc_small(&self, _: usize, _: usize) -> (*mut Block, bool) {
            match *self {}
        }

        /// # Safety
        /// None is needed.
        pub unsafe fn free(&self, _: *mut Block) {
            match *self {}
        }
    }

    pub fn by_id(_: u32) -> Option<&'static SharedHeap> {
        None
    }

    pub fn hollow(_: bool) -> usize {
        0
    }
}

mod commons {
    /// Nobody borrows, so nobody returns.
    pub fn sent(_: &super::Heap, _: usize, _: u32) {}

    use super::Heap;
    use crate::slab::Block;

    pub fn rest(_: bool) {}

    pub fn borrows(_: &Heap, _: usize) -> bool {
        false
    }

    pub fn borrow(_: &Heap, _: usize) -> *mut Block {
        unreachable!("nobody borrows")
    }

    pub fn one(_: usize) -> *mut Block {
        unreachable!("every thread that allocates has a heap")
    }

    /// # Safety
    /// None is needed.
    pub unsafe fn give_back(list: *mut Block) {
        assert!(list.is_null(), "nothing was borrowed");
    }
}

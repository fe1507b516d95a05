//! A thread's local words, in a form that the checker can follow.

use super::record::{Heap, Role};
use crate::region::HEAP_STRIDE;
use core::cell::Cell;

/// An id that no span's owner has.
const NO_ID: u32 = u32::MAX;

const _: () = assert!(HEAP_AT + size_of::<Heap>() <= HEAP_STRIDE);

loom::lazy_static! {
    /// The heap of a thread that has not allocated so far.
    pub static ref EMPTY: Heap = Heap::new(Role::Empty, NO_ID);
    /// The heap of a thread whose destructors have run.
    pub static ref GONE: Heap = Heap::new(Role::Gone, NO_ID);
}

loom::thread_local! {
    // The heap of a model's thread that has not begun one.
    static CURRENT: Cell<&'static Heap> = Cell::new(&GONE);
}

/// [`GONE`].
pub fn gone() -> &'static Heap {
    &GONE
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

/// Where a heap begins in its slot.
pub const HEAP_AT: usize = 64;

/// The id of a heap of the table.
pub fn id_of(heap: *const Heap) -> u32 {
    heap.addr() as u32
}

/// Makes an empty heap.
///
/// # Safety
/// `at` must be writable for ever and no other thread's.
pub unsafe fn make(at: *mut Heap, role: Role, id: u32) -> &'static Heap {
    // SAFETY: as the caller says.
    unsafe {
        at.write(Heap::new(role, id));
        (*at).runs.seat.begin(at.addr() / HEAP_STRIDE);
        &*at
    }
}

/// Nothing needs to be done.
pub fn after_fork_in_child() {}

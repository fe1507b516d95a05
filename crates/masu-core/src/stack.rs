//! The calling thread's stack as return addresses, from a function that the door provides: the engine itself walks no
//! stacks.

use crate::sync::{AtomicUsize, Ordering};
use core::mem::MaybeUninit;

/// The function that walks stacks, and its memory.
#[repr(C)]
#[derive(Debug)]
pub struct Unwinder {
    /// The return addresses of the calling thread's stack, innermost first, as many as there is room for. It must
    /// neither allocate nor take a lock.
    pub walk: fn(&mut Room) -> &[usize],
    /// Where the address of its own memory is, which is 0 as long as it has none,
    pub keeps: &'static core::sync::atomic::AtomicUsize,
    /// and the bytes of that, for readers that account for the process's memory.
    pub bytes: usize,
}

/// Where a stack's frames are written. It need not be cleared.
pub type Room = [MaybeUninit<usize>];

/// Room for `N` frames.
#[inline(always)]
pub const fn room<const N: usize>() -> [MaybeUninit<usize>; N] {
    [MaybeUninit::uninit(); N]
}

/// Frames of a stack that a report about one block has.
pub const DEPTH: usize = 29;

/// The address of an [`Unwinder`]; 0 if there is none.
pub static UNWINDER: AtomicUsize = AtomicUsize::new(0);

/// Sets the function that walks stacks. Without it every stack is empty.
pub fn set_unwinder(unwinder: &'static Unwinder) {
    UNWINDER.store(core::ptr::from_ref(unwinder).expose_provenance(), Ordering::Release);
}

/// The frames of the calling thread's stack, as many as fit.
#[inline]
pub fn walk(room: &mut Room) -> &[usize] {
    let unwinder = UNWINDER.load(Ordering::Acquire);
    if unwinder == 0 {
        return &[];
    }
    // SAFETY: stored by `set_unwinder`, of one that exists for ever.
    let unwinder = unsafe { &*core::ptr::with_exposed_provenance::<Unwinder>(unwinder) };
    (unwinder.walk)(room)
}

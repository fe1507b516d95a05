//! The calling thread's stack as return addresses, by a function that the door brings: the engine walks no
//! stacks itself.

use crate::sync::{AtomicUsize, Ordering};
use core::mem::MaybeUninit;

/// What walks stacks.
#[repr(C)]
#[derive(Debug)]
pub struct Unwinder {
    /// The return addresses of the calling thread's stack, innermost first, as many as there is room for. It neither
    /// allocates nor takes a lock.
    pub walk: fn(&mut Room) -> &[usize],
    /// Where the address of the memory is that it keeps, which is 0 as long as there is none,
    pub keeps: &'static core::sync::atomic::AtomicUsize,
    /// and the bytes of that: for whoever asks where the process's memory is.
    pub bytes: usize,
}

/// Where a stack's frames are written: nobody has to clear it.
pub type Room = [MaybeUninit<usize>];

/// Room for so many frames.
#[inline(always)]
pub const fn room<const N: usize>() -> [MaybeUninit<usize>; N] {
    [MaybeUninit::uninit(); N]
}

/// Frames of a stack that a report about one block has.
pub const DEPTH: usize = 29;

/// The address of an [`Unwinder`]; 0: there is none.
pub static UNWINDER: AtomicUsize = AtomicUsize::new(0);

/// Brings what walks stacks. Without it every stack is empty.
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
    // SAFETY: stored by `set_unwinder`, of one that is there for ever.
    let unwinder = unsafe { &*core::ptr::with_exposed_provenance::<Unwinder>(unwinder) };
    (unwinder.walk)(room)
}

//! The calling thread's stack as return addresses, by a function that the door brings: the engine walks no
//! stacks itself.

use crate::sync::{AtomicUsize, Ordering};
use core::mem::{MaybeUninit, transmute};

/// The return addresses of the calling thread's stack, innermost first, as many as there is room for. It neither
/// allocates nor takes a lock.
pub type Unwinder = fn(&mut Room) -> &[usize];

/// Where a stack's frames are written: nobody has to clear it.
pub type Room = [MaybeUninit<usize>];

/// Room for so many frames.
#[inline(always)]
pub const fn room<const N: usize>() -> [MaybeUninit<usize>; N] {
    [MaybeUninit::uninit(); N]
}

/// Frames of a stack that a report about one block has.
pub const DEPTH: usize = 29;

/// As an address; 0: there is none.
static UNWINDER: AtomicUsize = AtomicUsize::new(0);

/// Brings the function that walks stacks. Without one every stack is empty.
pub fn set_unwinder(unwinder: Unwinder) {
    UNWINDER.store(unwinder as usize, Ordering::Release);
}

/// The frames of the calling thread's stack, as many as fit.
#[inline]
pub fn walk(room: &mut Room) -> &[usize] {
    let unwinder = UNWINDER.load(Ordering::Acquire);
    if unwinder == 0 {
        return &[];
    }
    // SAFETY: stored by `set_unwinder`, from a function of this type.
    unsafe { transmute::<usize, Unwinder>(unwinder)(room) }
}

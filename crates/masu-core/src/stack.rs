//! The calling thread's stack as return addresses, by a function that the door brings: the engine walks no
//! stacks itself.

use crate::sync::{AtomicUsize, Ordering};
use core::mem::transmute;

/// Writes the return addresses of the calling thread's stack, innermost first, and returns their number. It
/// neither allocates nor takes a lock.
pub type Unwinder = fn(&mut [usize]) -> usize;

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
pub fn walk(frames: &mut [usize]) -> &[usize] {
    let unwinder = UNWINDER.load(Ordering::Acquire);
    if unwinder == 0 {
        return &[];
    }
    // SAFETY: stored by `set_unwinder`, from a function of this type.
    let depth = unsafe { transmute::<usize, Unwinder>(unwinder)(frames) };
    frames.get(..depth).unwrap_or(&[])
}

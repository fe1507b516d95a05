//! `operator new` that ends the process when memory is out instead of throwing or returning null, for programs that
//! could do nothing else: jemalloc's option `experimental_infallible_new`.
//!
//! A program may set a function to be called instead, by the name
//! `experimental.hooks.safety_check_abort`; if the function returns, `new` returns null.
//!
//! Invariants:
//!
//! 1. What [`HOOK`] holds is null or a [`Hook`] that may be called at any time, as [`set_hook`] requires.

use core::ffi::{CStr, c_char};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Called with a message instead of ending the process.
type Hook = unsafe extern "C" fn(*const c_char);

static ON: AtomicBool = AtomicBool::new(false);
static HOOK: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// The message for hooks. They compare it, so it is jemalloc's.
const MESSAGE: &CStr =
    c"<jemalloc>: Allocation failed and opt.experimental_infallible_new is true. Aborting.\n";

/// Whether the option is on.
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Switches it on or off.
pub fn set(on: bool) {
    ON.store(on, Ordering::Relaxed);
}

/// Sets the function that is called instead of ending the process; null removes it.
///
/// # Safety
/// `hook` must be null or the address of a [`Hook`] that may be called at any time from now on.
pub unsafe fn set_hook(hook: *mut u8) {
    HOOK.store(hook.cast(), Ordering::Release);
}

/// A static, so that it has a symbol name that says where it belongs.
static LINE: [u8; 73] =
    *b"masu: operator new: out of memory, and experimental_infallible_new is on\n";

/// Called when a form of `new` finds no memory and the option is on.
#[cold]
#[inline(never)]
#[unsafe(link_section = "masu_door")]
pub fn fail() {
    let hook = HOOK.load(Ordering::Acquire);
    if hook.is_null() {
        masu_core::write_stderr(&LINE);
        masu_core::abort();
    }
    // SAFETY: invariant 1: the program registered such a function.
    unsafe { core::mem::transmute::<*mut (), Hook>(hook)(MESSAGE.as_ptr()) }
}

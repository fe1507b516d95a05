//! `operator new` that ends the process where it finds no memory, in place of an exception or null, for programs
//! that could do nothing else: jemalloc's option `experimental_infallible_new`.
//!
//! A program may have a function of its own called instead of the end, by the name
//! `experimental.hooks.safety_check_abort`; if it returns, `new` returns null.

use core::ffi::{CStr, c_char};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// What is called in place of the process's end, with a message.
type Hook = unsafe extern "C" fn(*const c_char);

static ON: AtomicBool = AtomicBool::new(false);
static HOOK: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// What hooks are told. They compare it, so it is what jemalloc says.
const MESSAGE: &CStr =
    c"<jemalloc>: Allocation failed and opt.experimental_infallible_new is true. Aborting.\n";

/// Whether the option is on.
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Switches it.
pub fn set(on: bool) {
    ON.store(on, Ordering::Relaxed);
}

/// Sets the function that is called instead of the end, or with null none.
pub fn set_hook(hook: *mut u8) {
    HOOK.store(hook.cast(), Ordering::Release);
}

/// A form of `new` has found no memory, and the option is on.
#[cold]
#[inline(never)]
#[unsafe(link_section = "masu_door")]
pub fn fail() {
    let hook = HOOK.load(Ordering::Acquire);
    if hook.is_null() {
        masu_core::write_stderr(
            b"masu: operator new: out of memory, and experimental_infallible_new is on\n",
        );
        masu_core::abort();
    }
    // SAFETY: the program said that this is such a function.
    unsafe { core::mem::transmute::<*mut (), Hook>(hook)(MESSAGE.as_ptr()) }
}

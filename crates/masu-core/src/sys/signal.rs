//! A handler of `SIGSEGV` that stands before the program's own.
//!
//! Every fault goes on to where it would have gone: to the previous handler, with its mask, its flags and its
//! arguments, or to the end of the process. A handler that the program sets later takes this one's place, and may call
//! it.
//!
//! Invariants:
//! 1. the previous action is written once, before the handler is in place, and later only by the handler, at the one
//!    fault after which the program's own handler is gone by its own wish.

use crate::sync::{AtomicUsize, Ordering};
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::mem::transmute;
use core::ptr::{null, null_mut};

const SIGSEGV: c_int = 11;
const SA_SIGINFO: c_int = 4;
const SA_ONSTACK: c_int = 0x0800_0000;
const SA_RESTART: c_int = 0x1000_0000;
const SA_NODEFER: c_int = 0x4000_0000;
const SA_RESETHAND: c_int = 0x8000_0000_u32.cast_signed();
const SIG_DFL: usize = 0;
const SIG_IGN: usize = 1;

/// A `struct sigaction` of glibc and musl, on both architectures.
#[derive(Clone, Copy)]
#[repr(C)]
struct Action {
    handler: usize,
    mask: [u64; 16],
    flags: c_int,
    restorer: usize,
}

impl Action {
    const DEFAULT: Action = Action { handler: SIG_DFL, mask: [0; 16], flags: 0, restorer: 0 };
}

/// An access that the kernel refused.
#[derive(Clone, Copy)]
pub struct Fault {
    /// The address that was accessed.
    pub address: usize,
    /// Whether it was a write; `None` if the processor does not say.
    pub writes: Option<bool>,
}

/// The function that hears of faults. It runs in the signal handler, on whatever stack that has.
pub type Told = fn(Fault);

struct Before(UnsafeCell<Action>);

// SAFETY: invariant 1.
unsafe impl Sync for Before {}

static BEFORE: Before = Before(UnsafeCell::new(Action::DEFAULT));
static TOLD: AtomicUsize = AtomicUsize::new(0);

/// `sigaction` of the C library, which the process may lack.
fn sigaction(new: *const Action, old: *mut Action) -> bool {
    let f = if cfg!(miri) { null() } else { crate::weak!("sigaction") };
    if f.is_null() {
        return false;
    }
    // SAFETY: the symbol is the C library's sigaction, whose signature this is.
    let f: extern "C" fn(c_int, *const Action, *mut Action) -> c_int = unsafe { transmute(f) };
    f(SIGSEGV, new, old) == 0
}

/// Makes `told` hear of every fault first. Once in a process. Returns `false` if that is not possible.
pub fn catch_faults(told: Told) -> bool {
    let first = TOLD.compare_exchange(0, told as usize, Ordering::Release, Ordering::Relaxed);
    let mut before = Action::DEFAULT;
    if first.is_err() || !sigaction(null(), &raw mut before) {
        return false;
    }
    // SAFETY: invariant 1: the handler is not in place, so no thread reads it.
    unsafe { *BEFORE.0.get() = before };
    let has_handler = before.handler != SIG_DFL && before.handler != SIG_IGN;
    let kept = if has_handler { before.flags & (SA_RESTART | SA_NODEFER) } else { 0 };
    let mask = if has_handler { before.mask } else { [0; 16] };
    let new = Action {
        handler: handler as *const () as usize,
        mask,
        flags: SA_SIGINFO | SA_ONSTACK | kept,
        restorer: 0,
    };
    sigaction(&raw const new, null_mut())
}

/// # Safety
/// The kernel must call it, with a `siginfo_t` and a `ucontext_t`.
unsafe extern "C" fn handler(number: c_int, info: *mut c_void, context: *mut c_void) {
    /// Behind number, error and code.
    const ADDRESS: usize = 16;
    const CODE: usize = 8;
    // SAFETY: passed on: fields of the kernel's structure.
    let (code, address) =
        unsafe { (*info.byte_add(CODE).cast::<c_int>(), *info.byte_add(ADDRESS).cast::<usize>()) };
    let told = TOLD.load(Ordering::Acquire);
    // A positive code is the kernel's own; others are signals that a process sent.
    if code > 0 && told != 0 {
        // SAFETY: stored by `catch_faults`, from a function of this type; the context is the kernel's.
        unsafe { transmute::<usize, Told>(told)(Fault { address, writes: writes(context) }) };
    }
    // SAFETY: passed on.
    unsafe { go_on(number, code, info, context) }
}

/// Whether the access was a write.
///
/// # Safety
/// It must be the kernel's `ucontext_t`.
unsafe fn writes(context: *const c_void) -> Option<bool> {
    #[cfg(target_arch = "x86_64")]
    {
        /// Flags, link and stack, and nineteen registers.
        const ERROR: usize = 8 + 8 + 24 + 19 * 8;
        // SAFETY: as the caller says. The second bit of a page fault's error code is set for writes.
        Some(unsafe { *context.byte_add(ERROR).cast::<u64>() } & 2 != 0)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = context;
        None
    }
}

/// Does what would have happened without this handler.
///
/// # Safety
/// As for [`handler`].
unsafe fn go_on(number: c_int, code: c_int, info: *mut c_void, context: *mut c_void) {
    // SAFETY: invariant 1.
    let before = unsafe { *BEFORE.0.get() };
    match before.handler {
        SIG_IGN if code <= 0 => {}
        SIG_DFL | SIG_IGN => {
            sigaction(&Action::DEFAULT, null_mut());
            if code <= 0 {
                super::thread::signal_self(number as usize);
            }
            // Otherwise the instruction faults again.
        }
        own => {
            if before.flags & SA_RESETHAND != 0 {
                // SAFETY: invariant 1.
                unsafe { *BEFORE.0.get() = Action::DEFAULT };
            }
            // SAFETY: passed on: the program's handler, of the kind that its flags say.
            unsafe {
                if before.flags & SA_SIGINFO != 0 {
                    type Long = unsafe extern "C" fn(c_int, *mut c_void, *mut c_void);
                    transmute::<usize, Long>(own)(number, info, context);
                } else {
                    transmute::<usize, unsafe extern "C" fn(c_int)>(own)(number);
                }
            }
        }
    }
}

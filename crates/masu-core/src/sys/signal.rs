//! A handler of `SIGSEGV` that runs before the program's own.
//!
//! Every fault then goes where it would have gone: to the handler that was there, with its mask, its flags and its
//! arguments, or to the end of the process. A handler that the program sets later replaces this one, and may call it.
//! [`catch_faults_again`] puts a second handler before that one, once, so that each fault passes each handler once
//! even if the program's handler calls the first.
//!
//! Invariants:
//! 1. of what was there before a handler, what was seen is written before the handler is in place, and what the handler
//!    took the place of before [`Before::last`] leads to it; later only the handler writes, in the one fault after
//!    which the program's own is gone by its own wish.

use super::aside;
use crate::sync::{AtomicBool, AtomicUsize, Ordering};
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

/// A `struct sigaction` of glibc and musl, on every architecture.
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

    fn has_handler(&self) -> bool {
        self.handler != SIG_DFL && self.handler != SIG_IGN
    }
}

/// An access that the kernel refused.
#[derive(Clone, Copy)]
pub struct Fault {
    /// The address that was accessed.
    pub address: usize,
    /// Whether it was a write; `None` if the processor does not say.
    pub writes: Option<bool>,
}

/// The function that is told of faults. It runs in the signal handler, on whatever stack that has.
pub type Told = fn(Fault);

/// What was there before a handler.
struct Before {
    /// What was seen there, and what the handler took the place of: another thread may have set that in between.
    actions: [UnsafeCell<Action>; 2],
    /// Which of the two it is.
    last: AtomicUsize,
}

// SAFETY: invariant 1.
unsafe impl Sync for Before {}

impl Before {
    const fn new() -> Self {
        let actions = [const { UnsafeCell::new(Action::DEFAULT) }; 2];
        Before { actions, last: AtomicUsize::new(0) }
    }

    fn get(&self) -> *mut Action {
        let [seen, replaced] = &self.actions;
        if self.last.load(Ordering::Acquire) == 0 { seen.get() } else { replaced.get() }
    }
}

/// Before the first handler.
static BEFORE: Before = Before::new();
/// Before the second, if that is or was in place.
static BETWEEN: Before = Before::new();
static AGAIN: AtomicBool = AtomicBool::new(false);
static TOLD: AtomicUsize = AtomicUsize::new(0);

/// `sigaction` of the C library for `SIGSEGV`, which the process may lack.
fn sigaction(new: *const Action, old: *mut Action) -> bool {
    sigaction_of(SIGSEGV, new, old)
}

fn sigaction_of(number: c_int, new: *const Action, old: *mut Action) -> bool {
    let f = if cfg!(miri) { null() } else { crate::weak!("sigaction") };
    if f.is_null() {
        return false;
    }
    // SAFETY: the symbol is the C library's sigaction, whose signature this is.
    let f: extern "C" fn(c_int, *const Action, *mut Action) -> c_int = unsafe { transmute(f) };
    f(number, new, old) == 0
}

/// Has `told` called first on every fault. Once in a process. Returns `false` if that is not possible.
pub fn catch_faults(told: Told) -> bool {
    let first = TOLD.compare_exchange(0, told as usize, Ordering::Release, Ordering::Relaxed);
    let mut before = Action::DEFAULT;
    if first.is_err() || !sigaction(null(), &raw mut before) {
        return false;
    }
    // SAFETY: this handler is not in place.
    unsafe { stand(handler::<false>, &BEFORE, before) }
}

/// Puts a handler first again, if another has replaced that of [`catch_faults`] since. Once in a process; where the
/// program wants no handler, nothing happens.
pub fn catch_faults_again() {
    let mut now = Action::DEFAULT;
    if AGAIN.load(Ordering::Relaxed)
        || !sigaction(null(), &raw mut now)
        || !now.has_handler()
        || now.handler == handler::<false> as *const () as usize
        || AGAIN.swap(true, Ordering::Relaxed)
    {
        return;
    }
    // SAFETY: this handler is not in place: `AGAIN` was set just now.
    unsafe { stand(handler::<true>, &BETWEEN, now) };
}

type Handler = unsafe extern "C" fn(c_int, *mut c_void, *mut c_void);

/// Puts a handler before what is there. Returns `false` if that is not possible.
///
/// # Safety
/// `kept` must be the handler's, which is not in place.
unsafe fn stand(handler: Handler, kept: &'static Before, before: Action) -> bool {
    let [seen, replaced] = &kept.actions;
    kept.last.store(0, Ordering::Relaxed);
    // SAFETY: invariant 1: the handler is not in place, so nobody reads it.
    unsafe { *seen.get() = before };
    let has_handler = before.has_handler();
    let flags = if has_handler { before.flags & (SA_RESTART | SA_NODEFER) } else { 0 };
    let mask = if has_handler { before.mask } else { [0; 16] };
    let new = Action {
        handler: handler as *const () as usize,
        mask,
        flags: SA_SIGINFO | SA_ONSTACK | flags,
        restorer: 0,
    };
    if !sigaction(&raw const new, replaced.get()) {
        return false;
    }
    kept.last.store(1, Ordering::Release);
    true
}

/// # Safety
/// Called by the kernel, with a `siginfo_t` and a `ucontext_t`.
unsafe extern "C" fn handler<const SECOND: bool>(
    number: c_int,
    info: *mut c_void,
    context: *mut c_void,
) {
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
        let (told, writes, left) =
            unsafe { (transmute::<usize, Told>(told), writes(context), stack_left(context)) };
        aside::run(left, &mut || told(Fault { address, writes }));
    }
    let before = if SECOND { &BETWEEN } else { &BEFORE };
    // SAFETY: passed on.
    unsafe { go_on(before, number, code, info, context) }
}

/// Bytes that are left of the handler's stack; `usize::MAX` if it is not an alternative one.
///
/// # Safety
/// It is the kernel's `ucontext_t`.
unsafe fn stack_left(context: *const c_void) -> usize {
    /// The alternative stack's address and length, behind flags and link.
    const START: usize = 16;
    const LEN: usize = 32;
    // SAFETY: as the caller says.
    let (start, len) = unsafe {
        (*context.byte_add(START).cast::<usize>(), *context.byte_add(LEN).cast::<usize>())
    };
    let left = context.addr().wrapping_sub(start);
    if left < len { left } else { usize::MAX }
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
unsafe fn go_on(
    kept: &'static Before,
    number: c_int,
    code: c_int,
    info: *mut c_void,
    context: *mut c_void,
) {
    // SAFETY: invariant 1.
    let before = unsafe { *kept.get() };
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
                unsafe { *kept.get() = Action::DEFAULT };
            }
            // SAFETY: passed on: the program's handler, of the kind that its flags say.
            unsafe {
                if before.flags & SA_SIGINFO != 0 {
                    transmute::<usize, Handler>(own)(number, info, context);
                } else {
                    transmute::<usize, unsafe extern "C" fn(c_int)>(own)(number);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own_process::alone;
    use crate::sys::{auxv, mem, thread};

    static PAGE: AtomicUsize = AtomicUsize::new(0);
    static TIMES: AtomicUsize = AtomicUsize::new(0);
    static OWN: AtomicUsize = AtomicUsize::new(0);
    static REPLACED: AtomicUsize = AtomicUsize::new(0);

    /// A handler that calls the one it has replaced.
    ///
    /// # Safety
    /// Called by the kernel.
    unsafe extern "C" fn own(number: c_int, info: *mut c_void, context: *mut c_void) {
        OWN.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the first handler, with what the kernel passed; and a page of the test's.
        unsafe {
            let first = transmute::<usize, Handler>(REPLACED.load(Ordering::Relaxed));
            first(number, info, context);
            mem::protect(PAGE.load(Ordering::Relaxed), auxv::page_size(), true);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "no signals")]
    fn a_fault_passes_each_handler_once() {
        alone!(a_fault_passes_each_handler_once, || {
            let page = mem::reserve_closed(auxv::page_size()).expect("a page");
            PAGE.store(page, Ordering::Relaxed);
            assert!(catch_faults(|fault| {
                assert_eq!(fault.address, PAGE.load(Ordering::Relaxed));
                TIMES.fetch_add(1, Ordering::Relaxed);
            }));
            catch_faults_again();
            let mut first = Action::DEFAULT;
            assert!(sigaction(null(), &raw mut first));
            assert_eq!(first.handler, handler::<false> as *const () as usize);
            REPLACED.store(first.handler, Ordering::Relaxed);
            let new = Action { handler: own as *const () as usize, ..first };
            assert!(sigaction(&raw const new, null_mut()));
            catch_faults_again();
            // SAFETY: accessible once the handler has seen to it.
            assert_eq!(unsafe { (page as *const u8).read_volatile() }, 0);
            assert_eq!((TIMES.load(Ordering::Relaxed), OWN.load(Ordering::Relaxed)), (2, 1));
        });
    }

    /// Opens the page.
    ///
    /// # Safety
    /// Called by the kernel.
    unsafe extern "C" fn opens(_: c_int, _: *mut c_void, _: *mut c_void) {
        OWN.fetch_add(1, Ordering::Relaxed);
        // SAFETY: a page of the test's.
        unsafe { mem::protect(PAGE.load(Ordering::Relaxed), auxv::page_size(), true) };
    }

    #[test]
    #[cfg_attr(miri, ignore = "no signals")]
    fn a_handler_that_comes_after_the_look_is_not_lost() {
        alone!(a_handler_that_comes_after_the_look_is_not_lost, || {
            let page = mem::reserve_closed(auxv::page_size()).expect("a page");
            PAGE.store(page, Ordering::Relaxed);
            let mut seen = Action::DEFAULT;
            assert!(sigaction(null(), &raw mut seen));
            let late = Action {
                handler: opens as *const () as usize,
                flags: SA_SIGINFO | SA_ONSTACK,
                ..Action::DEFAULT
            };
            assert!(sigaction(&raw const late, null_mut()));
            // SAFETY: this handler is not in place.
            assert!(unsafe { stand(handler::<true>, &BETWEEN, seen) });
            // SAFETY: accessible once the late handler has seen to it.
            assert_eq!(unsafe { (page as *const u8).read_volatile() }, 0);
            assert_eq!(OWN.load(Ordering::Relaxed), 1);
        });
    }

    /// `stack_t`.
    #[repr(C)]
    struct Alternative {
        start: usize,
        flags: c_int,
        len: usize,
    }

    /// Has handlers of the calling thread run on a short stack.
    fn use_short_stack() {
        const LEN: usize = 16 << 10;
        let f = crate::weak!("sigaltstack");
        // SAFETY: the symbol is the C library's sigaltstack, whose signature this is.
        let f: extern "C" fn(*const Alternative, *mut Alternative) -> c_int =
            unsafe { transmute(f) };
        let start = mem::map(LEN).expect("a stack");
        assert_eq!(f(&Alternative { start, flags: 0, len: LEN }, null_mut()), 0);
    }

    /// A handler whose frames lie where it runs.
    ///
    /// # Safety
    /// Called by the kernel.
    unsafe extern "C" fn counts(_: c_int, _: *mut c_void, _: *mut c_void) {
        OWN.fetch_add(1, Ordering::Relaxed);
    }

    /// While the fault is reported, the alternative stack is in use, though the stack pointer lies elsewhere.
    #[test]
    #[cfg_attr(miri, ignore = "no signals")]
    fn a_signal_amid_a_fault_leaves_its_frames_alone() {
        alone!(a_signal_amid_a_fault_leaves_its_frames_alone, || {
            const SIGUSR1: c_int = 10;
            let page = mem::reserve_closed(auxv::page_size()).expect("a page");
            PAGE.store(page, Ordering::Relaxed);
            use_short_stack();
            let counting = Action {
                handler: counts as *const () as usize,
                flags: SA_SIGINFO | SA_ONSTACK,
                ..Action::DEFAULT
            };
            assert!(sigaction_of(SIGUSR1, &raw const counting, null_mut()));
            assert!(catch_faults(|fault| {
                thread::signal_self(SIGUSR1 as usize);
                assert!(aside::is_taken());
                // SAFETY: a page of the test's.
                unsafe { mem::protect(fault.address, auxv::page_size(), true) };
            }));
            // SAFETY: accessible once the fault has been told.
            assert_eq!(unsafe { (page as *const u8).read_volatile() }, 0);
            assert_eq!(OWN.load(Ordering::Relaxed), 1);
        });
    }
}

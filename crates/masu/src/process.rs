//! The process: start, fork and exit.
//!
//! A program that uses masu as its global allocator calls it long before `main`, and a constructor
//! would not know the program's configuration. So the first slow allocation starts the engine: it
//! reads the environment, registers the fork handlers, and, if configured, the statistics at exit.
//! Other threads do not wait for it; until it is done they run with the defaults. (Waiting could
//! deadlock with the loader's lock, which [`pin`] takes.)
//!
//! A library that is loaded by `dlopen` stays loaded ([`pin`]): the exits of threads and forks call
//! into it, and its blocks may be anywhere.
//!
//! Invariants:
//!
//! 1. A symbol of the C library's or the linker's name has the type and the meaning that their manuals
//!    give it.
//! 2. Once `pin` has returned, this object stays loaded until the process ends.
//! 3. The C library calls `prepare` on the thread that forks, and then, on the same thread, `parent` in
//!    the process and `child` in the new one.

use crate::Config;
use crate::heap::list;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::{MaybeUninit, transmute};
use core::sync::atomic::{AtomicBool, Ordering};

static STARTED: AtomicBool = AtomicBool::new(false);

/// Whether a call of [`ensure`] has come.
#[inline]
pub fn is_started() -> bool {
    STARTED.load(Ordering::Relaxed)
}

type ForkHandler = unsafe extern "C" fn();

unsafe extern "C" {
    static environ: *const *const c_char;
    safe fn getauxval(kind: usize) -> usize;
    fn pthread_atfork(prepare: ForkHandler, parent: ForkHandler, child: ForkHandler) -> c_int;
    fn atexit(function: extern "C" fn()) -> c_int;
}

/// Starts the engine if this is the first call.
#[inline]
pub fn ensure(config: &Config) {
    if !is_started() {
        start(config);
    }
}

#[cfg(feature = "prof")]
static UNWINDER: masu_core::profile::Unwinder = masu_core::profile::Unwinder {
    walk: masu_unwind::walk,
    keeps: &masu_unwind::MEMORY,
    bytes: masu_unwind::BYTES,
};

#[cold]
#[inline(never)]
fn start(config: &Config) {
    const AT_SECURE: usize = 23;
    if STARTED.swap(true, Ordering::AcqRel) {
        return;
    }
    pin();
    #[cfg(feature = "prof")]
    masu_core::profile::set_unwinder(&UNWINDER);
    let secure = getauxval(AT_SECURE) != 0;
    // SAFETY: invariant 1: the C library's variable, which is null or points to the environment. A program that
    // changes it while another thread allocates for the first time would break `getenv` as well.
    unsafe {
        masu_core::start_configured(config.options(), environ, secure, true);
    }
    // SAFETY: invariant 2: the handlers may be called at any fork, because this object is never unloaded.
    unsafe { pthread_atfork(prepare, parent, child) };
    if masu_core::control::show_stats() || masu_core::profile::last_rate() != 0 {
        // SAFETY: invariant 2: the function may be called at any exit, because this object is never unloaded. If it
        // cannot be registered, no statistics are shown or written.
        unsafe { atexit(masu_exit) };
    }
}

unsafe extern "C" fn prepare() {
    if masu_core::is_alone() {
        return masu_core::fork_prepare();
    }
    list::fork_prepare();
    masu_core::fork_prepare();
    // SAFETY: invariant 3: this thread has just prepared both.
    unsafe { list::fork_prepared() }
}

unsafe extern "C" fn parent() {
    // SAFETY: invariant 3: called by fork in the parent, on the thread that prepared.
    unsafe {
        if masu_core::fork_parent() {
            list::fork_done();
        }
    }
}

unsafe extern "C" fn child() {
    // SAFETY: invariant 3: called by fork in the child, on the thread that prepared.
    unsafe {
        if masu_core::fork_child() {
            list::fork_done();
        }
    }
}

extern "C" fn masu_exit() {
    masu_core::exit_report();
}

/// The start of an ELF file's header, with the offset of the program headers.
#[repr(C)]
struct ElfHeader {
    before: [u8; 32],
    program_headers: u64,
}

/// Whether this code is in the program itself, which is never unloaded: compares the kernel's
/// address of the program's headers with the linker's for this object.
fn is_program() -> bool {
    const AT_PHDR: usize = 3;
    let header = masu_core::weak!("__ehdr_start").cast::<ElfHeader>();
    if header.is_null() {
        return false;
    }
    // SAFETY: invariant 1: the linker's symbol for this object's ELF header, which is mapped.
    let offset = unsafe { (*header).program_headers };
    header as usize + offset as usize == getauxval(AT_PHDR)
}

/// `Dl_info` of `dladdr`.
#[repr(C)]
struct SymbolInfo {
    file: *const c_char,
    rest: [*const c_void; 3],
}

/// Makes sure that the shared library this code is in is never unloaded. A program without a
/// dynamic loader needs nothing.
fn pin() {
    const RTLD_LAZY: c_int = 1;
    const RTLD_NOLOAD: c_int = 4;
    const RTLD_NODELETE: c_int = 0x1000;
    type Dladdr = unsafe extern "C" fn(*const c_void, *mut SymbolInfo) -> c_int;
    type Dlopen = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;

    if is_program() {
        return;
    }
    let (dladdr, dlopen) = (masu_core::weak!("dladdr"), masu_core::weak!("dlopen"));
    if dladdr.is_null() || dlopen.is_null() {
        return;
    }
    // SAFETY: invariant 1: the functions of these names have these types.
    let (dladdr, dlopen) = unsafe {
        (transmute::<*const c_void, Dladdr>(dladdr), transmute::<*const c_void, Dlopen>(dlopen))
    };
    let mut info = MaybeUninit::<SymbolInfo>::uninit();
    // SAFETY: invariant 1: `dladdr` accepts any address, and stores a C string. `dlopen` neither loads nor runs
    // anything, because the library is loaded already; its handle, a reference to the library, is kept for ever.
    unsafe {
        let own: *const c_void = (&raw const STARTED).cast();
        if dladdr(own, info.as_mut_ptr()) == 0 || info.assume_init_ref().file.is_null() {
            return;
        }
        let file = CStr::from_ptr(info.assume_init_ref().file);
        dlopen(file.as_ptr(), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    }
}

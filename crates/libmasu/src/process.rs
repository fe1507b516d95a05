//! The process: start, exit and fork.
//!
//! The engine serves `malloc` from the first call on, long before any constructor runs. The
//! constructor here reads the configuration and registers the fork handlers; the destructor prints
//! statistics if configured. Nothing is given back at exit: the kernel does that faster.

use crate::glibc;
use crate::host;
use crate::jemalloc::prof;
use core::ffi::{c_char, c_int};
use masu_core::weak;

/// An array of `NAME=value`, terminated by null.
pub type Environment = *const *const c_char;

static UNWINDER: masu_core::profile::Unwinder = masu_core::profile::Unwinder {
    walk: masu_unwind::walk_outside,
    keeps: &masu_unwind::MEMORY,
    bytes: masu_unwind::BYTES,
};

/// Runs before `main`, and before the constructors of everything that depends on this library.
///
/// # Safety
/// The loader must call it once, on the only thread.
pub unsafe extern "C" fn start(_argc: c_int, _argv: Environment, envp: Environment) {
    masu_core::profile::set_unwinder(&UNWINDER);
    masu_core::set_neighbour(glibc::serve);
    // SAFETY: as the caller says, called once, before there is a second thread that could change the environment.
    unsafe {
        let (environment, secure) = (environment(envp), host::is_secure());
        let program = crate::jemalloc::conf::read(environment, secure);
        masu_core::start_configured(&program, environment, secure, false);
    }
    if host::registers_late() {
        masu_core::before_sharing(register);
    } else {
        register();
    }
}

fn register() {
    // SAFETY: invariant 2 of `libmasu`: the handlers may be called at any fork, because this object is never
    // unloaded.
    unsafe { host::at_fork(prepare, parent, child) };
}

/// Returns the environment. `passed` is the constructor's third argument: glibc passes the
/// environment, musl passes nothing and leaves an arbitrary value in the register. But musl has set
/// `environ` by then, while glibc may set it later if this library starts before libc does.
fn environment(passed: Environment) -> Environment {
    let environ = weak!("environ").cast::<Environment>();
    if environ.is_null() {
        return passed;
    }
    // SAFETY: invariants 1 and 3 of `libmasu`: the C library's variable, which nothing changes before `main`.
    let set = unsafe { *environ };
    if set.is_null() { passed } else { set }
}

unsafe extern "C" fn prepare() {
    masu_core::fork_prepare();
    if masu_core::lock::fork::is_forking_thread() {
        // SAFETY: invariant 4 of `libmasu`: this thread has just prepared the engine.
        unsafe { prof::fork_prepare() }
    }
}

unsafe extern "C" fn parent() {
    // SAFETY: invariant 4 of `libmasu`: called by fork in the parent, on the thread that prepared.
    unsafe {
        if masu_core::fork_parent() {
            prof::fork_done();
        }
    }
}

unsafe extern "C" fn child() {
    // SAFETY: invariant 4 of `libmasu`: called by fork in the child, on the thread that prepared.
    unsafe {
        if masu_core::fork_child() {
            prof::fork_done();
        }
    }
}

/// Runs after `main`, and after `atexit`.
pub extern "C" fn exit() {
    masu_core::exit_report();
    // The door's profile code and data lie on a page that most programs never touch.
    if masu_core::profile::last_rate() != 0 && prof::dumps_at_exit() {
        prof::at_exit();
    }
}

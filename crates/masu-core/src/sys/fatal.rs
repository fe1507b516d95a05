//! The one way to write messages and the one way to end the process.

use super::output::{Descriptor, KeptIdentity};
use super::raw::{nr, syscall};

/// What standard error was when the engine started.
static AT_START: KeptIdentity = KeptIdentity::none();

/// Remembers what standard error is.
pub fn note_stderr() {
    if let Some(found) = Descriptor::STDERR.identity() {
        AT_START.keep(found);
    }
}

/// Whether a message after which the program goes on may be written. A program that has closed standard error may have
/// a file of its data in its place.
pub fn may_tell() -> bool {
    AT_START.is_of(Descriptor::STDERR) || !Descriptor::STDERR.may_hold_data()
}

/// Writes bytes to standard error. Errors are ignored: there is nowhere to report them.
pub fn write_stderr(bytes: &[u8]) {
    Descriptor::STDERR.write(bytes);
}

/// Ends the process by `SIGABRT`, as `abort()` does, but without the C library.
#[cold]
pub fn abort() -> ! {
    const SIGABRT: usize = 6;
    // SAFETY: sends a signal to the calling thread; no memory is involved. If a handler returns,
    // the trap ends the process.
    unsafe {
        let pid = syscall(nr::GETPID, [0; 6]);
        let tid = syscall(nr::GETTID, [0; 6]);
        syscall(nr::TGKILL, [pid, tid, SIGABRT, 0, 0, 0]);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        core::arch::asm!("ud2", options(noreturn));
        #[cfg(all(target_arch = "aarch64", not(miri)))]
        core::arch::asm!("udf #0", options(noreturn));
        #[cfg(all(target_arch = "riscv64", not(miri)))]
        core::arch::asm!("unimp", options(noreturn));
        #[cfg(miri)]
        std::process::abort()
    }
}

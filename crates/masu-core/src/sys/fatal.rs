//! The one way to write messages and the one way to end the process.

use super::output::{Descriptor, KeptIdentity};
use super::raw::{nr, syscall};
use super::thread::{SIGSET_BYTES, change_mask, signal_self};

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
#[inline(never)]
pub fn may_tell() -> bool {
    AT_START.is_of(Descriptor::STDERR) || !Descriptor::STDERR.may_hold_data()
}

/// Writes bytes to standard error. Errors are ignored: there is nowhere to report them.
pub fn write_stderr(bytes: &[u8]) {
    Descriptor::STDERR.write(bytes);
}

/// Ends the process with this exit code, as `_exit()` does.
#[inline(always)]
pub fn end(code: u8) -> ! {
    loop {
        // SAFETY: ends the process.
        unsafe { syscall(nr::EXIT_GROUP, [code.into(), 0, 0, 0, 0, 0]) };
    }
}

/// Ends the process by `SIGABRT`, as `abort()` does, but without the C library: also if the thread blocks it.
#[cold]
pub fn abort() -> ! {
    const SIGABRT: usize = 6;
    const SIG_UNBLOCK: usize = 1;
    // As long as the kernel's `struct sigaction`: the default action.
    let action = [0u64; 4];
    change_mask(SIG_UNBLOCK, 1 << (SIGABRT - 1));
    // Again for a process that ignores it, or whose handler returns.
    for _ in 0..2 {
        signal_self(SIGABRT);
        let arguments = [SIGABRT, action.as_ptr() as usize, 0, SIGSET_BYTES, 0, 0];
        // SAFETY: the kernel reads an action.
        unsafe { syscall(nr::RT_SIGACTION, arguments) };
    }
    #[cfg(miri)]
    std::process::abort();
    // SAFETY: ends the process, if signals cannot.
    #[cfg(not(miri))]
    unsafe {
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!("ud2", options(noreturn));
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!("udf #0", options(noreturn));
        #[cfg(target_arch = "riscv64")]
        core::arch::asm!("unimp", options(noreturn));
    }
}

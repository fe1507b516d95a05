//! The thread pointer, and the background thread's creation: a raw `clone`, invisible to the C
//! library.
//!
//! Why not `pthread_create`: it takes the C library's stack-cache lock, under which the C library
//! itself calls `free`; called from inside `free` it can deadlock. It also clears `__libc_single_threaded` forever. A
//! raw thread that only makes system calls needs none of what `pthread_create` provides.

use super::raw::{clone_thread, nr, syscall};
use super::{Errno, result};

const CLONE_VM: usize = 0x100;
const CLONE_FS: usize = 0x200;
const CLONE_FILES: usize = 0x400;
const CLONE_SIGHAND: usize = 0x800;
const CLONE_THREAD: usize = 0x1_0000;
const CLONE_SYSVSEM: usize = 0x4_0000;
const CLONE_SETTLS: usize = 0x8_0000;
const CLONE_PARENT_SETTID: usize = 0x10_0000;
const CLONE_CHILD_CLEARTID: usize = 0x20_0000;

const FLAGS: usize = CLONE_VM
    | CLONE_FS
    | CLONE_FILES
    | CLONE_SIGHAND
    | CLONE_THREAD
    | CLONE_SYSVSEM
    | CLONE_SETTLS
    | CLONE_PARENT_SETTID
    | CLONE_CHILD_CLEARTID;

pub(super) const SIG_SETMASK: usize = 2;
pub(super) const SIGSET_BYTES: usize = 8;

/// The thread pointer: a number that no other running thread has.
#[cfg(not(miri))]
#[inline]
pub fn pointer() -> usize {
    let p: usize;
    // SAFETY: reads the thread's own register or, on x86-64, the word that the ABI keeps there.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!("mov {0}, qword ptr fs:[0]", out(reg) p,
            options(pure, readonly, nostack, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!("mrs {0}, tpidr_el0", out(reg) p,
            options(pure, nomem, nostack, preserves_flags));
        #[cfg(target_arch = "riscv64")]
        core::arch::asm!("mv {0}, tp", out(reg) p, options(pure, nomem, nostack, preserves_flags));
    }
    p
}

/// The same under Miri, which has no such register.
#[cfg(miri)]
pub fn pointer() -> usize {
    std::thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| core::ptr::from_ref(here).addr())
}

/// The kernel's number of the calling thread.
pub fn id() -> u32 {
    // SAFETY: asks for a number.
    unsafe { syscall(nr::GETTID, [0; 6]) as u32 }
}

/// Whether a thread of this process has the number.
pub fn exists(id: u32) -> bool {
    // SAFETY: signal 0 is not sent.
    unsafe {
        let process = syscall(nr::GETPID, [0; 6]);
        result(syscall(nr::TGKILL, [process, id as usize, 0, 0, 0, 0])).is_ok()
    }
}

/// Sends a signal to the calling thread.
pub fn signal_self(number: usize) {
    // SAFETY: its effect is the program's choice.
    unsafe {
        let process = syscall(nr::GETPID, [0; 6]);
        syscall(nr::TGKILL, [process, id() as usize, number, 0, 0, 0]);
    }
}

/// Starts `entry(arg)` on the given stack with every signal blocked. The kernel stores the
/// thread's id in `tid` before this returns and clears it (and wakes its futex) once the thread
/// no longer uses its stack.
///
/// # Safety
/// `stack_top` must be the 16-byte aligned end of a stack that nothing else uses until `*tid == 0`;
/// `tls` must point at a zeroed word that stays valid that long; `entry` must only make system
/// calls.
pub unsafe fn spawn(
    entry: extern "C" fn(usize),
    arg: usize,
    stack_top: *mut u8,
    tls: *mut u8,
    tid: *const u32,
) -> Result<(), Errno> {
    // SAFETY: passed on to the caller.
    let ret = without_signals(|| unsafe { clone_thread(FLAGS, stack_top, tid, tls, entry, arg) });
    result(ret).map(drop)
}

/// Runs `f` with every signal of the calling thread blocked.
pub fn without_signals<T>(f: impl FnOnce() -> T) -> T {
    let old = change_mask(SIG_SETMASK, u64::MAX);
    let result = f();
    if let Some(old) = old {
        change_mask(SIG_SETMASK, old);
    }
    result
}

/// Changes the calling thread's mask of blocked signals by a set, as `sigprocmask` does. Returns what it was; `None` if
/// the kernel refused.
pub(super) fn change_mask(how: usize, set: u64) -> Option<u64> {
    let mut old = 0u64;
    let (from, to) = (&raw const set as usize, &raw mut old as usize);
    // SAFETY: the kernel reads one of its sets (8 bytes), and writes one.
    let done = unsafe { syscall(nr::RT_SIGPROCMASK, [how, from, to, SIGSET_BYTES, 0, 0]) };
    result(done).ok().map(|_| old)
}

//! System calls of AArch64 Linux: numbers and the instruction.

use core::arch::asm;

/// The system calls that the engine makes. `docs/syscalls.md` lists why.
#[allow(missing_docs, reason = "the names are the kernel's own")]
pub mod nr {
    pub const GETCWD: usize = 17;
    pub const FCNTL: usize = 25;
    pub const OPENAT: usize = 56;
    pub const CLOSE: usize = 57;
    pub const READ: usize = 63;
    pub const WRITE: usize = 64;
    pub const FSTAT: usize = 80;
    pub const FUTEX: usize = 98;
    pub const CLOCK_GETTIME: usize = 113;
    pub const SCHED_GETAFFINITY: usize = 123;
    pub const TGKILL: usize = 131;
    pub const RT_SIGPROCMASK: usize = 135;
    pub const PRCTL: usize = 167;
    pub const GETPID: usize = 172;
    pub const GETTID: usize = 178;
    pub const MUNMAP: usize = 215;
    pub const MREMAP: usize = 216;
    pub const CLONE: usize = 220;
    pub const MMAP: usize = 222;
    pub const MINCORE: usize = 232;
    pub const MADVISE: usize = 233;
    pub const PRLIMIT64: usize = 261;
    pub const MEMBARRIER: usize = 283;
}

/// Makes a system call with up to six arguments.
///
/// # Safety
/// The arguments must be valid for the call named by `n`.
#[inline]
pub unsafe fn syscall(n: usize, a: [usize; 6]) -> usize {
    let ret;
    // SAFETY: the syscall ABI returns in x0 and preserves all other registers; the effects of the
    // call itself are the caller's obligation.
    unsafe {
        asm!("svc 0", in("x8") n, inlateout("x0") a[0] => ret, in("x1") a[1], in("x2") a[2],
             in("x3") a[3], in("x4") a[4], in("x5") a[5], options(nostack));
    }
    ret
}

/// Starts a thread by raw `clone`: it runs `entry(arg)` on `stack_top` and then leaves by `exit`,
/// touching neither its stack nor any libc state on the way out. Returns the raw result.
///
/// # Safety
/// `stack_top` must be the 16-byte aligned end of a stack that stays mapped until the kernel has
/// cleared `tid`; `entry` must use no thread-local state.
pub unsafe fn clone_thread(
    flags: usize,
    stack_top: *mut u8,
    tid: *const u32,
    tls: *mut u8,
    entry: extern "C" fn(usize),
    arg: usize,
) -> usize {
    let ret;
    // SAFETY: parent: returns like any syscall. Child: starts on the new stack, so it must not
    // return from this function; it calls `entry` and exits. The caller vouches for the stack.
    unsafe {
        asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x20",
            "blr x21",
            "mov x0, xzr",
            "mov x8, #93",
            "svc 0",
            "udf #0",
            "2:",
            in("x8") nr::CLONE,
            inlateout("x0") flags => ret, in("x1") stack_top, in("x2") tid, in("x3") tls,
            in("x4") tid, in("x20") arg, in("x21") entry,
        );
    }
    ret
}

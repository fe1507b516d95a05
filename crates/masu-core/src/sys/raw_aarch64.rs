//! System calls of AArch64 Linux: the instruction.

#[path = "nr_generic.rs"]
pub mod nr;

use core::arch::asm;

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

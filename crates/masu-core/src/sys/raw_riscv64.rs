//! System calls of RISC-V Linux, 64 bits: the instruction.

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
    // SAFETY: the syscall ABI returns in a0 and preserves all other registers; the effects of the
    // call itself are the caller's obligation.
    unsafe {
        asm!("ecall", in("a7") n, inlateout("a0") a[0] => ret, in("a1") a[1], in("a2") a[2],
             in("a3") a[3], in("a4") a[4], in("a5") a[5], options(nostack));
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
            "ecall",
            "bnez a0, 2f",
            "li s0, 0",
            "mv a0, {arg}",
            "jalr {entry}",
            "li a0, 0",
            "li a7, 93",
            "ecall",
            "unimp",
            "2:",
            in("a7") nr::CLONE,
            inlateout("a0") flags => ret, in("a1") stack_top, in("a2") tid, in("a3") tls,
            in("a4") tid, arg = in(reg) arg, entry = in(reg) entry,
        );
    }
    ret
}

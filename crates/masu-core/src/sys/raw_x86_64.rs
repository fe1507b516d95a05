//! System calls of x86-64 Linux: the instruction.

#[path = "nr_x86_64.rs"]
pub mod nr;

use core::arch::asm;

/// Makes a system call with up to six arguments.
///
/// # Safety
/// The arguments must be valid for the call named by `n`.
#[inline]
pub unsafe fn syscall(n: usize, a: [usize; 6]) -> usize {
    let ret;
    // SAFETY: the syscall ABI clobbers rcx and r11 and returns in rax; the effects of the call
    // itself are the caller's obligation.
    unsafe {
        asm!("syscall", inlateout("rax") n => ret, in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
             in("r10") a[3], in("r8") a[4], in("r9") a[5], lateout("rcx") _, lateout("r11") _,
             options(nostack));
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
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "xor edi, edi",
            "mov eax, 60",
            "syscall",
            "ud2",
            "2:",
            inlateout("rax") nr::CLONE => ret,
            in("rdi") flags, in("rsi") stack_top, in("rdx") tid, in("r10") tid, in("r8") tls,
            in("r12") arg, in("r13") entry,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    ret
}

//! A stack for a signal handler whose own is short: std's has 8 KiB, part of which the kernel has filled with
//! registers, and a report walks the interrupted stack.
//!
//! The walk goes on from here to the handler, because the switch has a table for unwinding, but only upwards. So this
//! stack is used only where it lies below the handler's, as a program's memory lies below all stacks.

use super::thread;
use crate::sync::{AtomicBool, Ordering};
use core::cell::UnsafeCell;
use core::ffi::c_void;

/// More than a report takes, even without optimisation.
const BYTES: usize = 24 << 10;

#[repr(C, align(64))]
struct Stack(UnsafeCell<[u8; BYTES]>);

// SAFETY: only the thread that has set `TAKEN` uses it, as its stack.
unsafe impl Sync for Stack {}

static STACK: Stack = Stack(UnsafeCell::new([0; BYTES]));
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Runs `f` on this stack if the calling thread has less left, `left` bytes, and this one can be used; otherwise on
/// the thread's own.
pub fn run(left: usize, f: &mut dyn FnMut()) {
    let mut f = f;
    let f = &raw mut f;
    let top = STACK.0.get().addr() + BYTES;
    if left >= BYTES || top > f.addr() || TAKEN.swap(true, Ordering::Acquire) {
        // SAFETY: the closure above.
        return unsafe { call(f.cast()) };
    }
    // For another signal's handler the kernel would take the alternative stack for unused, and overwrite this one's
    // frames.
    // SAFETY: the stack is this thread's alone, and `call` takes this argument.
    thread::without_signals(|| unsafe { switch(f.cast(), call, top) });
    TAKEN.store(false, Ordering::Release);
}

/// Whether a thread uses it.
#[cfg(test)]
pub fn is_taken() -> bool {
    TAKEN.load(Ordering::Relaxed)
}

/// # Safety
/// `f` must be a `*mut &mut dyn FnMut()` that is valid.
unsafe extern "C" fn call(f: *mut c_void) {
    // SAFETY: passed on.
    unsafe { (*f.cast::<&mut dyn FnMut()>())() }
}

/// Defines `switch` for a processor by its instructions.
macro_rules! switch {
    ($arch:literal: $($line:literal,)*) => {
        /// Calls `f` with its argument on the stack that ends at `top`.
        ///
        /// # Safety
        /// The stack must be the caller's alone, `top` a multiple of 16, and the call allowed. It must not unwind.
        #[cfg(all(target_arch = $arch, not(miri)))]
        #[unsafe(naked)]
        unsafe extern "C" fn switch(
            argument: *mut c_void,
            f: unsafe extern "C" fn(*mut c_void),
            top: usize,
        ) {
            core::arch::naked_asm!(".cfi_startproc", $($line,)* ".cfi_endproc")
        }
    };
}

switch! {
    "x86_64":
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "mov rsp, rdx",
    "call rsi",
    "mov rsp, rbp",
    "pop rbp",
    ".cfi_def_cfa rsp, 8",
    "ret",
}

switch! {
    "aarch64":
    "stp x29, x30, [sp, #-16]!",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset x29, -16",
    ".cfi_offset x30, -8",
    "mov x29, sp",
    ".cfi_def_cfa x29, 16",
    "mov sp, x2",
    "blr x1",
    "mov sp, x29",
    ".cfi_def_cfa sp, 16",
    "ldp x29, x30, [sp], #16",
    ".cfi_def_cfa_offset 0",
    ".cfi_restore x29",
    ".cfi_restore x30",
    "ret",
}

switch! {
    "riscv64":
    "addi sp, sp, -16",
    ".cfi_def_cfa_offset 16",
    "sd ra, 8(sp)",
    "sd s0, 0(sp)",
    ".cfi_offset ra, -8",
    ".cfi_offset s0, -16",
    "addi s0, sp, 16",
    ".cfi_def_cfa s0, 0",
    "mv sp, a2",
    "jalr a1",
    "addi sp, s0, -16",
    ".cfi_def_cfa sp, 16",
    "ld ra, 8(sp)",
    "ld s0, 0(sp)",
    "addi sp, sp, 16",
    ".cfi_def_cfa_offset 0",
    "ret",
}

/// Miri has one stack.
#[cfg(miri)]
unsafe fn switch(argument: *mut c_void, f: unsafe extern "C" fn(*mut c_void), _top: usize) {
    // SAFETY: passed on.
    unsafe { f(argument) }
}

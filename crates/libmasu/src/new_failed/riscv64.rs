//! The loops of a failed `operator new` on RISC-V.
//!
//! Linkers may shorten code here, which the call-site table would have to follow: this code forbids that.

use super::{allocate, bad_alloc, catch_table, new_handler, swallow};
use core::arch::naked_asm;
use core::ffi::c_void;

/// The out-of-memory path of `operator new`: calls the new-handler and tries again, or throws.
///
/// # Safety
/// The caller's frame, which an exception may unwind through, must have nothing to clean up.
#[unsafe(naked)]
pub unsafe extern "C" fn new_or_throw(size: usize, align: usize) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        ".option push",
        ".option norelax",
        "addi sp, sp, -64",
        ".cfi_def_cfa_offset 64",
        "sd ra, 56(sp)",
        ".cfi_offset ra, -8",
        "sd s0, 48(sp)",
        ".cfi_offset s0, -16",
        "sd s1, 40(sp)",
        ".cfi_offset s1, -24",
        "mv s0, a0",
        "mv s1, a1",
        "j 5f",
        "2:",
        "mv a0, s0",
        "mv a1, s1",
        "call {allocate}",
        "bnez a0, 4f",
        "5:",
        "call {new_handler}",
        "beqz a0, 3f",
        "jalr a0",
        "j 2b",
        "3:",
        "mv a0, sp",
        "call {bad_alloc}",
        "ld a0, 0(sp)",
        "ld a1, 8(sp)",
        "ld a2, 16(sp)",
        "ld a3, 24(sp)",
        "jalr a3",
        "unimp",
        "4:",
        "ld ra, 56(sp)",
        "ld s0, 48(sp)",
        "ld s1, 40(sp)",
        "addi sp, sp, 64",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore ra",
        ".cfi_restore s0",
        ".cfi_restore s1",
        "ret",
        ".option pop",
        ".cfi_endproc",
        allocate = sym allocate,
        new_handler = sym new_handler,
        bad_alloc = sym bad_alloc,
    )
}

/// The out-of-memory path of a nothrow `operator new`: calls the new-handler and tries again, or
/// returns null.
///
/// # Safety
/// None beyond the arguments of `operator new`; unsafe for symmetry with [`new_or_throw`].
#[allow(
    named_asm_labels,
    reason = "a naked function is there once; later compilers than 1.88 know it"
)]
#[unsafe(naked)]
pub unsafe extern "C" fn new_or_null(size: usize, align: usize) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x9b, .Lmasu_new_personality",
        ".cfi_lsda 0x1b, .Lmasu_new_lsda",
        ".option push",
        ".option norelax",
        ".Lmasu_new_begin:",
        "addi sp, sp, -32",
        ".cfi_def_cfa_offset 32",
        "sd ra, 24(sp)",
        ".cfi_offset ra, -8",
        "sd s0, 16(sp)",
        ".cfi_offset s0, -16",
        "sd s1, 8(sp)",
        ".cfi_offset s1, -24",
        "mv s0, a0",
        "mv s1, a1",
        "j 5f",
        "2:",
        "mv a0, s0",
        "mv a1, s1",
        "call {allocate}",
        "bnez a0, 4f",
        "5:",
        "call {new_handler}",
        "beqz a0, 4f",
        ".Lmasu_new_try:",
        "jalr a0",
        ".Lmasu_new_tried:",
        "j 2b",
        ".Lmasu_new_catch:",
        "call {swallow}",
        "li a0, 0",
        "4:",
        "ld ra, 24(sp)",
        "ld s0, 16(sp)",
        "ld s1, 8(sp)",
        "addi sp, sp, 32",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore ra",
        ".cfi_restore s0",
        ".cfi_restore s1",
        "ret",
        ".option pop",
        ".cfi_endproc",
        catch_table!(),
        allocate = sym allocate,
        new_handler = sym new_handler,
        swallow = sym swallow,
    )
}

//! The loops of a failed `operator new` on AArch64.

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
        "stp x29, x30, [sp, #-32]!",
        ".cfi_def_cfa_offset 32",
        ".cfi_offset x29, -32",
        ".cfi_offset x30, -24",
        "stp x19, x20, [sp, #16]",
        ".cfi_offset x19, -16",
        ".cfi_offset x20, -8",
        "mov x29, sp",
        "sub sp, sp, #32",
        ".cfi_def_cfa_offset 64",
        "mov x19, x0",
        "mov x20, x1",
        "b 5f",
        "2:",
        "mov x0, x19",
        "mov x1, x20",
        "bl {allocate}",
        "cbnz x0, 4f",
        "5:",
        "bl {new_handler}",
        "cbz x0, 3f",
        "blr x0",
        "b 2b",
        "3:",
        "mov x0, sp",
        "bl {bad_alloc}",
        "ldp x0, x1, [sp]",
        "ldp x2, x3, [sp, #16]",
        "blr x3",
        "udf #0",
        "4:",
        "add sp, sp, #32",
        ".cfi_def_cfa_offset 32",
        "ldp x19, x20, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x19",
        ".cfi_restore x20",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "ret",
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
        ".Lmasu_new_begin:",
        "stp x29, x30, [sp, #-32]!",
        ".cfi_def_cfa_offset 32",
        ".cfi_offset x29, -32",
        ".cfi_offset x30, -24",
        "stp x19, x20, [sp, #16]",
        ".cfi_offset x19, -16",
        ".cfi_offset x20, -8",
        "mov x29, sp",
        "mov x19, x0",
        "mov x20, x1",
        "b 5f",
        "2:",
        "mov x0, x19",
        "mov x1, x20",
        "bl {allocate}",
        "cbnz x0, 4f",
        "5:",
        "bl {new_handler}",
        "cbz x0, 4f",
        ".Lmasu_new_try:",
        "blr x0",
        ".Lmasu_new_tried:",
        "b 2b",
        ".Lmasu_new_catch:",
        "bl {swallow}",
        "mov x0, xzr",
        "4:",
        "ldp x19, x20, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x19",
        ".cfi_restore x20",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "ret",
        ".cfi_endproc",
        catch_table!(),
        allocate = sym allocate,
        new_handler = sym new_handler,
        swallow = sym swallow,
    )
}

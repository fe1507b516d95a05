//! The loops of a failed `operator new` on x86-64.

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
        "push rbx",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbx, -16",
        "push r14",
        ".cfi_def_cfa_offset 24",
        ".cfi_offset r14, -24",
        "sub rsp, 40",
        ".cfi_def_cfa_offset 64",
        "mov rbx, rdi",
        "mov r14, rsi",
        "jmp 5f",
        "2:",
        "mov rdi, rbx",
        "mov rsi, r14",
        "call {allocate}",
        "test rax, rax",
        "jne 4f",
        "5:",
        "call {new_handler}",
        "test rax, rax",
        "je 3f",
        "call rax",
        "jmp 2b",
        "3:",
        "mov rdi, rsp",
        "call {bad_alloc}",
        "mov rdi, qword ptr [rsp]",
        "mov rsi, qword ptr [rsp + 8]",
        "mov rdx, qword ptr [rsp + 16]",
        "call qword ptr [rsp + 24]",
        "ud2",
        "4:",
        "add rsp, 40",
        ".cfi_def_cfa_offset 24",
        "pop r14",
        ".cfi_def_cfa_offset 16",
        "pop rbx",
        ".cfi_def_cfa_offset 8",
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
        "push rbx",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbx, -16",
        "push r14",
        ".cfi_def_cfa_offset 24",
        ".cfi_offset r14, -24",
        "push rax",
        ".cfi_def_cfa_offset 32",
        "mov rbx, rdi",
        "mov r14, rsi",
        "jmp 5f",
        "2:",
        "mov rdi, rbx",
        "mov rsi, r14",
        "call {allocate}",
        "test rax, rax",
        "jne 4f",
        "5:",
        "call {new_handler}",
        "test rax, rax",
        "je 4f",
        ".Lmasu_new_try:",
        "call rax",
        ".Lmasu_new_tried:",
        "jmp 2b",
        ".Lmasu_new_catch:",
        "mov rdi, rax",
        "call {swallow}",
        "xor eax, eax",
        "4:",
        "add rsp, 8",
        ".cfi_def_cfa_offset 24",
        "pop r14",
        ".cfi_def_cfa_offset 16",
        "pop rbx",
        ".cfi_def_cfa_offset 8",
        "ret",
        ".cfi_endproc",
        catch_table!(),
        allocate = sym allocate,
        new_handler = sym new_handler,
        swallow = sym swallow,
    )
}

//! The one thread-local word: the thread's heap.
//!
//! Eight bytes of initial-exec TLS, declared in assembly since stable Rust has no other way to ask
//! for that model. A thread starts with the address of [`EMPTY`], an immutable heap without blocks,
//! so the hot paths need no test for "not initialised yet". Executables relax the access to an
//! immediate offset. Eight bytes always fit the surplus that glibc keeps for `dlopen`.

use super::{Heap, Role};

/// The heap of a thread that has not allocated yet.
pub static EMPTY: Heap = Heap::new(Role::Empty);
/// The heap of a thread whose destructors have run.
pub static GONE: Heap = Heap::new(Role::Gone);

core::arch::global_asm!(
    ".pushsection .tdata.masu_heap_v0_1,\"awT\",@progbits",
    ".globl masu_heap_v0_1",
    ".hidden masu_heap_v0_1",
    ".type masu_heap_v0_1, @object",
    ".size masu_heap_v0_1, 8",
    ".balign 8",
    "masu_heap_v0_1:",
    ".quad {empty}",
    ".popsection",
    empty = sym EMPTY,
);

/// The calling thread's heap.
#[inline(always)]
pub fn current() -> &'static Heap {
    let heap: *const Heap;
    // SAFETY: reads the thread's own word, which always holds the address of a static heap or of
    // one in the type-stable table.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!(
            "mov {h}, qword ptr [rip + masu_heap_v0_1@GOTTPOFF]",
            "mov {h}, qword ptr fs:[{h}]",
            h = out(reg) heap, options(readonly, nostack, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!(
            "mrs {h}, tpidr_el0",
            "adrp {t}, :gottprel:masu_heap_v0_1",
            "ldr {t}, [{t}, :gottprel_lo12:masu_heap_v0_1]",
            "ldr {h}, [{h}, {t}]",
            h = out(reg) heap, t = out(reg) _, options(readonly, nostack, preserves_flags));
        &*heap
    }
}

/// Sets the calling thread's heap.
pub fn set_current(heap: &'static Heap) {
    // SAFETY: writes the thread's own word.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!(
            "mov {t}, qword ptr [rip + masu_heap_v0_1@GOTTPOFF]",
            "mov qword ptr fs:[{t}], {h}",
            h = in(reg) heap as *const Heap, t = out(reg) _, options(nostack, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!(
            "mrs {p}, tpidr_el0",
            "adrp {t}, :gottprel:masu_heap_v0_1",
            "ldr {t}, [{t}, :gottprel_lo12:masu_heap_v0_1]",
            "str {h}, [{p}, {t}]",
            h = in(reg) heap as *const Heap, p = out(reg) _, t = out(reg) _,
            options(nostack, preserves_flags));
    }
}

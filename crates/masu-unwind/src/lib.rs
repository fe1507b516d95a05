//! The calling thread's stack as return addresses, for a sampling allocator.
//!
//! A stack may be requested in the middle of `malloc`: inside `dlopen`, in a terminating thread, under any lock. So
//! nothing here allocates, takes a lock or calls code that might, and no read of memory can fault.
//!
//! ```text
//!  walk ── registers of this thread                       [registers]
//!    ├─ all frames, if their rules were found before and are of the plainest form   [plain]
//!    │    └─ the module of an address, if it stays         [lasting]
//!    └─ for each frame: the module of its address         [module]   _dl_find_object, else /proc/thread-self/maps: [maps]
//!         │                                                          told from another build of it: [build]
//!         ├─ a rule that was found before                 [cache]    in memory mapped at the first walk: [kept]
//!         ├─ the rule in the module's unwinding tables    [tables] find the entry, [cfi] runs its program
//!         └─ no tables: the end of the function, if it follows [epilogue], or the frame pointer, if it can be one
//!       the caller's registers, read from the stack       [memory]   pages are asked for before they are read
//! ```
//!
//! Tables are read where the loader put them. A frame on the thread's own stack keeps its module loaded, so they cannot
//! disappear meanwhile. In code without tables (generated at run time), the caller is found from the rest of the
//! function if that only returns, otherwise by frame pointers, as long as these increase and can be read.
//!
//! A stack is correct as far as it goes: it ends at the first frame whose caller cannot be found.

#![cfg_attr(not(test), no_std)]

/// Declares items for processors whose registers are known.
macro_rules! where_registers_are_known {
    ($($item:item)*) => {
        $(#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))] $item)*
    };
}

/// The address of a function that the process may lack; null if it does.
macro_rules! weak {
    ($name:literal) => {{
        let address: *const core::ffi::c_void;
        // SAFETY: loads one slot of the global offset table; it is null for an undefined weak symbol.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            core::arch::asm!(
                concat!(".weak ", $name),
                concat!("mov {0}, qword ptr [rip + ", $name, "@GOTPCREL]"),
                out(reg) address, options(pure, nomem, nostack, preserves_flags));
            #[cfg(target_arch = "aarch64")]
            core::arch::asm!(
                concat!(".weak ", $name),
                concat!("adrp {0}, :got:", $name),
                concat!("ldr {0}, [{0}, :got_lo12:", $name, "]"),
                out(reg) address, options(pure, nomem, nostack, preserves_flags));
            #[cfg(target_arch = "riscv64")]
            core::arch::asm!(
                concat!(".weak ", $name),
                concat!("lga {0}, ", $name),
                out(reg) address, options(pure, nomem, nostack, preserves_flags));
        }
        address
    }};
}

where_registers_are_known! {
    mod build;
    mod cache;
    mod cfi;
    #[cfg(target_arch = "x86_64")]
    mod epilogue;
    mod kept;
    mod lasting;
    mod maps;
    mod memory;
    mod module;
    mod plain;
    mod registers;
    mod sys;
    mod tables;
    mod walk;

    pub use kept::{BYTES, MEMORY};
    pub use sys::can_be_read;
    pub use walk::{walk, walk_outside};
}

#[cfg(test)]
mod tests;

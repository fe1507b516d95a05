#![cfg_attr(not(any(test, loom, miri)), no_std)]
#![cfg_attr(any(loom, miri), allow(dead_code, unused_imports))]
//! The engine of masu: a memory allocator for Linux.
//!
//! Programs do not use it directly: `libmasu` and the crate `masu` translate their interfaces into
//! the functions here, and use nothing else of it. `ARCHITECTURE.md` explains the parts; each
//! module begins with its invariants, its locks and its memory orderings.
//!
//! No call here allocates through any other allocator, unwinds, or touches `errno`.

#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
)))]
compile_error!(
    "masu's engine runs on Linux with 64 bits, on x86-64, AArch64 and RISC-V; \
     elsewhere the crate `masu` works over the system's allocator"
);

pub mod sync;

mod clock;
mod deferred;
mod discards;
mod features;
mod fork;
mod free_block;
mod guard;
pub mod handshake;
mod holder;
pub mod lock;
pub mod turn;

#[cfg(not(loom))]
pub mod config;
#[cfg(not(loom))]
mod face;
#[cfg(not(loom))]
mod hardened;
#[cfg(loom)]
mod hardened {
    pub mod bin;
    pub mod state;
    pub use crate::models::world::hardened::*;
}
#[cfg(not(loom))]
mod heap;
#[cfg(not(loom))]
mod huge;
mod ledger;
#[cfg(not(loom))]
mod limit;
#[cfg(not(loom))]
mod named_file;
#[cfg(not(loom))]
mod outlet;
#[cfg(not(loom))]
pub mod outside;
#[cfg(all(test, not(loom)))]
mod own_process;
#[cfg(not(loom))]
mod prof;
#[cfg(loom)]
mod prof {
    pub mod heads;
    pub mod switch;
}
#[cfg(not(loom))]
mod purge;
#[cfg(not(loom))]
mod region;
#[cfg(not(loom))]
mod report;
#[cfg(not(loom))]
mod request;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod rules;
#[cfg(not(loom))]
mod run;
#[cfg(not(loom))]
mod settings;
mod sharding;
#[cfg(not(loom))]
mod sharing;
pub mod size_class;
#[cfg(not(loom))]
mod space;
mod span;
#[cfg(not(loom))]
mod spare;
#[cfg(not(loom))]
mod stack;
#[cfg(not(loom))]
mod stats;
#[cfg(not(loom))]
mod sys;
#[cfg(all(test, not(loom)))]
mod test_random;
#[cfg(not(loom))]
pub mod text;
mod tuning;

/// Makes a section of code begin on a cache line of 64 bytes, and so the function that has it to itself.
/// The functions of a section are aligned as the section asks.
#[doc(hidden)]
#[macro_export]
macro_rules! begins_a_line {
    ($section:literal) => {
        #[cfg(not(miri))]
        core::arch::global_asm!(
            concat!(".pushsection ", $section, ", \"ax\", @progbits"),
            ".p2align 6",
            ".popsection"
        );
    };
}

/// Assembly that leaves a note in the file that masu becomes part of, by which `masu doctor` recognises it:
/// an ELF note of the name `masu` in `.note.masu`, with the version as text. Its type says which door it is:
/// 1 the file's `malloc`, 2 Rust's global allocator, 3 an archive under names of its own. A second note, of
/// type 16, says how far behind it the engine's description for readers from outside lies.
///
/// It holds no code. Linkers keep the notes of every object they take, and `strip` keeps what is loaded.
#[doc(hidden)]
#[macro_export]
macro_rules! note {
    ($door:literal) => {
        concat!(
            ".pushsection .note.masu, \"a\", %note\n",
            ".p2align 2\n",
            ".long 5, 7703f - 7702f, ",
            $door,
            "\n.asciz \"masu\"\n",
            ".p2align 2\n",
            "7702: .asciz \"",
            env!("CARGO_PKG_VERSION"),
            "\"\n7703: .p2align 2\n",
            // Where the engine describes itself (`outside`), relative to here.
            ".long 5, 4, 16\n",
            ".asciz \"masu\"\n",
            ".p2align 2\n",
            ".long masu_outside_v0_1 - .\n",
            ".popsection"
        )
    };
}

// Under the model checker, models replace what the protocols stand on.
#[cfg(loom)]
#[allow(missing_docs, reason = "what is modelled is documented where it is real")]
mod models;
#[cfg(loom)]
use models::world::{heap, huge, purge, region, report, run, settings, sharing, space, sys};

#[cfg(not(loom))]
pub use face::*;
#[cfg(not(loom))]
pub use named_file::expand as stats_path;
#[cfg(not(loom))]
pub use stats::{
    ClassStats, HeapStats, Stats, classes as class_stats, heaps as heap_stats,
    json as print_stats_json, print as print_stats, read as stats,
};

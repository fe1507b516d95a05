#![no_std]
#![cfg_attr(feature = "nightly", feature(allocator_api))]
//! A memory allocator for Linux that gives memory back, with no C compiler and no build script.
//!
//! ```
//! #[global_allocator]
//! static GLOBAL: masu::Masu = masu::Masu;
//!
//! fn main() {
//!     let squares: Vec<u64> = (0..1000).map(|n| n * n).collect();
//!     assert_eq!(squares[999], 998_001);
//! }
//! ```
//!
//! - [`Masu`]: the global allocator. [`Masu::with_config`] gives it the program's own
//!   configuration.
//! - [`ctl`]: statistics and control while the program runs.
//! - [`limit`]: limits on the memory of the whole program.
//! - [`Heap`]: separate memory for one part of a program, with limits, freed all at once. A
//!   [`scope`] makes code that takes no allocator use a heap.
//! - [`Slab`]: values under small integer keys, at addresses that never change. [`PinSlab`],
//!   [`GenSlab`] and [`SharedSlab`] pin the values, detect stale keys, and share the values between
//!   threads.
//! - [`Pool`], [`ObjectPool`], [`SharedPool`]: short-lived objects in reused slots; [`BufferPool`]:
//!   buffers in one region.
//!
//! Environment variables configure masu: `MASU_CONF=decay:1s`, `MASU_SHOW_STATS=1`.
//!
//! # Where it runs
//!
//! masu runs on Linux with x86-64, AArch64 or RISC-V (64 bits), with glibc and musl, in programs and in shared
//! libraries. On every other target with the standard library (macOS, Windows, the BSDs, Android, WebAssembly, 32 bits)
//! the same code compiles, but [`Masu`] is the system's allocator. [`Heap`], [`Slab`], [`Pool`], [`BufferPool`] and the
//! other types work on top of it. Options have no effect, [`ctl`] and [`limit`] read 0, and a [`scope`] changes
//! nothing. `Masu::usable_size` and the module `prof` do not exist there.
//!
//! # Features
//!
//! - `allocator-api2` (default): [`Heap`] is an allocator for collections, through version 0.4 of the crate of that
//!   name, re-exported as [`allocator_api2`].
//! - `allocator-api2-02` (default): the same for version 0.2, which hashbrown, bumpalo and others use; re-exported as
//!   [`allocator_api2_02`].
//! - `nightly`: the same for the standard library's unstable `Allocator` trait, and so for its `Vec` and `Box`.
//! - `tls-descriptors`: for plug-ins on musl, whose `dlopen` otherwise refuses to load them ("initial-exec TLS resolves
//!   to dynamic definition"). Programs, libraries that a program is linked with, and plug-ins on glibc do not need it.
//!   A thread then finds its heap with a call in every allocation and free, instead of in a word of its static memory;
//!   in a program the linker removes that call.
//! - `hardened`: `Masu::hardened` and `Heap::hardened`, and the configuration `MASU_CONF=policy:hardened`. All blocks,
//!   or those of one heap, are placed where bugs in unsafe code do the least harm and are found
//!   soonest.
//! - `guard`: sampled guards: with `MASU_CONF=guard:1/5000`, some small blocks lie between inaccessible pages.
//! - `prof`: the heap profile, started and read while the program runs: `masu::prof`. It needs the standard library.
//!   Without this feature the program cannot be profiled from outside either, as `masu prof -p` does.
//! - `flamegraph`: `prof`, plus flame graphs, and function names in all formats.
//! - `serde`: serialises a [`Slab`] as a map, in the format of the `slab` crate.
//!
//! A program contains only the parts whose features it enables. `policy:debug` needs `hardened`, `guard` and `prof`. If
//! the configuration asks for a part that is missing, a line on stderr names the feature, and the program runs without
//! that part.

extern crate alloc;
#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"),
    not(masu_elsewhere)
)))]
extern crate masu_elsewhere as masu_core;
#[cfg(any(
    all(feature = "prof", not(all(test, loom))),
    not(all(
        target_os = "linux",
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"),
        not(masu_elsewhere)
    ))
))]
extern crate std;
#[cfg(all(test, loom))]
#[macro_use]
extern crate std;

#[cfg(feature = "allocator-api2")]
pub use allocator_api2;
#[cfg(feature = "allocator-api2-02")]
pub use allocator_api2_02;

#[cfg(not(loom))]
mod config;
#[cfg(not(loom))]
pub mod ctl;

#[cfg(not(loom))]
mod global;
#[cfg(not(loom))]
pub mod heap;
#[cfg(not(loom))]
pub mod limit;
pub mod pool;
#[cfg(all(
    not(loom),
    all(
        target_os = "linux",
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"),
        not(masu_elsewhere)
    )
))]
mod process;
#[cfg(all(
    not(loom),
    not(all(
        target_os = "linux",
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"),
        not(masu_elsewhere)
    ))
))]
#[path = "process/elsewhere.rs"]
mod process;
#[cfg(all(
    feature = "prof",
    not(loom),
    all(
        target_os = "linux",
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"),
        not(masu_elsewhere)
    )
))]
pub mod prof;
pub mod slab;

#[cfg(not(loom))]
pub use config::{BackgroundThread, Config, MemoryTags, OnError, Policy};
#[cfg(not(loom))]
pub use global::{Configured, Masu};
#[cfg(not(loom))]
pub use heap::{ArcHeap, Heap, scope, unscoped};
pub use pool::{BufferPool, ObjectPool, Pool, PoolBox, SharedPool};
pub use slab::{GenSlab, PinSlab, SharedSlab, Slab};

/// Compiles and runs the examples of the crate's page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#![no_std]
#![cfg_attr(feature = "nightly", feature(allocator_api))]
//! masu for Rust programs: a memory allocator for Linux, with no C compiler and no build script.
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
//! - [`Masu`]: the global allocator; [`Masu::with_config`] with a configuration of the program's own.
//! - [`ctl`]: statistics and control while the program runs.
//! - [`limit`]: limits on the memory of the whole program.
//! - [`Heap`]: memory of its own for a part of a program, with limits, given back at once; [`scope`].
//! - [`Slab`]: values under small integer keys, at addresses that never change.
//!   [`PinSlab`], [`GenSlab`] and [`SharedSlab`] pin them, tell old keys from new, and share them.
//! - [`Pool`], [`ObjectPool`], [`SharedPool`]: objects that come and go quickly; [`BufferPool`]:
//!   buffers in one region.
//!
//! The environment configures it as it does every door of masu: `MASU_CONF=decay:1s`, `MASU_SHOW_STATS=1`.
//!
//! # Where it runs
//!
//! On Linux with x86-64, AArch64 or RISC-V (64 bits), glibc and musl, in programs and in shared libraries. Everywhere
//! else that has the standard library (macOS, Windows, the BSDs, Android, WebAssembly, 32 bits) the same code compiles:
//! [`Masu`] is the system's allocator; [`Heap`], [`Slab`], [`Pool`], [`BufferPool`] and their kin work over it; options have no
//! effect, [`ctl`] and [`limit`] read 0, and a [`scope`] changes nothing. Not there are
//! `Masu::usable_size` and the module `prof`.
//!
//! # Features
//!
//! - `allocator-api2` (default): [`Heap`] as an allocator for collections, by that crate's trait, in its
//!   version 0.4, which is re-exported as [`allocator_api2`].
//! - `allocator-api2-02` (default): the same for version 0.2, which hashbrown, bumpalo and others use;
//!   re-exported as [`allocator_api2_02`].
//! - `nightly`: the standard library's `Allocator` too, for `Vec` and `Box` themselves.
//! - `tls-descriptors`: how a thread finds its heap. The default, a word of the thread's static
//!   memory, works in every program, in every library that a program is linked with, and, on glibc, in
//!   those that it loads by `dlopen` too. musl refuses to load such a library ("initial-exec TLS
//!   resolves to dynamic definition"): a plug-in for programs on musl needs this feature, and every
//!   allocation and free then makes one more call. In a program the linker removes it again.
//! - `hardened`: `Masu::hardened` and `Heap::hardened`, and what the environment can ask for: `MASU_CONF=policy:hardened`.
//!   Every block, or those of a heap, lie where mistakes of unsafe code harm least and are found soonest.
//! - `guard`: sampled guards, `MASU_CONF=guard:1/5000`: some small blocks between inaccessible pages.
//! - `prof`: the heap profile, which is started and read as the program runs: `masu::prof`. It needs the standard
//!   library. Without it nobody can profile the program from outside either, as `masu prof -p` does.
//! - `flamegraph`: the same with flame graphs, and with the names of functions in all forms.
//! - `serde`: a [`Slab`] is written and read as a map, in the format of the `slab` crate.
//!
//! A program has only the parts that it names, `policy:debug` all three of `hardened`, `guard` and `prof`. If its
//! configuration asks for one that is not there, a line on stderr names the feature, and the program runs without it.

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

/// What the crate's page shows is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

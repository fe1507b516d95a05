#![no_std]
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
//! - [`Slab`]: values under small integer keys, at addresses that never change.
//! - [`Pool`], [`ObjectPool`]: objects that come and go quickly.
//!
//! x86-64 and AArch64, glibc and musl, in programs and in shared libraries. The environment configures
//! it as it does every door of masu: `MASU_CONF=decay:1s`, `MASU_SHOW_STATS=1`.
//!
//! # Features
//!
//! - `tls-descriptors`: how a thread finds its heap. The default, two words of the thread's static
//!   memory, works in every program, in every library that a program is linked with, and, on glibc, in
//!   those that it loads by `dlopen` too. musl refuses to load such a library ("initial-exec TLS
//!   resolves to dynamic definition"): a plug-in for programs on musl needs this feature, and every
//!   allocation and free then makes one more call. In a program the linker removes it again.

extern crate alloc;

mod config;
pub mod ctl;

mod global;
pub mod pool;
mod process;
pub mod slab;

pub use config::{BackgroundThread, Config};
pub use global::{Configured, Masu};
pub use pool::{ObjectPool, Pool, PoolBox};
pub use slab::Slab;

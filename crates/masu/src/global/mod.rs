//! The global allocator.
//!
//! Invariants:
//!
//! 1. A block has at least the size and the alignment of its layout, overlaps no other, and stays valid
//!    until it is freed, once, or resized.
//! 2. No function of an allocator unwinds.

#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"),
    not(masu_elsewhere)
)))]
mod elsewhere;
#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"),
    not(masu_elsewhere)
))]
mod engine;

use crate::{Config, process};
use core::alloc::Layout;
use core::hint;

/// masu as a program's global allocator.
///
/// ```
/// #[global_allocator]
/// static GLOBAL: masu::Masu = masu::Masu;
/// # fn main() { assert_eq!(*Box::new(7), 7); }
/// ```
///
/// Serves any size up to `isize::MAX` and any alignment up to 1 GiB. `Vec` and other collections
/// grow in place, even with element types of large alignment. `alloc_zeroed` does not zero memory
/// that is fresh from the system. All copies of the value are the same allocator.
///
/// The first allocation starts the engine with the environment's configuration (`MASU_CONF`,
/// `MASU_DECAY` and so on). Where the engine does not run (see [the crate](crate#where-it-runs)), this is the system's
/// allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Masu;

/// [`Masu`] with the program's own configuration, from [`Masu::with_config`].
///
/// ```
/// use masu::{Config, Configured, Masu};
///
/// #[global_allocator]
/// static GLOBAL: Configured = Masu::with_config(Config::new().decay_never());
/// # fn main() {}
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Configured(Config);

impl Masu {
    /// Returns the allocator with the program's own configuration, which the environment overrides.
    /// The configuration takes effect with the first allocation. If a program has two such
    /// allocators, the one that allocates first configures both.
    ///
    /// ```
    /// use masu::{Config, Configured, Masu};
    ///
    /// #[global_allocator]
    /// static GLOBAL: Configured = Masu::with_config(Config::new().decay_ms(50));
    /// # fn main() { assert_eq!(masu::ctl::decay::read(), Ok(Some(50))); }
    /// ```
    #[must_use]
    pub const fn with_config(config: Config) -> Configured {
        Configured(config)
    }

    /// With the feature `hardened`: returns the allocator with every block hardened, from the first one on. Each block
    /// is placed where a bug in unsafe code, or in C code that allocates here, does the least harm and is found
    /// soonest. The environment can add to it (`MASU_POLICY=debug`) or remove it (`MASU_HARDENED=off`).
    ///
    /// It is [`with_config`](Masu::with_config) with [`Policy::Hardened`](crate::Policy::Hardened); `docs/hardened.md`
    /// describes the guarantees and the costs. [`Heap::hardened`](crate::Heap::hardened) does the same for part of a
    /// program.
    ///
    /// ```
    /// use masu::{Configured, Masu};
    ///
    /// #[global_allocator]
    /// static GLOBAL: Configured = Masu::hardened();
    /// # fn main() { assert!(masu::Heap::new().unwrap().is_hardened()); }
    /// ```
    #[cfg(feature = "hardened")]
    #[must_use]
    pub const fn hardened() -> Configured {
        Masu::with_config(Config::new().policy(crate::Policy::Hardened))
    }
}

/// The configuration of [`Masu`].
static DEFAULT: Config = Config::new();

/// Starts the engine if nothing has, for calls that may come before the program's first allocation: with the
/// configuration of the program's allocator, if that is masu. What was set before the start would be lost.
#[inline]
pub(crate) fn ensure_started() {
    if !process::is_started() {
        start();
    }
}

#[cold]
#[inline(never)]
fn start() {
    // No fast path serves this size.
    let layout = Layout::new::<[u8; 64 << 10]>();
    // SAFETY: invariant 1: the size is not 0, as its type says; the block is freed at once, with the layout that it
    // was made with.
    unsafe {
        let block = hint::black_box(alloc::alloc::alloc(layout));
        if !block.is_null() {
            alloc::alloc::dealloc(block, layout);
        }
    }
    // If the program has another allocator.
    process::ensure(&DEFAULT);
}

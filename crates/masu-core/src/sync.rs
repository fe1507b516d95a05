//! The facade over atomics, and cells that protocols guard: `core` in production, `loom` under its model checker.
//!
//! Everything that takes part in a concurrent protocol uses these names, so the model checks run
//! the production code.

#[cfg(loom)]
pub use crate::models::world::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(not(loom))]
pub use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
    compiler_fence, fence,
};

#[cfg(loom)]
pub use crate::models::world::atomic::Cell;
/// A cell that a protocol guards; under the model checker, one that detects two threads at it.
#[cfg(not(loom))]
pub use core::cell::Cell;

/// Tells the CPU that this is a spin loop (and the model checker that another thread must run).
#[inline]
pub fn spin_hint() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// In the body of a loop that seldom runs: keeps the compiler from unrolling the loop and from using vectors. Rust
/// programs are optimised for speed, which would make of each such loop four times its code.
#[inline(always)]
pub fn rolled() {
    #[cfg(not(any(miri, loom)))]
    // SAFETY: no instructions.
    unsafe {
        core::arch::asm!("", options(nomem, nostack, preserves_flags));
    }
}

/// The number of rounds of such a loop, if it is a constant: the compiler cannot write out so many copies of the body.
#[inline(always)]
pub fn rounds(n: usize) -> usize {
    core::hint::black_box(n)
}

/// A `const fn` in production; loom's atomics cannot be made in constants.
#[cfg(not(loom))]
macro_rules! const_unless_loom {
    ($(#[$attr:meta])* $vis:vis fn $($rest:tt)*) => { $(#[$attr])* $vis const fn $($rest)* };
}
#[cfg(loom)]
macro_rules! const_unless_loom {
    ($(#[$attr:meta])* $vis:vis fn $($rest:tt)*) => { $(#[$attr])* $vis fn $($rest)* };
}
pub(crate) use const_unless_loom;

/// A static; under the model checker, which makes it anew for each interleaving, a lazy one.
#[cfg(not(loom))]
macro_rules! shared_static {
    ($(#[$attr:meta])* $vis:vis static $name:ident: $type:ty = $value:expr;) => {
        $(#[$attr])* $vis static $name: $type = $value;
    };
}
#[cfg(loom)]
macro_rules! shared_static {
    ($(#[$attr:meta])* static $name:ident: $type:ty = $value:expr;) => {
        loom::lazy_static! { $(#[$attr])* static ref $name: $type = $value; }
    };
    ($(#[$attr:meta])* pub static $name:ident: $type:ty = $value:expr;) => {
        loom::lazy_static! { $(#[$attr])* pub static ref $name: $type = $value; }
    };
}
pub(crate) use shared_static;

/// An array of a value that is made `$n` times.
#[cfg(not(loom))]
macro_rules! array_of {
    ($value:expr; $n:expr) => {
        [const { $value }; $n]
    };
}
#[cfg(loom)]
macro_rules! array_of {
    ($value:expr; $n:expr) => {
        core::array::from_fn::<_, { $n }, _>(|_| $value)
    };
}
pub(crate) use array_of;

//! The one facade over atomics: `core` in production, `loom` under its model checker.
//!
//! Everything that takes part in a concurrent protocol uses these names, so the model checks run
//! the production code.

#[cfg(not(loom))]
pub use core::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence,
    fence,
};
#[cfg(loom)]
pub use loom::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

/// Tells the CPU that this is a spin loop (and the model checker that another thread must run).
#[inline]
pub fn spin_hint() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
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

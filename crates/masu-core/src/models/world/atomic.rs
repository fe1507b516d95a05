//! Atomics and cells as the checker has them, and as a fork does: see [`super::process`].
//!
//! In a fork's child a load reads the newest value: the memory it was given is one moment's.

use super::process::{self, is_child};
use loom::sync::atomic as checked;
pub use loom::sync::atomic::{Ordering, fence};

macro_rules! atomic {
    ($name:ident, $value:ty, $nothing:expr, { $($more:ident)* }) => {
        /// As its namesake.
        pub struct $name(checked::$name);

        impl $name {
            /// With a value.
            pub fn new(value: $value) -> Self {
                $name(checked::$name::new(value))
            }

            pub fn load(&self, order: Ordering) -> $value {
                process::passed(if is_child() {
                    self.0.fetch_or($nothing, Ordering::AcqRel)
                } else {
                    self.0.load(order)
                })
            }

            pub fn store(&self, value: $value, order: Ordering) {
                process::passed(self.0.store(value, order))
            }

            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                process::passed(self.0.swap(value, order))
            }

            pub fn compare_exchange(
                &self,
                expected: $value,
                value: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                process::passed(self.0.compare_exchange(expected, value, success, failure))
            }

            pub fn compare_exchange_weak(
                &self,
                expected: $value,
                value: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                process::passed(self.0.compare_exchange_weak(expected, value, success, failure))
            }

            $(pub fn $more(&self, value: $value, order: Ordering) -> $value {
                process::passed(self.0.$more(value, order))
            })*
        }
    };
}

atomic!(AtomicBool, bool, false, {});
atomic!(AtomicU32, u32, 0, { fetch_add fetch_sub });
atomic!(AtomicU64, u64, 0, { fetch_add fetch_sub });
atomic!(AtomicUsize, usize, 0, { fetch_add fetch_sub });

/// A cell that fails the check when two threads are at it without an order between them.
pub struct Cell<T> {
    value: core::cell::Cell<T>,
    watch: Watch,
}

impl<T> Cell<T> {
    /// With a value.
    pub fn new(value: T) -> Self {
        Cell { value: core::cell::Cell::new(value), watch: Watch::new() }
    }

    pub fn set(&self, value: T) {
        self.watch.written();
        self.value.set(value);
    }

    pub fn replace(&self, value: T) -> T {
        self.watch.written();
        self.value.replace(value)
    }
}

impl<T: Copy> Cell<T> {
    pub fn get(&self) -> T {
        self.watch.read();
        self.value.get()
    }
}

/// Stands for something that one thread at a time may touch.
pub struct Watch(loom::cell::UnsafeCell<()>);

impl Watch {
    /// Nobody has touched it.
    pub fn new() -> Self {
        Watch(loom::cell::UnsafeCell::new(()))
    }

    /// It is read.
    pub fn read(&self) {
        if process::is_watched() {
            self.0.with(|_| ());
        }
    }

    /// It is written, or may be.
    pub fn written(&self) {
        if process::is_watched() {
            self.0.with_mut(|_| ());
        }
    }
}

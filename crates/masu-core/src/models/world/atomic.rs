//! Atomics and cells as the checker and a fork need them: see [`super::process`].
//!
//! A forked child has one thread, and its memory is as it was at one moment: there atomics are
//! plain words, which the checker does not know.

use super::process::{self, is_child};
use core::ops::BitOr;
use loom::sync::atomic as checked;
pub use loom::sync::atomic::{Ordering, fence};

macro_rules! atomic {
    ($name:ident, $value:ty, { $($more:ident as $plain:ident)* }) => {
        /// Like its namesake.
        pub struct $name {
            checked: checked::$name,
            /// The newest value.
            now: core::cell::Cell<$value>,
        }

        impl $name {
            /// An atomic with a value.
            pub fn new(value: $value) -> Self {
                $name { checked: checked::$name::new(value), now: core::cell::Cell::new(value) }
            }

            pub fn load(&self, order: Ordering) -> $value {
                if is_child() {
                    return self.now.get();
                }
                process::step();
                process::passed(self.checked.load(order))
            }

            pub fn store(&self, value: $value, order: Ordering) {
                if !is_child() {
                    process::step();
                    self.checked.store(value, order);
                }
                self.now.set(value);
                process::passed(());
            }

            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                if is_child() {
                    return self.now.replace(value);
                }
                process::step();
                let before = self.checked.swap(value, order);
                self.now.set(value);
                process::passed(before)
            }

            pub fn compare_exchange(
                &self,
                expected: $value,
                value: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let result = if is_child() {
                    let before = self.now.get();
                    if before == expected { Ok(before) } else { Err(before) }
                } else {
                    process::step();
                    self.checked.compare_exchange(expected, value, success, failure)
                };
                if result.is_ok() {
                    self.now.set(value);
                }
                process::passed(result)
            }

            pub fn compare_exchange_weak(
                &self,
                expected: $value,
                value: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(expected, value, success, failure)
            }

            $(pub fn $more(&self, value: $value, order: Ordering) -> $value {
                let before = if is_child() {
                    self.now.get()
                } else {
                    process::step();
                    self.checked.$more(value, order)
                };
                self.now.set(before.$plain(value));
                process::passed(before)
            })*
        }
    };
}

atomic!(AtomicBool, bool, {});
atomic!(AtomicU8, u8, {});
atomic!(AtomicU32, u32, { fetch_add as wrapping_add fetch_sub as wrapping_sub fetch_or as bitor });
atomic!(AtomicU64, u64, { fetch_add as wrapping_add fetch_sub as wrapping_sub });
atomic!(AtomicUsize, usize, { fetch_add as wrapping_add fetch_sub as wrapping_sub fetch_or as bitor });

/// A cell that fails the check if two threads use it without an order between them.
pub struct Cell<T> {
    value: core::cell::Cell<T>,
    watch: Watch,
}

impl<T> Cell<T> {
    /// A cell with a value.
    pub fn new(value: T) -> Self {
        Cell { value: core::cell::Cell::new(value), watch: Watch::new() }
    }

    pub fn set(&self, value: T) {
        process::step();
        self.watch.written();
        self.value.set(value);
    }

    pub fn replace(&self, value: T) -> T {
        process::step();
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

/// Stands for something that only one thread at a time may touch.
pub struct Watch(loom::cell::UnsafeCell<()>);

impl Watch {
    /// Nothing has used it so far.
    pub fn new() -> Self {
        Watch(loom::cell::UnsafeCell::new(()))
    }

    /// Records a read.
    pub fn read(&self) {
        if process::is_watched() {
            self.0.with(|_| ());
        }
    }

    /// Records a write, or a possible one.
    pub fn written(&self) {
        if process::is_watched() {
            self.0.with_mut(|_| ());
        }
    }
}

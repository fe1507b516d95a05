//! The single facade over atomics and shared cells: `core` in production, `loom` under its model
//! checker, which thereby runs the production code.

use core::mem::MaybeUninit;

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Space for a value, uninitialised at first. Its users coordinate access by atomics next to it.
#[repr(transparent)]
pub(crate) struct Shared<T>(
    #[cfg(not(loom))] core::cell::UnsafeCell<MaybeUninit<T>>,
    #[cfg(loom)] loom::cell::UnsafeCell<MaybeUninit<T>>,
);

impl<T> Shared<T> {
    pub fn uninit() -> Self {
        #[cfg(not(loom))]
        return Shared(core::cell::UnsafeCell::new(MaybeUninit::uninit()));
        #[cfg(loom)]
        Shared(loom::cell::UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// Returns a pointer for an immediate read. Under the model checker, a race with a writer is an
    /// error.
    #[inline(always)]
    pub fn read(&self) -> *const T {
        #[cfg(not(loom))]
        return self.0.get().cast();
        #[cfg(loom)]
        self.0.with(|p| p.cast())
    }

    /// Returns a pointer for an immediate write. Under the model checker, a race with any access is
    /// an error.
    #[inline(always)]
    pub fn write(&self) -> *mut T {
        #[cfg(not(loom))]
        return self.0.get().cast();
        #[cfg(loom)]
        self.0.with_mut(|p| p.cast())
    }
}

//! The one facade over atomics and shared cells: `core` in production, `loom` under its model
//! checker, which so runs the production code.

use core::mem::MaybeUninit;

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Room for a value, uninitialised at first. Its users agree among themselves, by atomics next to
/// it, on who may look at it.
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

    /// A pointer to read through, now. Under the model checker, a race with a writer is an error.
    #[inline(always)]
    pub fn read(&self) -> *const T {
        #[cfg(not(loom))]
        return self.0.get().cast();
        #[cfg(loom)]
        self.0.with(|p| p.cast())
    }

    /// A pointer to write through, now. Under the model checker, a race with anybody is an error.
    #[inline(always)]
    pub fn write(&self) -> *mut T {
        #[cfg(not(loom))]
        return self.0.get().cast();
        #[cfg(loom)]
        self.0.with_mut(|p| p.cast())
    }
}

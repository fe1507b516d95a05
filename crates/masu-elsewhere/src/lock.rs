//! A lock without data; what it protects is named where it is declared.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The lock.
#[derive(Default)]
pub struct Lock(Mutex<()>);

/// Gives the lock back when it is dropped.
pub struct Guard<'a>(#[allow(dead_code, reason = "held until dropped")] MutexGuard<'a, ()>);

impl Lock {
    /// A free lock.
    pub const fn new() -> Self {
        Lock(Mutex::new(()))
    }

    /// Takes the lock, sleeping if it must.
    pub fn lock(&self) -> Guard<'_> {
        Guard(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

//! A lock without data; its declaration names what it protects.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The lock.
#[derive(Default)]
pub struct Lock(Mutex<()>);

/// Releases the lock when dropped.
pub struct Guard<'a>(#[allow(dead_code, reason = "held until dropped")] MutexGuard<'a, ()>);

impl Lock {
    /// Makes a free lock.
    pub const fn new() -> Self {
        Lock(Mutex::new(()))
    }

    /// Takes the lock, sleeping if necessary.
    pub fn lock(&self) -> Guard<'_> {
        Guard(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

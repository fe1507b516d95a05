//! What a running program may set or query. The values are stored but have no effect.

use crate::config::{BackgroundThread, Config, Delay};
use core::ffi::c_void;
use std::sync::{Mutex, PoisonError};

static OPTIONS: Mutex<Config> = Mutex::new(Config::DEFAULT);

fn options<R>(look: impl FnOnce(&mut Config) -> R) -> R {
    look(&mut OPTIONS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Takes over the options compiled into the program.
pub fn start(config: &Config) {
    options(|options| *options = *config);
}

/// Defines how an option is read and set.
macro_rules! options {
    ($($key:ident, $set:ident: $type:ty;)+) => {$(
        #[doc = concat!("The option `", stringify!($key), "`.")]
        pub fn $key() -> $type {
            options(|options| options.$key)
        }

        #[doc = concat!("Sets the option `", stringify!($key), "`.")]
        pub fn $set(value: $type) {
            options(|options| options.$key = value);
        }
    )+};
}

options! {
    background_thread, set_background_thread: BackgroundThread;
    budget, set_budget: usize;
    decay, set_decay: Delay;
    huge_cache, set_huge_cache: usize;
    limit_hard, set_limit_hard: usize;
    limit_soft, set_limit_soft: usize;
    retain_full, set_retain_full: u32;
    run_cache, set_run_cache: usize;
}

/// Returns the bytes in use, as limits count them.
pub fn used() -> usize {
    0
}

/// The callback for crossing the soft limit, which is never called.
pub type LimitCallback = extern "C" fn(used: usize, limit: usize, context: *mut c_void);

/// Sets it.
pub fn set_limit_callback(_callback: Option<LimitCallback>, _context: *mut c_void) {}

/// Gives back what the calling thread keeps, which is nothing.
pub fn flush_thread() {}

/// Returns the bytes that the calling thread has allocated.
pub fn thread_allocated() -> u64 {
    0
}

/// Returns the bytes that the calling thread has freed.
pub fn thread_deallocated() -> u64 {
    0
}

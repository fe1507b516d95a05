//! What a running program may change or ask for by itself. The values are kept, and nothing goes by them.

use crate::config::{BackgroundThread, Config, Delay};
use core::ffi::c_void;
use std::sync::{Mutex, PoisonError};

static OPTIONS: Mutex<Config> = Mutex::new(Config::DEFAULT);

fn options<R>(look: impl FnOnce(&mut Config) -> R) -> R {
    look(&mut OPTIONS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Takes over what the program was compiled with.
pub fn start(config: &Config) {
    options(|options| *options = *config);
}

/// Defines how an option is read and how it is set.
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

/// Bytes in use, as limits count them.
pub fn used() -> usize {
    0
}

/// What is called when the soft limit is passed, which nobody looks at.
pub type LimitCallback = extern "C" fn(used: usize, limit: usize, context: *mut c_void);

/// Sets it.
pub fn set_limit_callback(_callback: Option<LimitCallback>, _context: *mut c_void) {}

/// Gives back what the calling thread keeps, which is nothing.
pub fn flush_thread() {}

/// Bytes that the calling thread has allocated.
pub fn thread_allocated() -> u64 {
    0
}

/// Bytes that the calling thread has freed.
pub fn thread_deallocated() -> u64 {
    0
}

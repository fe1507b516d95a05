//! The process where the engine does not run: nothing is started; the program's options are stored so that they can be
//! read.

use crate::Config;
use core::sync::atomic::{AtomicBool, Ordering};

static STARTED: AtomicBool = AtomicBool::new(false);

/// Stores the program's options if this is the first call.
#[inline]
pub fn ensure(config: &Config) {
    if !STARTED.load(Ordering::Relaxed) {
        start(config);
    }
}

#[cold]
#[inline(never)]
fn start(config: &Config) {
    // Before anything that may allocate.
    if !STARTED.swap(true, Ordering::AcqRel) {
        masu_core::control::start(config.options());
    }
}

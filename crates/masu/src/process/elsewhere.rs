//! The process where the engine does not run: nothing is started; the program's options are stored so that they can be
//! read.

use crate::Config;
use core::sync::atomic::{AtomicBool, Ordering};

static STARTED: AtomicBool = AtomicBool::new(false);

/// Whether a call of [`ensure`] has come.
#[inline]
pub fn is_started() -> bool {
    STARTED.load(Ordering::Relaxed)
}

/// Stores the program's options if this is the first call.
#[inline]
pub fn ensure(config: &Config) {
    if !is_started() {
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

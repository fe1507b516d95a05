//! The fault handler, which reports an access to the surroundings of a guarded block. It stands before the program's
//! own handler, to which every fault is passed on.

use super::report;
use crate::sync::{AtomicUsize, Ordering};
use crate::sys::signal::{self, Fault};

/// Makes faults in the slots known. Returns `false` if the C library has no `sigaction` at hand.
pub fn catch() -> bool {
    signal::catch_faults(told)
}

/// Guarded blocks that still have a look at which handler is in place.
static LOOKS: AtomicUsize = AtomicUsize::new(0);

/// Has the next few guarded blocks put the handler before one that has taken its place since. The engine of a Rust
/// program starts with the program's first allocation, which std makes between finding that there is no handler and
/// installing its own.
pub fn watch() {
    LOOKS.store(64, Ordering::Relaxed);
}

/// A guarded block is about to be handed out.
pub fn look() {
    let left = LOOKS.load(Ordering::Relaxed);
    if left != 0 {
        LOOKS.store(left - 1, Ordering::Relaxed);
        signal::catch_faults_again();
    }
}

fn told(fault: Fault) {
    report::fault(fault.address, fault.writes);
}

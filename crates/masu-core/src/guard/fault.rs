//! The fault handler, which reports an access to the surroundings of a guarded block. It stands before the program's
//! own handler, to which every fault is passed on.

use super::report;
use crate::sys::signal::{self, Fault};

/// Makes faults in the slots known. Returns `false` if the C library has no `sigaction` at hand.
pub fn catch() -> bool {
    signal::catch_faults(told)
}

fn told(fault: Fault) {
    report::fault(fault.address, fault.writes);
}

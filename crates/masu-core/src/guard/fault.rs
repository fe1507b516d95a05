//! The fault handler, which tells what an access to a guarded block's surroundings was. It stands before the handler
//! that the program had, to which every fault goes on.

use super::report;
use crate::sys::signal::{self, Fault};

/// Has faults in the slots told of. `false`: the C library has no `sigaction` at hand.
pub fn catch() -> bool {
    signal::catch_faults(told)
}

fn told(fault: Fault) {
    report::fault(fault.address, fault.writes);
}

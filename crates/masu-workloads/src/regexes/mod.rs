//! regex-compile: patterns compiled to automata, tried on a line and dropped.
//!
//! Compiling parses the pattern into a tree, turns that into an automaton and works out its
//! byte classes and literals: many short-lived vectors that grow, few blocks that stay.

#[cfg(feature = "work")]
mod work;

use super::Workload;

#[cfg(not(feature = "work"))]
use super::left_out as run;
#[cfg(feature = "work")]
use work::run;

/// See the module's first line.
pub const REGEX_COMPILE: Workload = Workload {
    name: "regex-compile",
    about: "1 thread, patterns compiled, tried on a line and dropped",
    sleeps: false,
    brief: 0.2,
    run,
};

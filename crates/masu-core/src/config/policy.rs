//! Policies: a name for a set of values, for users who would rather name the kind of program they
//! run than tune it. [`policy_values`](super::policy_values) has the values.
//!
//! # What a name promises
//!
//! The values are edition 1. A later version of masu that changes a policy makes a new edition,
//! and keeps this one: `container` means the newest, `container@1` this one for ever. `default@1` pins
//! the defaults of this version in the same way.

use super::words::position;

/// A policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// Every key has its documented default.
    Default,
    /// Memory first: give back soon, keep little.
    LowMemory,
    /// Speed first: keep what was freed for the next phase.
    Throughput,
    /// A service under a memory limit, on a machine that it shares with many like it.
    Container,
    /// No page fault, no purge and no second thread behind the program's back.
    Realtime,
    /// Mistakes harm least, and show soonest.
    Hardened,
    /// For tests: like hardened, with as many blocks as possible between inaccessible pages.
    Debug,
}

/// The edition of the table.
const EDITION: &[u8] = b"1";

impl Policy {
    /// The names in the order of the values.
    pub(super) const NAMES: &str =
        "default low-memory throughput container realtime hardened debug";

    /// The number of the policy that `written` names, with or without an edition.
    pub(super) fn read(written: &[u8]) -> Option<u64> {
        let mut parts = written.splitn(2, |&byte| byte == b'@');
        let name = parts.next()?;
        if parts.next().is_some_and(|edition| edition != EDITION) {
            return None;
        }
        position(Policy::NAMES, name).map(|i| i as u64)
    }
}

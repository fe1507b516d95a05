//! Policies: a name for a set of values, for users who would rather name the kind of program they
//! run than tune it.
//!
//! `policy:container` sets every key of its column below that is not set explicitly anywhere: a key in the
//! environment or in the program wins over the policy, whichever comes first.
//!
//! # What a name promises
//!
//! The columns below are edition 1. A later version of masu that changes a policy makes a new edition,
//! and keeps this one: `container` means the newest, `container@1` this one for ever. `default@1` pins
//! the defaults of this version in the same way.

use super::Origin;
use super::keys::{Config, Key};
use super::kinds::{BackgroundThread, Delay};
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

/// Like the default.
const SAME: u64 = u64::MAX - 1;
const NEVER: u64 = Delay::Never.to_word();
const ON: u64 = BackgroundThread::On as u64;
const OFF: u64 = BackgroundThread::Off as u64;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Low-memory, throughput, container, realtime, hardened, debug. `docs/configuration.md` has the same table with
/// the reasons, and a test compares them.
const TABLE: [(Key, [u64; 6]); 16] = [
    (Key::decay, [100, 10_000, 250, NEVER, SAME, SAME]),
    (Key::budget, [MIB, 64 * MIB, 2 * MIB, SAME, SAME, SAME]),
    (Key::background_thread, [ON, SAME, ON, OFF, SAME, SAME]),
    (Key::run_cache, [256 * KIB, 16 * MIB, 512 * KIB, 16 * MIB, SAME, SAME]),
    (Key::huge_cache, [16 * MIB, 4 * GIB, 64 * MIB, 1024 * GIB, SAME, SAME]),
    (Key::retain_full, [4, 256, 16, 1024, SAME, SAME]),
    (Key::huge_pages, [0, SAME, 0, 0, SAME, SAME]),
    (Key::huge_pages_from, [SAME, 4 * MIB, SAME, SAME, SAME, SAME]),
    (Key::populate, [SAME, SAME, SAME, 1, SAME, SAME]),
    (Key::limit_soft, [SAME, SAME, SAME, 0, SAME, SAME]),
    (Key::cgroup, [SAME, SAME, SAME, 0, SAME, SAME]),
    (Key::hardened, [SAME, SAME, SAME, SAME, 1, 1]),
    (Key::block_stacks, [SAME, SAME, SAME, SAME, SAME, 1]),
    (Key::show_leaks, [SAME, SAME, SAME, SAME, SAME, 1]),
    (Key::guard, [SAME, SAME, SAME, SAME, SAME, 1]),
    (Key::guard_slots, [SAME, SAME, SAME, SAME, SAME, 20_000]),
];

impl Policy {
    /// The names in the order of the values.
    pub(super) const NAMES: &str =
        "default low-memory throughput container realtime hardened debug";

    /// The policy that `written` names, with or without an edition.
    pub(super) fn read(written: &[u8]) -> Option<Policy> {
        let mut parts = written.splitn(2, |&byte| byte == b'@');
        let name = parts.next()?;
        if parts.next().is_some_and(|edition| edition != EDITION) {
            return None;
        }
        position(Policy::NAMES, name).map(|i| <Policy as super::kinds::Kind>::from_word(i as u64))
    }
}

impl Config {
    /// Gives every key that is not set the value that the policy has for it.
    pub(super) fn under_policy(mut self) -> Config {
        for (key, values) in &TABLE {
            // The default policy has no column: it changes no value.
            let value = values.get((self.policy as usize).wrapping_sub(1));
            if let Some(&value) = value.filter(|&&value| value != SAME)
                && self.origin(*key) == Origin::BuiltIn
            {
                self.put(*key, value, Origin::Policy);
            }
        }
        self
    }
}

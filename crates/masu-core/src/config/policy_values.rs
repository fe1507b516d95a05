//! What each policy sets.
//!
//! `policy:container` sets every key of its column below that is not set explicitly anywhere: a key in the
//! environment or in the program wins over the policy, whichever comes first.

use super::keys::{Config, Key};
use super::kinds::{BackgroundThread, Delay};
use super::origin::Origin;

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

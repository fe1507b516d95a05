//! What is kept of blocks that were copied into longer ones.

use super::*;
use crate::config::Delay;
use crate::own_process::alone;

const MIB: usize = 1 << 20;

/// Grows a block by copying, doubling it each time, up to `bytes`. Returns what is then kept of the outgrown blocks,
/// the last of which had half the bytes.
fn kept_after_growth(bytes: usize) -> usize {
    let mut p = alloc(bytes / 16, 1);
    for times in [8, 4, 2, 1] {
        let longer = alloc(bytes / times, 1);
        // SAFETY: the test's, and live.
        unsafe { give(core::mem::replace(&mut p, longer)) };
    }
    space::dirty_bytes()
}

#[test]
fn what_is_outgrown_is_kept_beside_three_times_as_much() {
    alone!(what_is_outgrown_is_kept_beside_three_times_as_much, || {
        settings::set_decay(Delay::Millis(3_600_000));
        assert!(kept_after_growth(256 * MIB) < 128 * MIB);
        Locked::enter().expect("nobody forks").discard_all();
        // The last block of each growth is live.
        assert_eq!(kept_after_growth(512 * MIB), 256 * MIB);
    });
}

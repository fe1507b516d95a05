//! The statistics as text, a `name value` line each, for people and for `grep`.

use super::snapshot::{Stats, read};
use crate::text::{Text, human_bytes};

/// Writes the statistics of this moment.
pub fn print(text: &mut Text) {
    let s = read();
    text.str("masu: statistics").line();
    let mut bytes = |name: &str, n: u64| {
        text.str("masu:   ").left(name, 20).right(crate::text::decimal(n).as_str(), 16);
        text.str("  ").str(human_bytes(n).as_str()).line();
    };
    let Stats { allocated, active, resident, mapped, retained, metadata, dirty, .. } = s;
    bytes("allocated", allocated as u64);
    bytes("active", active as u64);
    bytes("resident", resident as u64);
    bytes("mapped", mapped as u64);
    bytes("retained", retained as u64);
    bytes("metadata", metadata as u64);
    bytes("dirty", dirty as u64);
    bytes("thread_cached", s.thread_cached as u64);
    bytes("refilled_bytes", s.refilled_bytes);
    bytes("purged_bytes", s.purged_bytes);
    let mut count = |name: &str, n: u64| {
        text.str("masu:   ").left(name, 20).right(crate::text::decimal(n).as_str(), 16).line();
    };
    count("threads", s.threads);
    count("heaps", s.heaps);
    count("shared_heaps", s.shared_heaps);
    count("slabs", s.slabs);
    count("abandoned", s.abandoned);
    count("refills", s.refills);
    count("fresh_slabs", s.fresh_slabs);
    count("slabs_adopted", s.slabs_adopted);
    count("slabs_claimed", s.slabs_claimed);
    count("remote_frees", s.remote_frees);
    count("medium_allocs", s.medium_allocs);
    count("huge_allocs", s.huge_allocs);
    count("huge_grown", s.huge_grown);
    count("huge_moves", s.huge_moves);
    count("huge_reused", s.huge_reused);
    count("purge_ticks", s.purge_ticks);
    count("background_starts", s.background_starts);
    count("foreign_frees", s.foreign_frees);
    text.flush();
}

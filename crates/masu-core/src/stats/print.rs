//! The statistics as text, a `name value` line each, for readers and for `grep`; and as a line of
//! JSON.

use super::figures::Stats;
use super::snapshot::read;
use crate::config::words::each;
use crate::text::{Text, decimal, human_bytes};

/// The names of the figures in the order of [`Stats`].
const NAMES: &str = "allocated active resident mapped retained metadata dirty thread_cached hooked \
                     guarded profile refilled_bytes purged_bytes threads heaps shared_heaps spans \
                     abandoned refills fresh_spans spans_adopted spans_claimed remote_frees \
                     medium_allocs huge_allocs huge_grown huge_moves huge_reused purge_ticks \
                     background_starts foreign_frees";

/// How many of them, from the first on, are in bytes.
const IN_BYTES: usize = 13;

const FIGURES: usize = size_of::<Stats>() / size_of::<u64>();

/// Each figure of this moment with its name.
fn figures() -> impl Iterator<Item = (&'static [u8], u64)> {
    // SAFETY: a structure of words and nothing else, in this order.
    each(NAMES).zip(unsafe { core::mem::transmute::<Stats, [u64; FIGURES]>(read()) })
}

/// Writes the statistics of this moment as an object of JSON, in a line: `docs/statistics.schema.json`
/// describes it. `process` has the number and the name `program`.
pub fn json(process: u32, program: &[u8], text: &mut Text) {
    text.str(concat!("{\"masu\":\"", env!("CARGO_PKG_VERSION"), "\",\"pid\":"));
    text.decimal(process.into()).str(",\"program\":\"");
    for &byte in program {
        text.str(if matches!(byte, b'"' | b'\\') { "\\" } else { "" }).printable(&[byte]);
    }
    text.str("\",\"statistics\":");
    let mut before = "{\"";
    for (name, n) in figures() {
        text.str(before).bytes(name).str("\":").decimal(n);
        before = ",\"";
    }
    text.str("}}").line();
    text.flush();
}

/// Writes the statistics of this moment.
pub fn print(text: &mut Text) {
    text.str("masu: statistics").line();
    rows(text);
}

/// The same for one process among several that write to a file.
pub fn print_of(process: u32, program: &[u8], text: &mut Text) {
    text.str("masu: statistics of process ").decimal(process.into());
    text.str(" (").printable(program).str(")").line();
    rows(text);
}

fn rows(text: &mut Text) {
    for (i, (name, n)) in figures().enumerate() {
        // `name` is 20 columns wide.
        text.str("masu:   ").bytes(name).tab(28).right(decimal(n).as_str(), 16);
        if i < IN_BYTES {
            text.str("  ").str(human_bytes(n).as_str());
        }
        text.line();
    }
    #[cfg(masu_count_locks)]
    locks(text);
    text.flush();
}

/// How often locks were taken.
#[cfg(masu_count_locks)]
fn locks(text: &mut Text) {
    use crate::lock::brief::BriefLock;
    use crate::lock::count::row;
    use crate::lock::{DISCARD, Lock};
    use crate::{heap, run, space, span};
    row("pages", run::pool::locks_for_fork().map(Lock::counts), text);
    row("abandoned spans", span::abandoned::locks_for_fork().map(Lock::counts), text);
    row("shared arena", heap::shared_arena_locks_for_fork().map(Lock::counts), text);
    row(
        "caches per processor",
        heap::processor_cache_locks_for_fork().map(BriefLock::counts),
        text,
    );
    row("heaps", [heap::lock_for_fork().counts()].into_iter(), text);
    row("space", [space::lock_for_fork().counts()].into_iter(), text);
    row("discard", [DISCARD.counts()].into_iter(), text);
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    /// `Debug` prints a structure's field names in their order.
    #[test]
    fn every_figure_has_its_name() {
        let fields = std::format!("{:?}", Stats::default());
        let fields: std::vec::Vec<&str> =
            fields.split([' ', '{']).filter_map(|word| word.strip_suffix(':')).collect();
        let names: std::vec::Vec<&str> = NAMES.split(' ').collect();
        assert_eq!(names, fields);
        assert_eq!(fields.len(), FIGURES);
        assert_eq!(names[IN_BYTES - 1], "purged_bytes");
    }
}

//! Whether the layout that was read is one that masu can have.
//!
//! It comes from the process, so it may be forged or damaged; everything else is found and measured with it. A version
//! has the same constants everywhere. Sizes and distances within records may differ: by features, target and compiler.

use masu_core::outside::{Layout, WORD_NAMES};

/// Sizes and distances within records are below.
const MOST: u64 = 1 << 16;
/// Constants below that. They are counts, powers of two and places of bits.
const CONSTANTS: [&str; 14] = [
    "unit",
    "units",
    "last_class",
    "classes",
    "remote_shift",
    "remote_mask",
    "remote_emptied",
    "medium_classes",
    "slots",
    "depot_len",
    "guard_most_frames",
    "pool_classes",
    "pool_pages",
    "large_kept_most",
];

/// Records of which long tables are copied.
const COPIED: [&str; 2] = ["prof_record_stride", "prof_site_len"];

/// Whether it is possible: all divisors are those of this version, no record is empty, those that are copied are at
/// least half as long as here, and what begins in the middle of a record begins in it.
pub fn is_possible(layout: &Layout) -> bool {
    let names = WORD_NAMES.split_whitespace().map(Some).chain(std::iter::repeat(None));
    let mut words = names.zip(layout.words().zip(Layout::HERE.words()));
    let l = layout;
    words.all(|(name, (word, here))| {
        word == here || name.is_some_and(|name| may_be(name, word, here))
    }) && l.heap_at + l.heap_len <= l.heap_stride
        && l.arena_inner < l.arena_stride
}

/// Whether a word may differ from the value that it has here.
fn may_be(name: &str, word: u64, here: u64) -> bool {
    let is_length = name.ends_with("_stride") || name.ends_with("_len");
    let is_short = COPIED.contains(&name) && word < here / 2;
    here.max(word) < MOST && !CONSTANTS.contains(&name) && !(is_length && word == 0 || is_short)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This version's layout with one word changed.
    fn with(change: impl Fn(&mut Layout)) -> Layout {
        let mut layout = Layout::HERE;
        change(&mut layout);
        layout
    }

    #[test]
    fn records_may_differ_by_build() {
        assert!(is_possible(&Layout::HERE));
        assert!(is_possible(&with(|l| l.heap_runs += 64)));
        assert!(is_possible(&with(|l| l.prof_is_there ^= 1)));
        assert!(is_possible(&with(|l| l.pool_stride *= 2)));
    }

    #[test]
    fn no_word_can_be_anything() {
        let here: Vec<u64> = Layout::HERE.words().collect();
        for at in 0..here.len() {
            let mut words = here.clone();
            for forged in [u64::MAX, 1 << 34] {
                words[at] = forged;
                let layout = Layout::of(&words).expect("all words");
                assert!(forged == here[at] || !is_possible(&layout), "word {at}: {forged:#x}");
            }
        }
    }

    #[test]
    fn nothing_is_divided_by_zero() {
        let zeros: [fn(&mut Layout); 12] = [
            |l| l.granule = 0,
            |l| l.chunk = 0,
            |l| l.unit = 0,
            |l| l.sizes[1] = 0,
            |l| l.heap_stride = 0,
            |l| l.arena_stride = 0,
            |l| l.processor_stride = 0,
            |l| l.prof_site_len = 0,
            |l| l.pool_classes = 0,
            |l| l.shape_len = 0,
            |l| l.cache_bin_stride = 0,
            |l| l.large_stride = 0,
        ];
        for zero in zeros {
            assert!(!is_possible(&with(zero)));
        }
    }

    #[test]
    fn no_table_of_samples_has_many_times_as_many_records() {
        assert!(is_possible(&with(|l| l.prof_site_len -= 8)));
        assert!(!is_possible(&with(|l| l.prof_site_len = 8)));
        assert!(!is_possible(&with(|l| l.prof_record_stride = 1)));
    }

    #[test]
    fn classes_have_sizes_and_heaps_lie_in_their_records() {
        assert!(!is_possible(&with(|l| l.last_class += 1)));
        assert!(!is_possible(&with(|l| l.sizes[3] = l.sizes[2])));
        assert!(!is_possible(&with(|l| l.heap_at = l.heap_stride)));
        assert!(!is_possible(&with(|l| l.arena_inner = l.arena_stride)));
    }
}

//! The key a mistyped one was probably meant to be: the one fewest edits away.

use super::keys::NAMES;
use super::words::{each, plain};

/// Longest word compared; a longer one is not a typing mistake.
const LONGEST: usize = 31;

/// The key nearest to `written`, if at most half of it would have to change.
pub(super) fn nearest(written: &[u8]) -> Option<&'static [u8]> {
    let mut best = None;
    let mut fewest = written.len() / 2 + 1;
    for name in each(NAMES).filter(|name| !name.is_empty()) {
        let edits = distance(written, name);
        if edits < fewest {
            fewest = edits;
            best = Some(name);
        }
    }
    best
}

/// Levenshtein's distance: insertions, deletions and substitutions from `written` to `name`.
fn distance(written: &[u8], name: &[u8]) -> usize {
    if written.len() > LONGEST || name.len() > LONGEST {
        return usize::MAX;
    }
    // row[j] is the distance from the bytes of `written` seen so far to the first j bytes of `name`.
    let mut row: [usize; LONGEST + 1] = core::array::from_fn(|j| j);
    for (i, &w) in written.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        let mut cells = row.iter_mut();
        if let Some(first) = cells.next() {
            *first = left;
        }
        for (cell, &n) in cells.zip(name) {
            let above = *cell;
            let substituted = diagonal + usize::from(plain(w) != n);
            left = substituted.min(above + 1).min(left + 1);
            *cell = left;
            diagonal = above;
        }
    }
    row.get(name.len()).copied().unwrap_or(usize::MAX)
}

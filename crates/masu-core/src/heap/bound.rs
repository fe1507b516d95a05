//! Frees of pointers that the bound of their span does not admit: what are they?

use crate::region::GRANULE;
use crate::report::{self, Wrong};
use crate::span;

/// Judges a freed pointer that the bound of its span does not admit, on behalf of the span's owner. Returns
/// only if it is a live block.
///
/// # Safety
/// The caller must own the span in which the pointer lies.
#[cold]
#[inline(never)]
pub unsafe fn look_closer(span: u32, p: *mut u8) {
    // SAFETY: passed on (invariant 5 of `span::record`).
    let (s, word) = unsafe { (&*span::record(span), span::remote(span)) };
    let bytes = s.size() as usize;
    if s.index_of(p.addr()).is_none() {
        let within = (p.addr() & (GRANULE - 1)).checked_rem(bytes).unwrap_or(0);
        let start = p.addr() - within;
        report::damage(
            p,
            if within == 0 { Wrong::NoBlock } else { Wrong::Inside { start, bytes } },
        );
    }
    if s.is_purged_at(p.addr()) || word.has_all(s.capacity()) {
        report::damage(p, Wrong::Freed { bytes });
    }
}

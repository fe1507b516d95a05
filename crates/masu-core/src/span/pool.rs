//! Free spans: granules of the pool of pages ([`crate::run::pool`]).
//!
//! Invariants:
//! 1. bytes at and after `touched` of a span that [`take`] returns read as zeroes.
//! 2. a span from the pool is its taker's alone until it is given back.
//! 3. as long as a granule's page map entry says that it is a span, its memory is mapped (invariant 3 of `run::pool`).

use super::record::{Place, Span, page_map, record};
use crate::deferred;
use crate::free_block::Block;
use crate::ledger;
use crate::region::{GRANULE, NIL, UNITS_PER_GRANULE, granule_address};
use crate::run::{self, Affinity, Home};
use crate::size_class::UNIT;
use crate::sync::Ordering;
use crate::sys::auxv;

/// A free span; `None` if memory is out. `dense` means that spans are filled rather than sprinkled,
/// so that fresh memory may be faulted in as a huge page. `own` says whose chunks to look at first,
/// and `home` who takes the span.
pub fn take(dense: bool, own: Option<Affinity>, home: Home) -> Option<u32> {
    let (granule, touched) = run::pool::take_granule(dense, own, home)?;
    // SAFETY: invariant 2, and invariant 1 of `region`: the line is mapped.
    unsafe { (*record(granule as u32)).set_touched(touched as u32) };
    Some(granule as u32)
}

/// Takes back a span whose blocks are all free.
///
/// # Safety
/// The caller must own the span; it must be in no list, and no block of it may be live or in a bin
/// or remote chain.
#[inline(never)]
pub unsafe fn give(span: u32) {
    let s: *mut Span = record(span);
    // SAFETY: invariant 2: the caller hands the span over. None of it is a run, so that every free into it
    // fails its checks.
    let dirty = unsafe {
        (*s).place = Place::Unowned;
        (*s).next = NIL;
        (*s).prev = NIL;
        page_map(span).owner.store(0, Ordering::Relaxed);
        touched_units((*s).touched() as usize, auxv::page_size())
    };
    if !run::pool::give_granule(span as usize, dirty) {
        // SAFETY: invariant 2: the caller hands the span over.
        unsafe {
            // The link, which may be all that is written to pages that have gone back.
            (*s).set_touched((*s).touched().max(size_of::<Block>() as u32));
            deferred::push(granule_address(span as usize), deferred::Kind::Span);
        }
    }
}

/// The units of a span that may be non-zero or resident, a bit each, if `touched` bytes of it are.
fn touched_units(touched: usize, page: usize) -> u16 {
    // Pages larger than a unit are given back whole or not at all.
    let touched = touched.next_multiple_of(page).min(GRANULE) / UNIT;
    // Purged pages too: a block that starts before one may have been written since.
    ((1u32 << touched) - 1) as u16
}

/// Spans in use.
pub fn in_use() -> usize {
    ledger::span_units() / UNITS_PER_GRANULE
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_page_with_a_touched_byte_counts_at_every_page_size() {
        for page in [4 << 10, 16 << 10, 64 << 10] {
            for touched in 0..=GRANULE {
                let units = touched_units(touched, page);
                let expected = touched.div_ceil(page) * (page / UNIT);
                assert_eq!(
                    units.trailing_ones() as usize,
                    expected,
                    "{touched} bytes, pages of {page}"
                );
                assert_eq!(units.count_ones() as usize, expected);
            }
        }
    }
}

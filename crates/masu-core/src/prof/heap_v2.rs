//! A profile in the format of jemalloc's tools: `jeprof` and others that read the same text.
//!
//! They multiply each stack's line by 1/(1 − e^(−x/rate)), where x is its average size. The sums here are
//! weighted already, sample by sample, so the file has the sums divided by that factor.

use super::area::{Amount, ONE};
use super::control::{Refused, last_rate};
use super::copy::Copy;
use super::draw;
use super::dump::{maps, stack, whole};
use crate::text::Text;

/// Writes the profile to a descriptor in the format of jemalloc's tools.
///
/// # Errors
/// As for [`dump`](super::dump::write).
#[cold]
#[inline(never)]
pub fn write(to: u32) -> Result<(), Refused> {
    let rate = last_rate();
    if rate == 0 {
        return Err(Refused::NotStarted);
    }
    let copy = Copy::of_all().ok_or(Refused::Busy)?;
    whole(to, |text| {
        text.str("heap_v2/").decimal(rate as u64).line();
        let (mut live, mut all) = ((0, 0), (0, 0));
        for (site, _) in copy.sites() {
            for (sum, amount) in [(&mut live, site.live), (&mut all, site.allocated)] {
                let (objects, bytes) = unweighed(amount, rate);
                *sum = (sum.0 + objects, sum.1 + bytes);
            }
        }
        counts(text, live, all);
        for (site, frames) in copy.sites() {
            stack(text, "@", frames);
            counts(text, unweighed(site.live, rate), unweighed(site.allocated, rate));
        }
        drop(copy);
        text.line().str("MAPPED_LIBRARIES:").line();
        maps(text);
    })
}

fn counts(text: &mut Text, live: (u64, u64), all: (u64, u64)) {
    text.str("  t*: ").decimal(live.0).str(": ").decimal(live.1);
    text.str(" [").decimal(all.0).str(": ").decimal(all.1).str("]").line();
}

/// The blocks and bytes from which a reader computes this amount.
fn unweighed(amount: Amount, rate: usize) -> (u64, u64) {
    if amount.objects == 0 {
        return (0, 0);
    }
    let objects = amount.objects as f64 / ONE as f64;
    let size = amount.bytes as f64 / objects;
    let bytes = amount.bytes as f64 * draw::probability(size as usize, rate);
    // A reader divides bytes by blocks: nothing that exists may be rounded to no block.
    let blocks = (bytes / size.max(1.0) + 0.5) as u64;
    (blocks.max(1), (bytes + 0.5) as u64)
}

//! What is alive, by the samples, and the most that ever was, with each site's part of it, kept without a walk over all
//! sites.
//!
//! A peak has a number. A site that changes for the first time since the last peak first puts aside what is alive there;
//! if a site has not changed since then, its share at the peak is still alive.
//!
//! The largest of many estimates is one that is too large: a sample of a program that never has more than one small
//! block stands for as many bytes as lie between two samples. So a peak counts as no more than what all blocks in use
//! could have at that moment, which the pools know. The sites' parts then add up to more, and who shows them makes them
//! smaller in proportion.

use super::area::{Amount, Site};
use crate::sync::{AtomicU64, AtomicUsize, Ordering};

/// Samples alive.
static SAMPLES: AtomicUsize = AtomicUsize::new(0);
/// Bytes alive now, when most were, and the number of that peak. Under the table's lock.
static TOTAL: AtomicU64 = AtomicU64::new(0);
pub static TOP: AtomicU64 = AtomicU64::new(0);
pub static PEAK: AtomicU64 = AtomicU64::new(0);

/// Samples alive.
#[inline(always)]
pub fn samples() -> usize {
    SAMPLES.load(Ordering::Relaxed)
}

/// Forgets everything.
pub fn clear() {
    SAMPLES.store(0, Ordering::Relaxed);
    for sum in [&TOTAL, &TOP, &PEAK] {
        sum.store(0, Ordering::Relaxed);
    }
}

/// The samples' sums over the whole process.
#[derive(Clone, Copy, Default, Debug)]
pub struct Totals {
    /// Bytes alive.
    pub live: u64,
    /// Bytes alive when most were.
    pub peak: u64,
    /// Samples alive.
    pub samples: usize,
}

/// The samples' sums over the whole process; zeroes before the first start.
pub fn totals() -> Totals {
    let (live, peak) = (TOTAL.load(Ordering::Relaxed), TOP.load(Ordering::Relaxed));
    Totals { live, peak, samples: samples() }
}

/// One more sample is alive, which stands for so many bytes. `most`: what all blocks in use can have at most.
pub fn add(bytes: u64, most: fn() -> u64) {
    let total = TOTAL.fetch_add(bytes, Ordering::Relaxed) + bytes;
    let top = TOP.load(Ordering::Relaxed);
    if total > top {
        let possible = total.min(most());
        if possible > top {
            TOP.store(possible, Ordering::Relaxed);
            PEAK.fetch_add(1, Ordering::Relaxed);
        }
    }
    SAMPLES.fetch_add(1, Ordering::Relaxed);
}

/// One fewer is.
pub fn sub(bytes: u64) {
    TOTAL.fetch_sub(bytes, Ordering::Relaxed);
    SAMPLES.fetch_sub(1, Ordering::Relaxed);
}

/// The number of the last peak.
pub fn number() -> u64 {
    PEAK.load(Ordering::Relaxed)
}

/// Before a site changes: puts aside what was alive there at the last peak, unless it has changed since.
pub fn put_aside(s: &mut Site) {
    let peak = number();
    if s.peak != peak {
        s.peak = peak;
        s.at_peak = s.live;
    }
}

/// What was alive at a site at the peak of this number, the last one.
pub fn of(s: &Site, peak: u64) -> Amount {
    if s.peak == peak { s.at_peak } else { s.live }
}

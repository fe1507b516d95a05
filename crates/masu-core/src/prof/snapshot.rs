//! The profile at some moment, place by place.

use super::area::{Amount, size_of_kind};
use super::control::{BEGUN, Refused, last_rate};
use super::copy::Copy;
use super::peak;
use super::table::DROPPED;
use crate::sync::Ordering;
use crate::sys::time;

/// What a place has allocated, in blocks of one size.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Bytes of a block: exact up to 16 KiB, otherwise the power of two below.
    pub size: u64,
    /// Samples drawn there.
    pub samples: u64,
    /// How many blocks each of them stands for, squared and added up.
    pub squares: f64,
    /// Everything that was allocated.
    pub allocated: Amount,
    /// The part of it that is in use.
    pub live: Amount,
    /// What was in use there when the process had most in use. All places' may add up to more than
    /// [`peak::Totals::peak`], and are to be made smaller in proportion.
    pub peak: Amount,
    /// Milliseconds that freed blocks lived, added up.
    pub lived: u64,
    /// Return addresses, innermost first.
    pub frames: &'a [usize],
}

/// The profile at some moment, in memory of its own.
pub struct Snapshot {
    copy: Copy,
    /// The rate of the last start.
    pub rate: usize,
    /// Milliseconds since the first start, or since everything was last forgotten.
    pub milliseconds: u64,
    /// Samples that could not be kept.
    pub dropped: u64,
}

impl Snapshot {
    /// Takes a snapshot.
    ///
    /// # Errors
    /// [`Refused::NotStarted`], [`Refused::Busy`].
    pub fn take() -> Result<Snapshot, Refused> {
        if last_rate() == 0 {
            return Err(Refused::NotStarted);
        }
        let copy = Copy::of_all(false).ok_or(Refused::Busy)?;
        let milliseconds = time::now_ms().saturating_sub(BEGUN.load(Ordering::Relaxed));
        let dropped = DROPPED.load(Ordering::Relaxed);
        Ok(Snapshot { copy, rate: last_rate(), milliseconds, dropped })
    }

    /// Its places.
    pub fn places(&self) -> impl Iterator<Item = Place<'_>> {
        self.copy.sites().map(|(site, frames)| Place {
            size: size_of_kind(site.kind),
            samples: site.samples,
            squares: site.squares,
            allocated: site.allocated,
            live: site.live,
            peak: peak::of(site, self.copy.peak),
            lived: site.lived,
            frames,
        })
    }
}

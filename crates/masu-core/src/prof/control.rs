//! Starts and stops the profile, at which rate, and answers requests from outside.

use super::every::is_every;
use super::switch::Switch;
use super::table::{self, Changing};
use crate::features;
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::sys::{output, time};

/// Whether a profile is being taken.
pub static SWITCH: Switch = Switch::new();
/// The rate of the program's own last start, whose samples a request from outside must not clear; 0 if there was none.
static OWN_RATE: AtomicUsize = AtomicUsize::new(0);
/// The rate of the last start, for dumps.
static LAST_RATE: AtomicUsize = AtomicUsize::new(0);
/// Milliseconds at the first start, or when everything was last forgotten.
pub static BEGUN: AtomicU64 = AtomicU64::new(0);

/// Why there is no profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// There is no memory for it.
    NoMemory,
    /// A fork stands still, or the file cannot be written.
    Busy,
    /// No profile was ever started.
    NotStarted,
}

/// Starts sampling, `rate` bytes apart on average (at least 1), or changes the rate. Samples of an earlier
/// profile stay. Threads take part from their next slow path on.
///
/// # Errors
/// [`Refused::NoMemory`].
pub fn start(rate: usize) -> Result<(), Refused> {
    if !table::prepare(rate) {
        return Err(Refused::NoMemory);
    }
    let _ = BEGUN.compare_exchange(0, time::now_ms().max(1), Ordering::Relaxed, Ordering::Relaxed);
    let rate = if is_every() { 1 } else { rate.max(1) };
    OWN_RATE.store(rate, Ordering::Relaxed);
    LAST_RATE.store(rate, Ordering::Relaxed);
    SWITCH.start(rate);
    Ok(())
}

/// Starts the profile that was asked for from outside. Returns `false` if that is not possible now. Forgets what an
/// earlier request from outside has left, which is no longer needed.
#[cold]
#[inline(never)]
pub fn answer() -> bool {
    SWITCH.answer(output::process(), table::enter, |table, rate| {
        if OWN_RATE.load(Ordering::Relaxed) == 0 {
            forget(table);
        }
        LAST_RATE.store(rate, Ordering::Relaxed);
    })
}

/// The number of the start that is in force; 0 if one is to be answered.
#[inline(always)]
pub fn session() -> u32 {
    SWITCH.session()
}

/// Whether a profile was asked for from outside, and the request is still unanswered.
#[inline]
pub fn is_asked() -> bool {
    features::PROF && SWITCH.is_asked()
}

/// Stops sampling. Samples that are alive are still followed to their end. Does nothing if every block is recorded.
pub fn stop() {
    if !is_every() {
        SWITCH.stop();
    }
}

/// Forgets everything sampled so far. Does nothing if every block is recorded: reports need the records.
pub fn reset() {
    if !is_every()
        && let Some(table) = Changing::enter()
    {
        forget(&table);
    }
}

fn forget(table: &Changing) {
    table.clear();
    BEGUN.store(time::now_ms().max(1), Ordering::Relaxed);
}

/// Mean distance of sample points in bytes; 0 if off.
#[inline(always)]
pub fn rate() -> usize {
    if features::PROF { SWITCH.rate() } else { 0 }
}

/// The rate that the profile was last started with; 0 if it never was.
pub fn last_rate() -> usize {
    if features::PROF { LAST_RATE.load(Ordering::Relaxed) } else { 0 }
}

/// The rate with which the program itself last started a profile; 0 if it never did.
pub fn own_rate() -> usize {
    if features::PROF { OWN_RATE.load(Ordering::Relaxed) } else { 0 }
}

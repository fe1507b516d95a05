//! A heap of [`SURPLUS_FROM`] bytes or more gives back at once what it frees at once, without waiting for ticks.
//!
//! A collector frees within milliseconds what has become garbage since it last ran, and the program then
//! holds all of that for the decay time. If that is a third of what is in use, in a heap large enough for
//! it to matter, the free pages of spans and runs go back at once, at a pace that bounds what faulting
//! them in again can cost. A program that has asked for a longer decay than the usual one wants to keep
//! them.
//!
//! Memory freed in long blocks within two ticks does not count: a query or a frame frees its buffers one after
//! the other, and the next one takes them again.

use super::note;
use crate::config::Config;
use crate::ledger;
use crate::run::pool;
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::sys::time;
use crate::tuning::{SURPLUS_FROM, SURPLUS_PACE, SURPLUS_PART};

/// The decay time up to which this holds, in milliseconds.
const USUAL: u64 = Config::DEFAULT.decay.to_word();

/// When the next such purge may be, in milliseconds.
static NOT_BEFORE: AtomicU64 = AtomicU64::new(0);

/// Bytes freed in long blocks in the tick before this one.
static BEFORE: AtomicUsize = AtomicUsize::new(0);

/// A tick has passed.
pub fn on_tick() {
    BEFORE.store(ledger::freed_long(true), Ordering::Relaxed);
}

/// Gives free pages back if there are too many. `decay`: the decay time in milliseconds.
pub fn look(decay: u64) {
    let used = ledger::pages();
    let long = ledger::freed_long(false).saturating_add(BEFORE.load(Ordering::Relaxed));
    let free = pool::dirty_bytes().saturating_sub(long);
    if used < SURPLUS_FROM || free < used / SURPLUS_PART || decay > USUAL {
        return;
    }
    let (now, next) = (time::now_ms(), NOT_BEFORE.load(Ordering::Relaxed));
    let then = now + (free / SURPLUS_PACE) as u64;
    if now >= next
        && NOT_BEFORE.compare_exchange(next, then, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    {
        note(pool::purge());
    }
}

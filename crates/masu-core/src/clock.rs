//! The engine's coarse clock, and all arithmetic on its ticks. A tick is half the decay time.
//!
//! The purge advances the clock ([`crate::purge`]); all other code notes the present tick and asks later
//! how old the note is. Two ticks bound the age of what has [`rested`](Tick::rested): memory noted at one tick that has
//! rested is between half and all of the decay time old.

// No protocol depends on the clock, so the model checker need not know of it.
use core::sync::atomic::{AtomicU32, Ordering};

/// Ticks in the decay time, after which something unused has rested, and for which a heap that shares counts as one:
/// `docs/experiments.md`, §2 and §7.
pub const RESTED: u32 = 2;

/// Milliseconds of a tick, with this decay time.
#[inline]
pub fn tick_ms(decay: u64) -> u64 {
    decay.div_ceil(RESTED.into())
}

pub static NOW: AtomicU32 = AtomicU32::new(1);

/// Starts the next tick.
pub fn advance() {
    NOW.fetch_add(1, Ordering::Relaxed);
}

/// A tick. Wraps around: anything older than 2^32 ticks looks young.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Tick(u32);

impl Tick {
    /// Before the first tick.
    pub const NEVER: Tick = Tick(0);

    /// The present tick.
    #[inline]
    pub fn now() -> Tick {
        Tick(NOW.load(Ordering::Relaxed))
    }

    /// Ticks that have passed since this one.
    #[inline]
    pub fn age(self) -> u32 {
        Tick::now().0.wrapping_sub(self.0)
    }

    /// Whether this tick is the present one.
    #[inline]
    pub fn is_now(self) -> bool {
        self.age() == 0
    }

    /// Whether this tick was before the last one: what was used then has rested.
    #[inline]
    pub fn rested(self) -> bool {
        self.age() >= RESTED
    }

    /// For tests: the tick that is this many before the present one.
    #[cfg(all(test, not(loom)))]
    pub fn before(ticks: u32) -> Tick {
        Tick(Tick::now().0.wrapping_sub(ticks))
    }
}

/// The low byte of a tick, for a heap's tables that have one for each class. Once in 256 ticks, something
/// that has rested looks young for two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct LowTick(u8);

impl LowTick {
    /// The low byte of [`Tick::NEVER`].
    pub const NEVER: LowTick = LowTick(0);

    /// Whether this tick was before the last one.
    #[inline]
    pub fn rested(self) -> bool {
        let age = (Tick::now().0 as u8).wrapping_sub(self.0);
        u32::from(age) >= RESTED
    }
}

impl From<Tick> for LowTick {
    #[inline]
    fn from(tick: Tick) -> Self {
        LowTick(tick.0 as u8)
    }
}

/// A tick that one thread notes and others read.
pub struct AtomicTick(AtomicU32);

impl AtomicTick {
    /// [`Tick::NEVER`].
    pub const fn new() -> Self {
        AtomicTick(AtomicU32::new(Tick::NEVER.0))
    }

    /// Notes the present tick.
    #[inline]
    pub fn note(&self) {
        self.0.store(Tick::now().0, Ordering::Relaxed);
    }

    /// The tick noted.
    #[inline]
    pub fn get(&self) -> Tick {
        Tick(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::own_process::alone;

    // In a process of its own, because other tests move the clock too.
    #[test]
    fn a_note_has_rested_two_ticks_later_wherever_the_counter_wraps() {
        alone!(a_note_has_rested_two_ticks_later_wherever_the_counter_wraps, || {
            for start in [1, 250, u32::MAX - 5] {
                NOW.store(start, Ordering::Relaxed);
                for _ in 0..10 {
                    let (note, noted) = (Tick::now(), AtomicTick::new());
                    let low = LowTick::from(note);
                    noted.note();
                    assert_eq!(noted.get(), note);
                    for age in 0..4 {
                        assert_eq!((note.age(), note.is_now()), (age, age == 0));
                        assert_eq!((note.rested(), low.rested()), (age >= 2, age >= 2));
                        assert_eq!(Tick::before(age), note);
                        advance();
                    }
                }
            }
        });
    }
}

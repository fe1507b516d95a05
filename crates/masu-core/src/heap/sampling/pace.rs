//! How far apart a thread's samples are: far enough that, except for its first ones, they take about a hundredth of its
//! time.
//!
//! A mean distance of 512 KiB is a few samples in a second for most threads, and twenty thousand for one that only
//! allocates. So a thread looks at the clock once every few samples: if they come too soon after one another, the
//! distance is doubled as often as needed, and if they have become rare, it is halved again.
//!
//! Estimates stay without bias. Each coin is thrown at a rate that is known before, and a sample is weighed by the rate
//! that its own coin was thrown at: a mark keeps its step. A distance that is not used up is stretched with the rate:
//! exponential distances have no memory, so it is as good as one that is drawn anew.

use crate::size_class::LAST_CLASS;
use crate::sys::time;
use crate::tuning::{PACED_FROM, SAMPLES_A_LOOK, SAMPLES_APART};
use core::cell::Cell;

/// A thread's pace.
pub struct Pace {
    /// How often the distance has been doubled.
    step: Cell<u8>,
    /// Samples since the last look at the clock.
    taken: Cell<u8>,
    /// After how many of them the next look is due.
    due: Cell<u8>,
    /// Whether a sample was taken in this tick.
    in_tick: Cell<bool>,
    /// Nanoseconds at the last look.
    since: Cell<u64>,
    /// By class, the step at which its mark was made.
    marks: [Cell<u8>; LAST_CLASS + 1],
}

/// The last step: a mean distance 1,024 times the requested one.
const MOST: u8 = 10;
/// Samples before the first look: what a program of a few milliseconds takes.
const FIRST: u8 = 4;

impl Pace {
    /// Nothing sampled so far.
    pub const fn new() -> Self {
        Pace {
            step: Cell::new(0),
            taken: Cell::new(0),
            due: Cell::new(FIRST),
            in_tick: Cell::new(false),
            since: Cell::new(0),
            marks: [const { Cell::new(0) }; LAST_CLASS + 1],
        }
    }

    /// A profile begins.
    pub fn begin(&self) {
        self.step.set(0);
        self.taken.set(0);
        self.due.set(FIRST);
        self.since.set(time::nanoseconds());
    }

    /// How often the distance is doubled now.
    pub fn step(&self) -> u8 {
        self.step.get()
    }

    /// A class was marked at this step.
    pub fn mark(&self, class: usize, step: u8) {
        if let Some(mark) = self.marks.get(class) {
            mark.set(step);
        }
    }

    /// The step at which a class was last marked.
    pub fn of_mark(&self, class: usize) -> u8 {
        self.marks.get(class).map_or(0, Cell::get)
    }

    /// A sample was taken, in a profile of this rate. Returns what becomes of the distance that is left to
    /// the next.
    #[inline]
    pub fn sampled(&self, rate: usize, distance: u64) -> u64 {
        self.in_tick.set(true);
        if rate < PACED_FROM {
            return distance;
        }
        self.taken.set(self.taken.get() + 1);
        if self.taken.get() < self.due.get() {
            return distance;
        }
        self.look(time::nanoseconds(), distance)
    }

    /// A tick has passed. Returns what becomes of the distance.
    pub fn on_tick(&self, distance: u64) -> u64 {
        if self.in_tick.replace(false) {
            return distance;
        }
        self.to(self.step.get().saturating_sub(2), distance)
    }

    #[cold]
    fn look(&self, now: u64, distance: u64) -> u64 {
        let samples = self.taken.replace(0).max(1);
        let mut apart = now.saturating_sub(self.since.replace(now)) / u64::from(samples);
        self.due.set(SAMPLES_A_LOOK);
        let mut step = self.step.get();
        while apart < SAMPLES_APART && step < MOST {
            apart = (apart * 2).max(1);
            step += 1;
        }
        // Twice as long might be chance.
        while apart >= 4 * SAMPLES_APART && step > 0 {
            apart /= 2;
            step -= 1;
        }
        self.to(step, distance)
    }

    fn to(&self, step: u8, distance: u64) -> u64 {
        let was = self.step.replace(step);
        if step >= was { distance << (step - was) } else { distance >> (was - step) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples in a row, each `apart` nanoseconds after the one before.
    fn row(pace: &Pace, now: &mut u64, apart: u64, samples: u32) {
        for _ in 0..samples {
            *now += apart;
            pace.taken.set(pace.taken.get() + 1);
            if pace.taken.get() >= pace.due.get() {
                pace.look(*now, 0);
            }
        }
    }

    #[test]
    fn distances_grow_until_samples_are_far_enough_apart_and_shrink_again() {
        let (pace, mut now) = (Pace::new(), 1_000_000);
        pace.since.set(now);
        row(&pace, &mut now, SAMPLES_APART / 10, FIRST.into());
        assert_eq!(pace.step(), 4, "sixteen times as far");
        row(&pace, &mut now, SAMPLES_APART, SAMPLES_A_LOOK.into());
        row(&pace, &mut now, 3 * SAMPLES_APART, SAMPLES_A_LOOK.into());
        assert_eq!(pace.step(), 4, "far enough, and not rare");
        row(&pace, &mut now, 8 * SAMPLES_APART, SAMPLES_A_LOOK.into());
        assert_eq!(pace.step(), 2);
        row(&pace, &mut now, 100 * SAMPLES_APART, SAMPLES_A_LOOK.into());
        assert_eq!(pace.step(), 0);
        row(&pace, &mut now, 0, SAMPLES_A_LOOK.into());
        assert_eq!(pace.step(), MOST, "no further");
    }

    #[test]
    fn a_thread_that_has_become_quiet_is_sampled_as_was_asked() {
        let pace = Pace::new();
        assert_eq!(pace.to(5, 100), 3200, "what is left is stretched");
        pace.in_tick.set(true);
        assert_eq!((pace.on_tick(3200), pace.step()), (3200, 5));
        assert_eq!((pace.on_tick(3200), pace.step()), (800, 3));
        assert_eq!((pace.on_tick(800), pace.on_tick(200), pace.step()), (200, 100, 0));
    }

    #[test]
    fn fine_profiles_are_taken_as_they_are_said() {
        let pace = Pace::new();
        pace.begin();
        for _ in 0..1000 {
            assert_eq!(pace.sampled(PACED_FROM - 1, 7), 7);
        }
        assert_eq!(pace.step(), 0);
    }
}

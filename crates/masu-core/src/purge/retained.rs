//! How much of the pool's free pages stays although it has rested, because it will be needed again.
//!
//! A server whose collector runs once a second frees and takes the same memory in a period longer than the decay time,
//! and would fault it in each time. So a tick compares what is taken fresh with what went back lately: that much more
//! should have stayed, and stays from now on. Of that, what was not needed at any time within [`RETAIN_TICKS`] goes. If
//! nothing is taken or given for half as many ticks, the process is idle: nothing stays. A batch job that pauses for less
//! than that is not.

use crate::ledger;
use crate::tuning::RETAIN_TICKS;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Ticks in a row without a need or a free after which a process is idle.
const QUIET: usize = RETAIN_TICKS / 2;

/// Units, from one tick to the next. Only ticks touch it. If two ticks meet, one may miss what the
/// other counts.
pub struct Retained {
    /// Units that stay at most.
    most: AtomicUsize,
    /// Units that went back lately, and have not been taken fresh since.
    gone: AtomicUsize,
    /// Units that had rested at each of the last ticks, the latest one last.
    rested: [AtomicUsize; RETAIN_TICKS],
    /// Units in spans and runs, and fresh units so far, when the last tick ended.
    used: AtomicUsize,
    fresh: AtomicUsize,
    /// Units taken fresh between the last tick and this one.
    taken: AtomicUsize,
    /// Whether as many units are in use as when the last tick ended, and none were taken fresh.
    same: AtomicBool,
    /// Ticks in a row during which nothing was taken or given.
    quiet: AtomicUsize,
}

/// The state of the pool of pages.
pub static POOL: Retained = Retained::new();

fn get(units: &AtomicUsize) -> usize {
    units.load(Ordering::Relaxed)
}

fn set(units: &AtomicUsize, to: usize) {
    units.store(to, Ordering::Relaxed);
}

impl Retained {
    const fn new() -> Self {
        Retained {
            most: AtomicUsize::new(0),
            gone: AtomicUsize::new(0),
            rested: [const { AtomicUsize::new(0) }; RETAIN_TICKS],
            used: AtomicUsize::new(0),
            fresh: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            same: AtomicBool::new(true),
            quiet: AtomicUsize::new(0),
        }
    }

    /// A tick begins, which has given nothing back so far.
    pub fn begin(&self) {
        self.begin_with(ledger::span_units() + ledger::run_units(), ledger::fresh_units());
    }

    fn begin_with(&self, used: usize, fresh: usize) {
        let taken = fresh.wrapping_sub(get(&self.fresh));
        set(&self.taken, taken);
        self.same.store(taken == 0 && used == get(&self.used), Ordering::Relaxed);
    }

    /// A tick ends. Its own work does not count as a need.
    pub fn end(&self) {
        self.end_with(ledger::span_units() + ledger::run_units(), ledger::fresh_units());
    }

    fn end_with(&self, used: usize, fresh: usize) {
        set(&self.used, used);
        set(&self.fresh, fresh);
    }

    /// How many of `rested` units that have rested stay. The others go back.
    pub fn stay(&self, rested: usize) -> usize {
        // Otherwise some of what stayed has been taken, and may be free again.
        let rests = self.rested.last().is_none_or(|stayed| rested >= get(stayed));
        let is_quiet = rests && self.same.load(Ordering::Relaxed);
        let quiet = if is_quiet { get(&self.quiet) + 1 } else { 0 };
        set(&self.quiet, quiet);
        if quiet >= QUIET {
            set(&self.most, 0);
            set(&self.gone, 0);
            self.rested.iter().for_each(|then| set(then, 0));
            return 0;
        }
        let again = get(&self.taken).min(get(&self.gone));
        let latest = Cell::new(rested);
        self.rested.iter().rev().for_each(|then| set(then, latest.replace(get(then))));
        let unused = self.rested.iter().map(get).min().unwrap_or(0);
        let most = (get(&self.most) + again).saturating_sub(unused);
        let stay = most.min(rested);
        let goes = rested - stay;
        // As if they had gone before.
        self.rested.iter().for_each(|then| set(then, get(then).saturating_sub(goes)));
        let gone = get(&self.gone).saturating_sub(again);
        set(&self.gone, gone - gone / RETAIN_TICKS + goes);
        set(&self.most, most);
        stay
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A pool in which `used` units are in use, while others are free and resident.
    struct Pool {
        retained: Retained,
        used: usize,
        fresh: usize,
        free: usize,
        /// The least that was free since the last tick.
        rested: usize,
    }

    impl Pool {
        fn new() -> Self {
            Pool { retained: Retained::new(), used: 0, fresh: 0, free: 0, rested: 0 }
        }

        fn take(&mut self, units: usize) {
            let from_free = units.min(self.free);
            self.free -= from_free;
            self.rested = self.rested.min(self.free);
            self.fresh += units - from_free;
            self.used += units;
        }

        fn give(&mut self, units: usize) {
            self.used -= units;
            self.free += units;
        }

        fn tick(&mut self) {
            self.retained.begin_with(self.used, self.fresh);
            self.free -= self.rested - self.retained.stay(self.rested);
            self.rested = self.free;
            self.retained.end_with(self.used, self.fresh);
        }

        /// A collection every `ticks` ticks, `units` allocated evenly in between. Returns the fresh ones.
        fn collect(&mut self, ticks: usize, units: usize) -> usize {
            let before = self.fresh;
            for _ in 0..ticks {
                self.take(units / ticks);
                self.tick();
            }
            self.give(units / ticks * ticks);
            self.fresh - before
        }
    }

    #[test]
    fn what_is_needed_again_in_each_period_stays() {
        for ticks in 2..RETAIN_TICKS {
            let mut pool = Pool::new();
            let first = pool.collect(ticks, 840);
            assert_eq!(first, 840 / ticks * ticks);
            for _ in 0..8 {
                pool.collect(ticks, 840);
            }
            let fresh = pool.collect(ticks, 840);
            assert!(fresh <= 840 / 20, "{fresh} units of 840 in a period of {ticks} ticks");
            assert!(pool.free <= 840 + 840 / 4, "{} units are kept", pool.free);
        }
    }

    /// A job that fills 840 units in each phase and frees them, and then pauses. Returns the fresh ones of the last phase.
    fn last_phase(pause: usize) -> usize {
        let mut pool = Pool::new();
        let mut phase = || {
            let before = pool.fresh;
            pool.take(840);
            pool.give(840);
            (0..pause).for_each(|_| pool.tick());
            pool.fresh - before
        };
        (0..8).map(|_| phase()).last().expect("eight phases")
    }

    #[test]
    fn a_job_that_pauses_briefly_has_its_pages_in_the_next_phase() {
        for pause in 1..=QUIET {
            let fresh = last_phase(pause);
            assert!(fresh <= 840 / 20, "{fresh} units after a pause of {pause} ticks");
        }
        // Longer ones are rests.
        assert_eq!(last_phase(QUIET + 1), 840);
    }

    #[test]
    fn without_a_need_nothing_stays() {
        let mut pool = Pool::new();
        pool.take(1000);
        for _ in 0..100 {
            pool.give(10);
            pool.tick();
            pool.tick();
            assert!(pool.free <= 20, "{} units", pool.free);
        }
    }

    #[test]
    fn what_stays_goes_when_the_process_is_idle_and_when_nothing_needs_it() {
        let learnt = || {
            let mut pool = Pool::new();
            for _ in 0..10 {
                pool.collect(4, 840);
            }
            assert!(pool.free >= 800);
            pool
        };
        // The last of them sees what was freed.
        let mut idle = learnt();
        (0..QUIET).for_each(|_| idle.tick());
        assert!(idle.free >= 400, "{} units", idle.free);
        idle.tick();
        assert_eq!(idle.free, 0);
        // It goes on, and needs one unit at a time.
        let mut busy = learnt();
        for _ in 0..2 * RETAIN_TICKS {
            busy.take(1);
            busy.give(1);
            busy.take(1);
            busy.tick();
        }
        assert!(busy.free <= 100, "{} units", busy.free);
    }
}

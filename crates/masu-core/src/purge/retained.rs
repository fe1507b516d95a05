//! How much of the pool's free pages stays although it has rested, because it will be needed again.
//!
//! A server whose collector runs once a second frees and takes the same memory in a period longer than the decay time,
//! and would fault it in each time. So a tick compares what is taken fresh with what went back lately: that much more
//! should have stayed, and stays from now on. Of that, what was not needed at any time within [`RETAIN_TICKS`] goes. If
//! nothing is taken or given for half as many ticks, the process is idle: nothing stays. A batch job that pauses for less
//! than that is not.

use crate::clock;
use crate::ledger;
use crate::settings;
use crate::sync::rolled;
use crate::sys::time;
use crate::tuning::RETAIN_TICKS;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The ticks without a need or a free after which a process is idle.
const QUIET: u64 = RETAIN_TICKS as u64 / 2;

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
    /// When a tick last saw that something was taken or given, in milliseconds. (Ticks are no measure: nobody makes them
    /// where nothing waits to go back.)
    active: AtomicU64,
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
            active: AtomicU64::new(0),
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
        let tick = clock::tick_ms(settings::decay_ms().unwrap_or(0));
        self.stay_at(time::now_ms(), rested, tick.saturating_mul(QUIET))
    }

    /// The same at a time, if a process is idle after so many milliseconds.
    #[inline(always)]
    fn stay_at(&self, now: u64, rested: usize, idle: u64) -> usize {
        // Otherwise some of what stayed has been taken, and may be free again.
        let rests = self.rested.last().is_none_or(|stayed| rested >= get(stayed));
        let is_quiet = rests && self.same.load(Ordering::Relaxed);
        let was_idle = now.wrapping_sub(self.active.load(Ordering::Relaxed)) >= idle;
        if was_idle {
            set(&self.most, 0);
            set(&self.gone, 0);
            for then in &self.rested {
                rolled();
                set(then, 0);
            }
        }
        if !is_quiet {
            self.active.store(now, Ordering::Relaxed);
        } else if was_idle {
            return 0;
        }
        let again = get(&self.taken).min(get(&self.gone));
        let (mut latest, mut unused) = (rested, rested);
        for then in self.rested.iter().rev() {
            rolled();
            unused = unused.min(latest);
            set(then, core::mem::replace(&mut latest, get(then)));
        }
        let most = (get(&self.most) + again).saturating_sub(unused);
        let stay = most.min(rested);
        let goes = rested - stay;
        // As if they had gone before.
        for then in &self.rested {
            rolled();
            set(then, get(then).saturating_sub(goes));
        }
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
        /// In ticks.
        now: u64,
    }

    impl Pool {
        fn new() -> Self {
            Pool { retained: Retained::new(), used: 0, fresh: 0, free: 0, rested: 0, now: 100 }
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

        /// The time of a tick passes, which nobody makes where nothing is free.
        fn wait(&mut self) {
            if self.free == 0 { self.now += 1 } else { self.tick() }
        }

        fn tick(&mut self) {
            self.now += 1;
            self.retained.begin_with(self.used, self.fresh);
            self.free -= self.rested - self.retained.stay_at(self.now, self.rested, QUIET);
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

    /// A job that fills 840 units in each phase and frees them, and then pauses. Returns how many of the last phase were
    /// fresh, and how many ticks later the last of them went back, 0 if they stay.
    fn last_phase(pause: usize) -> (usize, usize) {
        let mut pool = Pool::new();
        let mut phase = || {
            let before = pool.fresh;
            pool.take(840);
            pool.give(840);
            let mut gone = 0;
            for tick in 1..=pause {
                pool.wait();
                if pool.free == 0 && gone == 0 {
                    gone = tick;
                }
            }
            (pool.fresh - before, gone)
        };
        (0..8).map(|_| phase()).last().expect("eight phases")
    }

    #[test]
    fn a_job_that_pauses_briefly_has_its_pages_in_the_next_phase() {
        for pause in 1..QUIET as usize {
            let (fresh, _) = last_phase(pause);
            assert!(fresh <= 840 / 20, "{fresh} units after a pause of {pause} ticks");
        }
        // Longer ones are rests, in which nothing stays for longer than its time.
        for pause in QUIET as usize + 2..4 * QUIET as usize {
            assert_eq!(last_phase(pause), (840, 2), "a pause of {pause} ticks");
        }
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
        // The first tick sees what was freed, so one more than the quiet ones has to pass.
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

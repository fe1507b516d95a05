//! How far apart a thread's samples are: as far as was asked for, unless samples would then take more than about half a
//! hundredth of the thread's time.
//!
//! A mean distance of 512 KiB is a few samples in a second for most threads, and twenty thousand for one that only
//! allocates. So samples are paid for with time: each costs [`SAMPLES_APART`], and time without any is saved, up to
//! [`SAVED`]. A thread that allocates in bursts and then sleeps, or computes, pays for a burst with what it has saved.
//! A thread that has nothing left doubles the distance; one that saves again halves it. All threads together spend no
//! more time than all processors have, since threads that wait for a processor save as well.
//!
//! Estimates stay without bias. Each coin is thrown at a rate that is known before, and a sample is weighed by the rate
//! that its own coin was thrown at: a mark keeps its step. A distance that is not used up is stretched with the rate:
//! exponential distances have no memory, so it is as good as one that is drawn anew.
//!
//! The distance doubles only after some samples at the last one: few at the short distances, which a thread that only
//! allocates passes in its first milliseconds, and the more the longer it is. So what is drawn at a long distance is many
//! samples, or a small part of all. Several doublings at once would leave the rest of a burst to one or two samples, or
//! none, and a margin of error that follows from the samples would be wrong.

use crate::settings;
use crate::size_class::LAST_CLASS;
use crate::sync::{AtomicU64, Ordering};
use crate::sys::{host, time};
use crate::tuning::{SAMPLES_APART, SAMPLES_SAVED};
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
    /// Nanoseconds that have passed, and are not paid for samples.
    saved: Cell<u64>,
    /// Looks at this step that found nothing saved, less those that found something.
    short: Cell<u8>,
    /// By class, the step at which its mark was made.
    marks: [Cell<u8>; LAST_CLASS + 1],
}

/// The last step: a mean distance 1,024 times the requested one.
const MOST: u8 = 10;
/// Samples before the first look: what a program of a few milliseconds takes.
const FIRST: u8 = 4;
/// Samples between two looks at the clock after that.
const A_LOOK: u8 = 8;
/// Lower rates, in bytes, are taken as they are: a user who asks for so fine a profile wants it.
pub const PACED_FROM: usize = 64 << 10;
/// Most nanoseconds that a thread saves.
const SAVED: u64 = SAMPLES_SAVED * SAMPLES_APART;
/// Nanoseconds saved from which on the distance is halved, so that it does not double again soon.
const ENOUGH: u64 = SAVED / 8;

/// What all threads together have spent: nanoseconds up to which all processors' time is spent. They save for twice as
/// many samples as one thread does.
struct Purse(AtomicU64);

static PURSE: Purse = Purse(AtomicU64::new(0));

impl Purse {
    /// A profile begins, or a thread takes part. There is a little at first.
    fn begin(&self, now: u64) {
        let begun = now.saturating_sub(SAVED / 16).max(1);
        let _ = self.0.compare_exchange(0, begun, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Pays for some samples, if there is enough, or else as much as there is. Returns whether there was.
    fn pays(&self, samples: u64, now: u64) -> bool {
        let price = |samples| samples * SAMPLES_APART / u64::from(settings::processors().max(1));
        let saved = now.saturating_sub(price(2 * SAMPLES_SAVED));
        let spent = |before: u64| before.max(saved) + price(samples);
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |before| {
            Some(spent(before).min(before.max(now)))
        });
        spent(before.unwrap_or(now)) <= now
    }
}

impl Pace {
    /// Nothing sampled so far.
    pub const fn new() -> Self {
        Pace {
            step: Cell::new(0),
            taken: Cell::new(0),
            due: Cell::new(FIRST),
            in_tick: Cell::new(false),
            since: Cell::new(0),
            saved: Cell::new(0),
            short: Cell::new(0),
            marks: [const { Cell::new(0) }; LAST_CLASS + 1],
        }
    }

    /// A profile begins.
    pub fn begin(&self) {
        let now = time::nanoseconds();
        PURSE.begin(now);
        self.begin_at(now);
    }

    fn begin_at(&self, now: u64) {
        self.step.set(0);
        self.taken.set(0);
        self.due.set(FIRST);
        self.saved.set(0);
        self.short.set(0);
        self.since.set(now);
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
        if !self.is_look_due(rate) {
            return distance;
        }
        let purse = (!host::is_single_threaded()).then_some(&PURSE);
        self.look(time::nanoseconds(), distance, purse)
    }

    /// Counts a sample. Returns whether to look at the clock.
    #[inline]
    fn is_look_due(&self, rate: usize) -> bool {
        self.in_tick.set(true);
        if rate < PACED_FROM {
            return false;
        }
        self.taken.set(self.taken.get() + 1);
        self.taken.get() >= self.due.get()
    }

    /// A tick has passed. Returns what becomes of the distance.
    pub fn on_tick(&self, distance: u64) -> u64 {
        if self.in_tick.replace(false) {
            return distance;
        }
        self.to(self.step.get().saturating_sub(2), distance)
    }

    #[cold]
    fn look(&self, now: u64, distance: u64, purse: Option<&Purse>) -> u64 {
        let samples = u64::from(self.taken.replace(0)).max(1);
        let passed = now.saturating_sub(self.since.replace(now));
        self.due.set(A_LOOK);
        let paid = self.saved.get().saturating_add(passed).min(SAVED);
        let left = paid.checked_sub(samples * SAMPLES_APART);
        self.saved.set(left.unwrap_or(0));
        let (mut step, short) = (self.step.get(), self.short.get());
        match left {
            _ if purse.is_some_and(|purse| !purse.pays(samples, now)) => {
                step = (step + 1).min(MOST)
            }
            None if short + 1 < looks_at(step) => self.short.set(short + 1),
            None => step = (step + 1).min(MOST),
            Some(left) if left >= ENOUGH => {
                // At once if samples have become rare.
                step = step.saturating_sub(1 + rarity(passed / samples));
            }
            Some(_) => self.short.set(short.saturating_sub(1)),
        }
        self.to(step, distance)
    }

    fn to(&self, step: u8, distance: u64) -> u64 {
        let was = self.step.replace(step);
        if step != was {
            self.short.set(0);
        }
        if step >= was { distance << (step - was) } else { distance >> (was - step) }
    }
}

/// Looks that find nothing saved before a distance is doubled: few at the short ones, which a burst soon passes.
fn looks_at(step: u8) -> u8 {
    (1 << step.saturating_sub(2).min(4)).min(2 * step)
}

/// How often the distance can be halved if samples come so many nanoseconds apart, and still be far enough.
fn rarity(apart: u64) -> u8 {
    (apart / (2 * SAMPLES_APART)).checked_ilog2().unwrap_or(0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prof::Draw;

    const RATE: usize = PACED_FROM;
    const MILLISECOND: u64 = 1_000_000;
    const SECOND: u64 = 1000 * MILLISECOND;

    /// A thread, with a clock of its own, that is sampled.
    struct Thread {
        pace: Pace,
        draw: Draw,
        left: u64,
        now: u64,
        samples: u64,
    }

    impl Thread {
        fn new(seed: u64) -> Thread {
            let mut draw = Draw::new(seed);
            let left = draw.distance(RATE);
            let thread = Thread { pace: Pace::new(), draw, left, now: SECOND, samples: 0 };
            thread.pace.begin_at(thread.now);
            thread
        }

        /// Allocates a block. Returns how many it stands for, if it is a sample, and otherwise 0.
        fn allocate(&mut self, size: u64) -> f64 {
            if let Some(left) = self.left.checked_sub(size) {
                self.left = left;
                return 0.0;
            }
            let rate = RATE << self.pace.step();
            self.samples += 1;
            self.left = self.draw.distance(rate);
            if self.pace.is_look_due(RATE) {
                self.left = self.pace.look(self.now, self.left, None);
            }
            -1.0 / (-(size as f64) / rate as f64).exp_m1()
        }
    }

    /// What a profile says of a place, and what is true.
    #[derive(Default)]
    struct Place {
        size: u64,
        truth: f64,
        estimate: f64,
        squares: f64,
    }

    impl Place {
        fn allocate(&mut self, thread: &mut Thread, size: u64) {
            let stands_for = thread.allocate(size);
            self.size = size;
            self.truth += size as f64;
            self.estimate += stands_for * size as f64;
            self.squares += stands_for * stands_for;
        }

        /// Whether the truth lies within the margin that `masu prof` shows.
        fn is_inside(&self) -> bool {
            let stands_for = self.squares / (self.estimate / self.size as f64);
            let unit = self.size as f64 * (stands_for - 1.0);
            // As in `masu_profile::view`.
            let z = 1.96_f64;
            let margin =
                z * z / 2.0 * unit + z * (self.estimate * unit + (z / 2.0 * unit).powi(2)).sqrt();
            (self.estimate - self.truth).abs() <= margin
        }
    }

    /// How many of a hundred margins contain the truth, and by how much the estimates are off on average, for a thread
    /// that makes so many requests in a burst, of 200 ns each, and then sleeps. A place keeps a small part of what they
    /// allocate.
    fn coverage(requests: u32, bursts: u32, asleep: u64) -> (f64, f64) {
        const TIMES: u64 = 600;
        let (mut inside, mut off) = (0, 0.0);
        for seed in 1..=TIMES {
            let (mut thread, mut kept) = (Thread::new(seed), Place::default());
            for _ in 0..bursts {
                for request in 0..requests {
                    thread.now += 200;
                    thread.allocate(2000 + u64::from(request) % 500);
                    thread.allocate(1000);
                    if request % 3 == 0 {
                        kept.allocate(&mut thread, 176);
                    }
                }
                thread.now += asleep;
            }
            inside += u32::from(kept.is_inside());
            off += kept.estimate / kept.truth - 1.0;
        }
        (100.0 * f64::from(inside) / TIMES as f64, off / TIMES as f64)
    }

    #[test]
    fn margins_hold_if_a_thread_allocates_in_bursts() {
        for (requests, bursts, asleep) in [(500, 200, 10), (5000, 20, 100), (20_000, 5, 400)] {
            let (inside, off) = coverage(requests, bursts, asleep * MILLISECOND);
            assert!(inside >= 92.0, "{requests} requests in a burst: {inside} % are inside");
            assert!(off.abs() < 0.05, "{requests} requests in a burst: {off} off on average");
        }
    }

    #[test]
    fn a_burst_is_sampled_as_was_asked_if_the_thread_has_slept() {
        let mut thread = Thread::new(1);
        let mut burst = |bytes: u64| {
            let before = thread.samples;
            (0..bytes / 1000).for_each(|_| _ = thread.allocate(1000));
            thread.now += 200 * MILLISECOND;
            (thread.samples - before) as f64 / (bytes / RATE as u64) as f64
        };
        burst(32 << 20);
        for _ in 0..20 {
            burst(1 << 20);
        }
        let part = burst(12 << 20);
        assert!((part - 1.0).abs() < 0.3, "{part}");
    }

    #[test]
    fn a_thread_that_only_allocates_takes_few_samples() {
        // 128,000 to 2,000 samples in a second, if all were taken.
        for per_millisecond in [8 << 20, 5 << 20, 3 << 20, 200 << 10, 128 << 10] {
            let mut thread = Thread::new(5);
            let mut milliseconds = |n: u64| {
                let before = thread.samples;
                for _ in 0..n * per_millisecond / 1024 {
                    thread.now += MILLISECOND * 1024 / per_millisecond;
                    thread.allocate(1024);
                }
                thread.samples - before
            };
            let (first, second, later) = (milliseconds(10), milliseconds(90), milliseconds(2000));
            // At five microseconds each, which misses of the caches make it where samples are rare, a tenth of the first
            // ten milliseconds, a fiftieth of the next ninety, and then half a hundredth.
            assert!(first <= 200, "{first}");
            assert!(second <= 360, "{second}");
            let most = 2000 * MILLISECOND / SAMPLES_APART;
            assert!(later <= most * 9 / 8, "{later} of {most}");
            assert!(later >= most / 2, "{later} of {most}");
        }
    }

    #[test]
    fn threads_that_wait_for_a_processor_are_paid_for_together() {
        let purse = Purse(AtomicU64::new(0));
        let processors = u64::from(settings::processors().max(1));
        let (mut now, mut paid) = (SECOND, 0);
        purse.begin(now);
        // Sixteen samples of as many threads at each moment.
        for _ in 0..1000 {
            now += SAMPLES_APART;
            paid += (0..16 * processors).filter(|_| purse.pays(1, now)).count() as u64;
        }
        assert!(paid <= (1000 + SAMPLES_SAVED / 16) * processors, "{paid}");
        assert!(paid >= 1000 * processors, "{paid}");
    }

    #[test]
    fn distances_double_one_look_at_a_time_and_shrink_again() {
        let (pace, mut now) = (Pace::new(), SECOND);
        pace.begin_at(now);
        // Samples in a row, each `apart` nanoseconds after the one before.
        let row = |now: &mut u64, apart: u64, samples: u8| {
            for _ in 0..samples {
                *now += apart;
                if pace.is_look_due(RATE) {
                    pace.look(*now, 0, None);
                }
            }
        };
        let look = A_LOOK;
        for (samples, step) in [(FIRST, 1), (look, 2), (look, 3), (2 * look, 4)] {
            row(&mut now, SAMPLES_APART / 1000, samples - 1);
            assert_eq!(pace.step(), step - 1);
            row(&mut now, SAMPLES_APART / 1000, 1);
            assert_eq!(pace.step(), step);
        }
        row(&mut now, SAMPLES_APART, 16 * look);
        row(&mut now, SAMPLES_APART * 3 / 2, 16 * look);
        assert_eq!(pace.step(), 4, "far enough, and not rare");
        row(&mut now, SAMPLES_APART * 3 / 2, 16 * look);
        assert_eq!(pace.step(), 3, "enough is saved");
        row(&mut now, 100 * SAMPLES_APART, look);
        assert_eq!(pace.step(), 0, "rare");
        for _ in 0..20 {
            row(&mut now, 0, 16 * look);
        }
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

//! What samples say, compared with what was really allocated.

use super::*;
use crate::control::flush_thread;
use crate::ledger;
use crate::own_process::alone;
use crate::{
    Arena, alloc, alloc_aligned, alloc_exact, alloc_zeroed, dealloc, realloc, usable_size,
};
use std::collections::BTreeMap;
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The program's current site, as the unwinder of these tests sees it.
static PLACE: AtomicUsize = AtomicUsize::new(1);

fn unwinder(room: &mut [MaybeUninit<usize>]) -> &[usize] {
    room[0].write(PLACE.load(Ordering::Relaxed));
    room[1].write(7);
    // SAFETY: the first two were just written.
    unsafe { core::slice::from_raw_parts(room.as_ptr().cast(), 2) }
}

static KEEPS: AtomicUsize = AtomicUsize::new(0);
static UNWINDER: Unwinder = Unwinder { walk: unwinder, keeps: &KEEPS, bytes: 0 };

/// A line of a dump.
#[derive(Default, Debug, Clone, PartialEq)]
struct Place {
    samples: u64,
    allocated: (f64, u64),
    live: (f64, u64),
    peak: (f64, u64),
}

/// The sites of a dump by their innermost frames.
fn places() -> BTreeMap<usize, Place> {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let text = thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("UTF-8");
        text
    });
    dump(writer.as_raw_fd() as u32).expect("a profile");
    drop(writer);
    let text = text.join().expect("read");
    let mut places = BTreeMap::<usize, Place>::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("place ")) {
        let (numbers, frames) = line.split_once(" @").expect("a stack");
        let n: Vec<u64> = numbers.split(' ').map(|n| n.parse().expect("a number")).collect();
        let first = frames.trim().split(' ').next().expect("a frame");
        let first = usize::from_str_radix(first.trim_start_matches("0x"), 16).expect("an address");
        let place = places.entry(first).or_default();
        place.samples += n[1];
        for (sum, pair) in [(&mut place.allocated, 3), (&mut place.live, 5), (&mut place.peak, 7)] {
            sum.0 += n[pair] as f64 / 65536.0;
            sum.1 += n[pair + 1];
        }
    }
    assert!(text.contains("\nmaps\n") && text.contains("[stack]"));
    places
}

/// A source of arbitrary numbers, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

const RATE: usize = 4096;

/// The variance of the estimate of one block.
fn variance(p: *mut u8, size: usize) -> f64 {
    // SAFETY: a live block.
    let usable = unsafe { usable_size(p) } as f64;
    let odds = -(-usable / RATE as f64).exp_m1();
    (size as f64).powi(2) * (1.0 - odds) / odds
}

/// `rounds` estimates of what `make` allocates, each as its distance from the truth in standard deviations.
fn deviations(rounds: usize, mut make: impl FnMut(&mut Vec<(*mut u8, usize)>)) -> Vec<f64> {
    start(RATE).expect("memory");
    let deviations = (0..rounds).map(|_| {
        let mut blocks = Vec::new();
        make(&mut blocks);
        let truth: usize = blocks.iter().map(|(_, size)| size).sum();
        let sigma = blocks.iter().map(|&(p, size)| variance(p, size)).sum::<f64>().sqrt();
        let deviation = (totals().live as f64 - truth as f64) / sigma;
        for (p, _) in blocks {
            // SAFETY: a live block of this test's.
            unsafe { dealloc(p) };
        }
        assert_eq!((totals().live, totals().samples), (0, 0), "a sample was not freed");
        deviation
    });
    deviations.collect()
}

/// Checks that the estimates' mean is the truth, and that their 95 % intervals contain it that often.
fn check(deviations: &[f64]) {
    let n = deviations.len() as f64;
    let mean = deviations.iter().sum::<f64>() / n;
    assert!(mean.abs() < 4.0 / n.sqrt(), "the mean is {mean} standard deviations off");
    let inside = deviations.iter().filter(|d| d.abs() < 1.96).count() as f64 / n;
    // Four standard deviations of a proportion.
    assert!((inside - 0.95).abs() < 4.0 * (0.95 * 0.05 / n).sqrt() + 0.005, "{inside} are inside");
}

#[test]
fn estimates_of_small_blocks_have_no_bias() {
    alone!(estimates_of_small_blocks_have_no_bias, || {
        let mut numbers = Numbers(1);
        check(&deviations(2000, |blocks| {
            for _ in 0..400 {
                let size = [8, 24, 40, 100, 250, 1000, 3000][numbers.below(7) as usize];
                let p = match numbers.below(4) {
                    0 => alloc(size),
                    1 => alloc_zeroed(size),
                    2 => alloc_aligned(size, 64),
                    _ => alloc_exact(size, 16, false),
                };
                assert!(!p.is_null());
                // Some are freed at once: bins fill with freed blocks.
                if numbers.below(3) == 0 {
                    // SAFETY: that many bytes are there; and given up.
                    unsafe {
                        p.write_bytes(1, size);
                        dealloc(p);
                    }
                } else {
                    blocks.push((p, size));
                }
            }
        }));
    });
}

#[test]
fn estimates_of_large_and_resized_blocks_have_no_bias() {
    alone!(estimates_of_large_and_resized_blocks_have_no_bias, || {
        let mut numbers = Numbers(2);
        // Well above the rate every block is a sample, so the sizes lie around it.
        check(&deviations(2000, |blocks| {
            // A small block that stays in place counts with its first size.
            for _ in 0..40 {
                let p = alloc(1 + numbers.below(6000) as usize);
                let size = 1 + numbers.below(20_000) as usize;
                // SAFETY: a live block.
                blocks.push((unsafe { realloc(p, size) }, size));
            }
        }));
    });
}

/// Samples lie in longer blocks than others of their sizes, and yet stay where those stay.
#[test]
fn estimates_of_small_blocks_that_stay_or_move_have_no_bias() {
    alone!(estimates_of_small_blocks_that_stay_or_move_have_no_bias, || {
        let mut numbers = Numbers(3);
        check(&deviations(2000, |blocks| {
            for _ in 0..200 {
                let first = [40, 90, 130, 250, 300, 500, 700][numbers.below(7) as usize];
                let second = if numbers.below(2) == 0 { first + 1 } else { 2 * first };
                let p = alloc(first);
                // SAFETY: a live block.
                let q = unsafe { realloc(p, second) };
                assert!(!q.is_null());
                blocks.push((q, if q == p { first } else { second }));
            }
        }));
    });
}

#[test]
fn estimates_of_short_lived_threads_have_no_bias() {
    alone!(estimates_of_short_lived_threads_have_no_bias, || {
        // Bins keep most of their blocks unused.
        check(&deviations(300, |blocks| {
            for _ in 0..40 {
                let some = thread::spawn(|| {
                    (0..3).map(|_| (alloc(500).expose_provenance(), 500)).collect::<Vec<_>>()
                });
                let some = some.join().expect("a thread");
                blocks.extend(
                    some.iter().map(|&(p, n)| (core::ptr::with_exposed_provenance_mut(p), n)),
                );
            }
        }));
    });
}

#[test]
fn places_that_are_served_from_larger_classes_have_no_bias() {
    alone!(places_that_are_served_from_larger_classes_have_no_bias, || {
        const THREADS: usize = 8000;
        set_unwinder(&UNWINDER);
        start(RATE).expect("memory");
        // Each thread allocates a few blocks of one size, and between them smaller ones, which come from leftover
        // blocks.
        let sizes = [512, 512, 470, 470, 512, 400, 470, 512];
        let (mut larger, mut variances) = (0, BTreeMap::<usize, f64>::new());
        for _ in 0..THREADS {
            let some = thread::spawn(move || {
                sizes.map(|size| {
                    PLACE.store(size, Ordering::Relaxed);
                    let p = alloc(size);
                    // SAFETY: live.
                    (unsafe { usable_size(p) }, variance(p, size))
                })
            });
            for (size, (usable, variance)) in sizes.into_iter().zip(some.join().expect("a thread"))
            {
                larger += usize::from(size < 500 && usable == 512);
                *variances.entry(size).or_default() += variance;
            }
        }
        assert!(larger > THREADS, "{larger}");
        let found = places();
        for (size, variance) in variances {
            let truth = THREADS * sizes.iter().filter(|it| **it == size).count() * size;
            let error = (found[&size].live.1 as f64 - truth as f64) / variance.sqrt();
            assert!(error.abs() < 5.0, "{size}: {error} standard deviations");
        }
    });
}

#[test]
fn each_place_has_its_own() {
    alone!(each_place_has_its_own, || {
        set_unwinder(&UNWINDER);
        start(RATE).expect("memory");
        let mut blocks = Vec::new();
        // A site with many small blocks beside one with few large ones, and one that frees all.
        for _ in 0..20_000 {
            for (place, size, times) in [(0x11, 32, 10), (0x22, 2000, 1), (0x33, 300, 2)] {
                PLACE.store(place, Ordering::Relaxed);
                for _ in 0..times {
                    let p = alloc(size);
                    if place == 0x33 {
                        // SAFETY: live.
                        unsafe { dealloc(p) };
                    } else {
                        blocks.push(p);
                    }
                }
            }
        }
        let before = places();
        for (place, bytes, objects) in
            [(0x11, 6_400_000.0, 200_000.0), (0x22, 40_000_000.0, 20_000.0)]
        {
            let found = &before[&place];
            assert!((found.live.1 as f64 / bytes - 1.0).abs() < 0.12, "{place:x}: {found:?}");
            assert!((found.live.0 / objects - 1.0).abs() < 0.12, "{place:x}: {found:?}");
            assert_eq!(found.live, found.allocated);
        }
        let churn = &before[&0x33];
        assert!((churn.allocated.1 as f64 / 12_000_000.0 - 1.0).abs() < 0.12, "{churn:?}");
        assert_eq!(churn.live, (0.0, 0));
        // The peak stays when everything is gone.
        for p in blocks {
            // SAFETY: live.
            unsafe { dealloc(p) };
        }
        let after = places();
        assert_eq!(after[&0x11].live, (0.0, 0));
        for place in [0x11, 0x22] {
            assert_eq!(after[&place].peak, before[&place].peak);
            assert_eq!(before[&place].peak, before[&place].live);
        }
        assert_eq!(totals().live, 0);
        // A stopped profile samples nothing more, and a reset one is empty.
        stop();
        assert!((0..10_000).all(|_| !alloc(1000).is_null()));
        assert_eq!(totals().live, 0);
        reset();
        assert!(places().is_empty());
    });
}

#[test]
fn a_peak_is_never_more_than_the_process_held() {
    alone!(a_peak_is_never_more_than_the_process_held, || {
        // Otherwise a span that was taken just for a sample of the first block would go back before the look.
        // SAFETY: just made.
        unsafe { dealloc(alloc(2000)) };
        start(DEFAULT_RATE).expect("memory");
        let (mut most, mut samples) = (0, 0);
        for round in 0..300_000 {
            let p = alloc(2000);
            most = most.max(ledger::in_blocks());
            samples = samples.max(totals().samples);
            // The sample would stand for 513 KiB.
            assert!(totals().peak <= most as u64, "{round}: {} of {most}", totals().peak);
            // SAFETY: live.
            unsafe { dealloc(p) };
        }
        assert!(samples == 1 && totals().peak > 2000 && most < 1 << 19, "{samples} {most}");
    });
}

#[test]
fn samples_are_blocks_like_any_other() {
    alone!(samples_are_blocks_like_any_other, || {
        // Nearly every block is a sample.
        start(1).expect("memory");
        for size in [1, 16, 100, 512, 4096, 8192, 9000, 100_000, 3 << 20] {
            let p = alloc(size);
            assert!(totals().samples > 0, "{size}");
            // SAFETY: live blocks with that many bytes.
            unsafe {
                p.write_bytes(7, size);
                let usable = usable_size(p);
                // Samples of several small classes share one.
                assert!(usable >= size && usable <= (size * 2 + 16).max(256), "{size}: {usable}");
                assert!(Arena::of(p).is_none());
                let q = realloc(p, size * 3);
                assert!((0..size).all(|i| *q.add(i) == 7), "{size}");
                let q = realloc(q, size / 2 + 1);
                assert!((0..size / 2).all(|i| *q.add(i) == 7), "{size}");
                dealloc(q);
                let zeroed = alloc_zeroed(size);
                assert!((0..size).all(|i| *zeroed.add(i) == 0), "{size}");
                // Freed by another thread.
                let address = zeroed.expose_provenance();
                let freer = thread::spawn(move || {
                    dealloc(core::ptr::with_exposed_provenance_mut(address));
                });
                freer.join().expect("a thread");
            }
            for shift in [5, 8, 12, 16] {
                let p = alloc_aligned(size, 1 << shift);
                assert!((p as usize).is_multiple_of(1 << shift), "{size} {shift}");
                // SAFETY: live.
                unsafe { dealloc(p) };
            }
            assert_eq!(totals().samples, 0, "{size}");
        }
    });
}

#[test]
fn a_profile_that_a_full_disk_cuts_off_is_an_error() {
    alone!(a_profile_that_a_full_disk_cuts_off_is_an_error, || {
        start(DEFAULT_RATE).expect("memory");
        for form in [Form::Masu, Form::HeapV2] {
            assert_eq!(write_file(c"/dev/full", form), Err(Refused::Busy));
            assert_eq!(write_file(c"/dev/null", form), Ok(()));
        }
    });
}

#[test]
fn a_sample_that_is_set_aside_does_not_outlive_a_reset() {
    alone!(a_sample_that_is_set_aside_does_not_outlive_a_reset, || {
        start(1).expect("memory");
        let [moving, other] = [1 << 20, 2 << 20].map(core::ptr::without_provenance_mut::<u8>);
        let sample = |p| prof::sample(p, 100, 112, 1, 0, || u64::MAX);
        for resets in [false, true] {
            sample(moving);
            let aside = prof::set_aside(moving).expect("a sample");
            if resets {
                prof::reset();
                sample(other);
            }
            prof::put_back(aside);
            assert_eq!(totals().samples, 1);
            prof::freed(moving);
            assert_eq!(totals().samples, usize::from(resets));
        }
    });
}

/// A sample that was drawn for a later request does not come either.
#[test]
fn a_muted_thread_has_no_samples() {
    alone!(a_muted_thread_has_no_samples, || {
        start(4096).expect("memory");
        let blocks = || -> Vec<*mut u8> { (0..1000).map(|_| alloc(64)).collect() };
        let mut all = 0;
        for round in 0..50 {
            // What is in bins was drawn before.
            flush_thread();
            let heard = blocks();
            let samples = totals().samples;
            all += samples;
            assert!(mute(true));
            let muted = blocks();
            assert_eq!(totals().samples, samples, "round {round}");
            assert!(mute(false));
            // SAFETY: live.
            heard.into_iter().chain(muted).for_each(|p| unsafe { dealloc(p) });
        }
        assert!(all > 50, "{all}");
    });
}

/// A bin may end before a sample when a profile is stopped.
#[test]
fn a_sample_that_was_due_is_none_of_the_next_profile() {
    alone!(a_sample_that_was_due_is_none_of_the_next_profile, || {
        let blocks = |n: usize| -> Vec<*mut u8> { (0..n).map(|_| alloc(500)).collect() };
        for round in 0..50 {
            start(RATE).expect("memory");
            flush_thread();
            let mut all = blocks(5);
            stop();
            reset();
            all.extend(blocks(200));
            start(1).expect("memory");
            all.extend(blocks(300));
            // Each stands for itself.
            let Totals { live, samples, .. } = totals();
            assert_eq!(live, 500 * samples as u64, "round {round}");
            // SAFETY: live.
            all.into_iter().for_each(|p| unsafe { dealloc(p) });
        }
    });
}

#[test]
fn a_heap_takes_its_samples_with_it() {
    alone!(a_heap_takes_its_samples_with_it, || {
        start(1).expect("memory");
        let (heap, other) = (Arena::create().unwrap(), Arena::create().unwrap());
        let kept = other.alloc(100, 16, false);
        for size in [10, 5000, 50_000, 5_000_000] {
            let p = heap.alloc(size, 16, true);
            assert!(core::ptr::eq(Arena::of(p).unwrap(), heap));
        }
        assert_eq!(totals().samples, 5);
        // SAFETY: no other code uses them any more.
        unsafe {
            heap.destroy();
            assert_eq!(totals().samples, 1);
            other.dealloc(kept);
            assert_eq!(totals().samples, 0);
            other.destroy();
        }
    });
}

#[test]
fn somebody_outside_switches_it_on_and_off() {
    alone!(somebody_outside_switches_it_on_and_off, || {
        let outside = |rate| {
            let Ok(()) = prof::switch::ask(7, rate as u64, |word, value| {
                prof::outside::SWITCH.write(word, value);
                Ok::<(), core::convert::Infallible>(())
            });
        };
        let take = || -> Vec<*mut u8> { (0..20_000).map(|_| alloc(200)).collect() };
        let first = take();
        outside(RATE);
        let second = take();
        assert_ne!(prof::session(), 0);
        // A standard deviation is 3 %.
        let live = totals().live as f64;
        assert!((live / 4e6 - 1.0).abs() < 0.2, "{live}");
        prof::stop();
        let samples = totals().samples;
        let third = take();
        assert_eq!(totals().samples, samples);
        // The next profile from outside does not contain the last one.
        outside(RATE);
        let fourth = take();
        let live = totals().live as f64;
        assert!((live / 4e6 - 1.0).abs() < 0.2, "{live}");
        // But samples that the program itself took stay its own.
        start(RATE).expect("memory");
        stop();
        outside(RATE);
        let fifth = take();
        let live = totals().live as f64;
        assert!((live / 8e6 - 1.0).abs() < 0.2, "{live}");
        for p in [first, second, third, fourth, fifth].concat() {
            // SAFETY: a live block of this test's.
            unsafe { dealloc(p) };
        }
        assert_eq!((totals().live, totals().samples), (0, 0), "a sample was not freed");
    });
}

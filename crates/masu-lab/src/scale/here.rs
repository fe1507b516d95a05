//! What the scale model's check has to know of this machine: what it takes to move cache lines from
//! one core to another, and to hand a core from one thread to another.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// How often each figure is measured; the least is taken, since everything else that a machine does
/// only adds.
const TRIES: usize = 7;

/// What moving a cache line from one core to another takes, in nanoseconds, where nothing goes on
/// before it is there: two threads on two cores hand a number to each other.
pub fn transfer() -> Result<f64> {
    /// Times the line moves in a try.
    const MOVES: u32 = 40_000;
    let cores = two_cores()?;
    let tries = (0..TRIES).map(|_| {
        let line = AtomicU32::new(0);
        both(|own| {
            let _ = keep_to(&cores[own..=own]);
            let start = Instant::now();
            for turn in (own as u32..MOVES).step_by(2) {
                wait_for(&line, turn);
                line.store(turn + 1, Ordering::Release);
            }
            start.elapsed().as_nanos() as f64 / f64::from(MOVES)
        })
    });
    Ok(tries.fold(f64::MAX, f64::min))
}

/// A cache line.
#[repr(align(64))]
struct Padded(AtomicU32);

/// What moving one of many lines takes, in nanoseconds: the threads take turns at reading and writing
/// all of them by ordinary instructions, in no order that a core could guess, and a core has as
/// many on their way at once as it can. What the same takes with its own lines is taken off.
pub fn overlapped() -> Result<f64> {
    /// Lines that are moved in a turn: less than what a core's first cache holds.
    const LINES: usize = 256;
    const TURNS: u32 = 200;
    let cores = two_cores()?;
    let lines: Vec<Padded> = (0..LINES).map(|_| Padded(AtomicU32::new(0))).collect();
    // A step that has no divisor in common with the number of lines visits each of them once.
    let order: Vec<usize> = (0..LINES).map(|place| place * 89 % LINES).collect();
    let pass = || {
        let start = Instant::now();
        for &place in &order {
            let line = &lines[place].0;
            line.store(line.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        start.elapsed().as_nanos() as f64
    };
    let turn = AtomicU32::new(0);
    let least = both(|own| {
        let _ = keep_to(&cores[own..=own]);
        let (mut others, mut mine) = (f64::MAX, f64::MAX);
        for number in (own as u32..TURNS).step_by(2) {
            wait_for(&turn, number);
            others = others.min(pass());
            mine = mine.min(pass());
            turn.store(number + 1, Ordering::Release);
        }
        (others - mine).max(0.0) / LINES as f64
    });
    Ok(least)
}

/// What a switch between two threads on one core takes, in nanoseconds: each wakes the other up and
/// goes to sleep, as threads do that wait for each other.
pub fn switch() -> Result<f64> {
    /// Switches in a try.
    const SWITCHES: usize = 20_000;
    on_cores(1, || {
        let tries = (0..TRIES).map(|_| {
            let turn = AtomicUsize::new(0);
            let over = AtomicBool::new(false);
            let main = thread::current();
            thread::scope(|scope| {
                let other = scope.spawn(|| {
                    while !over.load(Ordering::Acquire) {
                        if turn.load(Ordering::Acquire) % 2 == 1 {
                            turn.fetch_add(1, Ordering::Release);
                            main.unpark();
                        }
                        thread::park();
                    }
                });
                let start = Instant::now();
                for number in (0..SWITCHES).step_by(2) {
                    turn.store(number + 1, Ordering::Release);
                    other.thread().unpark();
                    while turn.load(Ordering::Acquire) == number + 1 {
                        thread::park();
                    }
                }
                let took = start.elapsed().as_nanos() as f64 / SWITCHES as f64;
                over.store(true, Ordering::Release);
                other.thread().unpark();
                took
            })
        });
        tries.fold(f64::MAX, f64::min)
    })
}

/// Does something on two threads at once, which are told their numbers; the lesser result.
fn both(play: impl Fn(usize) -> f64 + Sync) -> f64 {
    thread::scope(|scope| {
        let threads = [0, 1].map(|own| {
            scope.spawn({
                let play = &play;
                move || play(own)
            })
        });
        let results = threads.map(|thread| thread.join().unwrap_or(f64::MAX));
        results[0].min(results[1])
    })
}

/// Waits until a number is what it should be.
fn wait_for(number: &AtomicU32, wanted: u32) {
    let mut looks = 0u32;
    while number.load(Ordering::Acquire) != wanted {
        looks += 1;
        // The other one may be waiting for this very processor.
        if looks.is_multiple_of(10_000) {
            thread::yield_now();
        }
        std::hint::spin_loop();
    }
}

/// The first two cores that this thread may use.
fn two_cores() -> Result<[usize; 2]> {
    let cores = allowed()?;
    cores.get(..2).and_then(|two| two.try_into().ok()).context("this machine has one core")
}

/// The cores that this thread may use.
fn allowed() -> Result<Vec<usize>> {
    let all = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&core| all.is_set(core)).collect())
}

/// Keeps this thread, and what it starts, to some cores.
fn keep_to(cores: &[usize]) -> Result<()> {
    let mut few = CpuSet::new();
    cores.iter().for_each(|&core| few.set(core));
    Ok(sched_setaffinity(None, &few)?)
}

/// Does something with this thread, and the processes it starts, kept to the first `cores` cores.
pub fn on_cores<T>(cores: usize, action: impl FnOnce() -> T) -> Result<T> {
    let all = allowed()?;
    ensure!(all.len() >= cores, "this machine has fewer than {cores} cores");
    keep_to(&all[..cores])?;
    let done = action();
    keep_to(&all)?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_kept_to_the_cores_and_released() {
        let allowed = || thread::available_parallelism().unwrap().get();
        let before = allowed();
        assert_eq!(on_cores(1, allowed).unwrap(), 1);
        assert_eq!(allowed(), before);
    }

    #[test]
    fn lines_and_switches_take_time() {
        let switch = switch().unwrap();
        assert!(switch > 10.0 && switch.is_finite(), "{switch}");
        if allowed().unwrap().len() > 1 {
            let (transfer, overlapped) = (transfer().unwrap(), overlapped().unwrap());
            assert!(transfer > 1.0 && transfer.is_finite(), "{transfer}");
            assert!((0.0..1e9).contains(&overlapped), "{overlapped}");
        }
    }
}

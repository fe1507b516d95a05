//! The instructions of programs with one thread, with a profile and without, as callgrind counts them: nothing that the
//! machine does beside them changes their number.
//!
//! Under callgrind a program runs some fifty times slower, and the clock does not. So a thread that has time for one
//! sample in a while has time for fifty, and masu takes every sample that is asked for. For what a profile costs at its
//! pace, the program is counted once more at the distance that its pace came to when it was timed.

use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result};
use serde::Serialize;

use super::programs::Program;
use super::samples::Samples;
use super::ways::USUAL;
use crate::arm::Arm;
use crate::cost;

/// A mean distance at which no program here has a sample.
const NEVER: u64 = 1 << 50;
/// Its seed makes two runs of Python execute the same instructions.
const PYTHON_SEED: (&str, &str) = ("PYTHONHASHSEED", "0");

/// A program's instructions.
#[derive(Debug, Serialize)]
pub struct Counted {
    pub program: String,
    /// Without a profile, and once more.
    pub off: [u64; 2],
    /// With a profile that has no samples: what its start and its writing take.
    pub once: Profiled,
    /// At the usual distance, all samples taken.
    pub every: Profiled,
    /// At the distance of the timed runs.
    pub paced: Profiled,
}

/// The instructions of a run with a profile, its writing at the end included, and its samples.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Profiled {
    pub instructions: u64,
    pub samples: f64,
}

impl Counted {
    /// What a profile adds, as a part of the instructions without it.
    pub fn more(&self, profiled: Profiled) -> f64 {
        profiled.instructions as f64 / self.off[0] as f64 - 1.0
    }

    /// By how much two counts without a profile differ.
    pub fn noise(&self) -> f64 {
        (self.off[1] as f64 / self.off[0] as f64 - 1.0).abs()
    }

    /// The instructions of a sample, without what a profile takes once.
    pub fn of_a_sample(&self) -> f64 {
        (self.every.instructions as f64 - self.once.instructions as f64) / self.every.samples
    }
}

/// The mean distance at which a sampler without a pace takes as many samples as these.
fn distance(timed: &Samples) -> u64 {
    (USUAL.0 as f64 * (timed.asked / timed.taken.max(1.0)).max(1.0)) as u64
}

/// Counts a program that does that share of its work. `timed`: the samples that it has when it is timed.
pub fn count(
    program: &Program,
    share: f64,
    timed: &Samples,
    masu: &Arm,
    place: &Path,
) -> Result<Counted> {
    let run = |rate: Option<u64>, number: usize| -> Result<Profiled> {
        let words = program.command(share);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(place).env(PYTHON_SEED.0, PYTHON_SEED.1);
        masu.apply(&mut command);
        let file = place.join(format!("counted.{number}"));
        if let Some(rate) = rate {
            command.env("MASU_PROF", "1").env("MASU_PROF_RATE", rate.to_string());
            command.env("MASU_PROF_FILE", &file);
        }
        let (instructions, said) = cost::whole(&command).with_context(|| program.name)?;
        if let Some(served) = said.lines().find_map(|line| line.strip_prefix("allocator ")) {
            masu.check(served)?;
        }
        let samples = match rate.filter(|&rate| rate != NEVER) {
            Some(rate) => Samples::read(&file, rate)?.taken,
            None => 0.0,
        };
        Ok(Profiled { instructions, samples })
    };
    // Two at a time: what is counted does not depend on what runs beside it.
    let two = |first: Option<u64>, second: Option<u64>| -> Result<(Profiled, Profiled)> {
        thread::scope(|threads| {
            let beside = threads.spawn(|| run(second, 1));
            Ok((run(first, 0)?, beside.join().expect("counting does not panic")?))
        })
    };
    let (off, again) = two(None, None)?;
    let (every, paced) = two(Some(USUAL.0), Some(distance(timed)))?;
    let once = run(Some(NEVER), 0)?;
    let off = [off, again].map(|it| it.instructions);
    Ok(Counted { program: program.name.into(), off, once, every, paced })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_sampled_as_was_asked_is_counted_at_the_usual_distance() {
        let of = |taken, asked| distance(&Samples { taken, asked, bytes: 1.0 });
        assert_eq!((of(100.0, 400.0), of(100.0, 90.0)), (2 << 20, 512 << 10));
    }

    #[test]
    fn what_a_profile_takes_once_is_not_its_samples() {
        let profiled = |instructions, samples| Profiled { instructions, samples };
        let counted = Counted {
            program: String::new(),
            off: [1_000_000, 1_000_100],
            once: profiled(1_050_000, 0.0),
            every: profiled(1_250_000, 100.0),
            paced: profiled(1_070_000, 10.0),
        };
        assert_eq!(counted.of_a_sample(), 2000.0);
        assert!((counted.more(counted.paced) - 0.07).abs() < 1e-9 && counted.noise() < 2e-4);
    }
}

//! A run, alone and as half of a pair.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};

use super::samples::{self, JEMALLOC_COUNTS, Samples};
use super::ways::{Counts, MALLOC_CONF, Way};
use crate::experiments::child::{self, Finished};
use crate::stats::{self, Ratio};
use masu_bench::work;

/// The longest run.
pub const LIMIT: Duration = Duration::from_secs(120);
/// Processor time of each half of a pair, in seconds: shorter programs run several times, up to [`MOST`].
const LEAST_S: f64 = 0.1;
const MOST: f64 = 20.0;
/// Memory that is touched before a run, as a part of the program's peak, and beside it, in MiB.
const TOUCHED: (f64, f64) = (1.25, 16.0);

/// What a run took, and the same of its base: first the base.
#[derive(Debug, Default)]
pub struct Pair {
    pub cpu_s: [f64; 2],
    pub wall_s: [f64; 2],
    pub peak_kib: [f64; 2],
}

/// What an unmeasured run tells of a program: how often it runs in half a pair, and MiB to touch before each run.
pub struct Size {
    times: usize,
    touched: u64,
}

impl Size {
    /// From a run of all of the program's work. Of a way that does a share of it.
    pub fn of(finished: &Finished, share: f64) -> Size {
        let peak_mib = finished.sample.peak_kib as f64 / 1024.0;
        // What does less is slow under its profiler, and what does more is not short.
        let times = if share < 1.0 { 1.0 } else { LEAST_S / (cpu(finished) * share).max(1e-6) };
        Size {
            times: times.ceil().clamp(1.0, MOST) as usize,
            touched: (peak_mib * share.max(1.0) * TOUCHED.0 + TOUCHED.1) as u64,
        }
    }
}

/// The ratio of a figure with a profile to that without, over pairs. If whoever comes first takes twice as long, the
/// ratios of an even number of pairs are 2 and a half in turns, and their centre is 1.
pub fn ratio(pairs: &[Pair], figure: impl Fn(&Pair) -> [f64; 2]) -> Option<Ratio> {
    let of = |which: usize| pairs.iter().map(|it| figure(it)[which].max(1e-6)).collect::<Vec<_>>();
    stats::ratio(&of(1), &of(0))
}

/// Runs a program on an allocator, and with its profiler too: before, or after.
pub fn pair(
    way: &Way,
    program: &[String],
    size: &Size,
    profiled_first: bool,
    place: &Path,
) -> Result<Pair> {
    let mut pair = Pair::default();
    let times = size.times as f64;
    for time in 0..size.times {
        let first = profiled_first != (time % 2 == 1);
        for is_profiled in [first, !first] {
            touch(size.touched)?;
            let finished = finished(way, program, is_profiled, place)?;
            let i = usize::from(is_profiled);
            pair.cpu_s[i] += cpu(&finished) / times;
            pair.wall_s[i] += finished.sample.wall_s / times;
            pair.peak_kib[i] += finished.sample.peak_kib as f64 / times;
        }
    }
    Ok(pair)
}

/// Touches so many MiB. On a virtual machine the first to use memory that was long idle waits for the machine's host to
/// bring it back; whoever runs after this does not.
fn touch(mib: u64) -> Result<()> {
    let status = work::touch(mib)?.stdout(Stdio::null()).status()?;
    ensure!(status.success(), "memory cannot be touched: {status}");
    Ok(())
}

/// Runs a program on a way's allocator, with its profiler or without.
pub fn finished(
    way: &Way,
    program: &[String],
    is_profiled: bool,
    place: &Path,
) -> Result<Finished> {
    let finished = child::run(command(way, program, is_profiled, place), None, LIMIT)?;
    // The workloads say who serves them; a wrapper may bring an allocator of its own.
    let is_wrapped = is_profiled && !way.wrapper.is_empty();
    if !is_wrapped && let Ok(allocator) = finished.field("allocator") {
        way.arm.check(allocator)?;
    }
    Ok(finished)
}

fn command(way: &Way, program: &[String], is_profiled: bool, place: &Path) -> Command {
    let words: Vec<&String> = match is_profiled {
        // A profiler that is a Python itself takes the script alone.
        true if way.only.is_some() => way.wrapper.iter().chain(&program[1..]).collect(),
        true => way.wrapper.iter().chain(program).collect(),
        false => program.iter().collect(),
    };
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(place).stdin(Stdio::null());
    way.arm.apply(&mut command);
    if is_profiled {
        command.envs(way.environment.iter().copied());
    }
    command
}

/// The samples of a run whose time does not count, since it writes them down; none if nobody says how many there are.
/// Those of jemalloc lack what masu's profile tells of the program.
pub fn samples(way: &Way, program: &[String], place: &Path) -> Result<Option<Samples>> {
    let mut command = command(way, program, true, place);
    match way.counts {
        Counts::Nobody => Ok(None),
        Counts::Masu(rate) => {
            let file = place.join("samples.prof");
            command.env("MASU_PROF_FILE", &file);
            child::run(command, None, LIMIT)?;
            Samples::read(&file, rate).map(Some)
        }
        Counts::Jemalloc => {
            let options = way.environment.iter().find(|(name, _)| *name == MALLOC_CONF);
            let options = options.map_or("", |(_, options)| options);
            command.env(MALLOC_CONF, format!("{options},{JEMALLOC_COUNTS}"));
            child::run(command, None, LIMIT)?;
            let taken = samples::of_jemalloc(place)?;
            Ok(Some(Samples { taken, asked: f64::NAN, bytes: f64::NAN }))
        }
    }
}

/// A run's processor time in seconds.
pub fn cpu(finished: &Finished) -> f64 {
    finished.sample.user_s + finished.sample.system_s
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::Sample;

    #[test]
    fn who_comes_first_in_turns_does_not_make_a_profile_dear() {
        let pair = |base: f64, profiled: f64| Pair { cpu_s: [base, profiled], ..Pair::default() };
        let centre = |pairs: &[Pair]| ratio(pairs, |it| it.cpu_s).unwrap().centre;
        let first_is_dear = [pair(2.4, 1.0), pair(1.0, 2.4)];
        assert!((centre(&first_is_dear) - 1.0).abs() < 1e-9);
        assert!((centre(&[pair(1.0, 1.1), pair(1.0, 1.2), pair(1.0, 9.0)]) - 1.2).abs() < 1e-9);
    }

    #[test]
    fn a_short_program_runs_several_times_unless_its_profiler_is_slow() {
        let took = |user_s: f64| Finished {
            sample: Sample { user_s, peak_kib: 100 << 10, ..Sample::default() },
            said: String::new(),
        };
        assert_eq!((Size::of(&took(0.03), 1.0).times, Size::of(&took(0.03), 0.02).times), (4, 1));
        assert_eq!((Size::of(&took(1e-4), 1.0).times, Size::of(&took(0.0), 6.0).times), (20, 20));
        assert_eq!(Size::of(&took(2.0), 1.0).times, 1);
        assert_eq!(
            (Size::of(&took(2.0), 1.0).touched, Size::of(&took(2.0), 6.0).touched),
            (141, 766)
        );
    }
}

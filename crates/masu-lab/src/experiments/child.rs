//! A program that reads one file and writes another, run by the race's runner.
//!
//! The runner keeps what a child prints. These programs print megabytes that nobody reads, so just
//! before the program starts its standard output is led elsewhere, and what it says on standard
//! error takes the place that the runner keeps.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::race::Sample;
use crate::race::child::{self, Until};
use crate::race::watch::Watch;

/// A run that ended well.
pub struct Finished {
    /// What the kernel says of it; the peak is what the program said itself, if it did.
    pub sample: Sample,
    /// What it wrote to standard error, or to standard output if that was not led elsewhere.
    pub said: String,
}

impl Finished {
    /// The value behind `key` and a blank, on a line of its own.
    pub fn field(&self, key: &str) -> Result<&str> {
        let mut lines = self.said.lines();
        lines
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))
            .with_context(|| format!("the program did not say its `{key}`: {}", self.said.trim()))
    }
}

/// Runs `command` to its end. With `output`, standard output goes there and standard error is
/// what is kept.
pub fn run(command: Command, output: Option<OwnedFd>, limit: Duration) -> Result<Finished> {
    watched(command, output, limit, &Watch::default())
}

/// The same with the processor's counters: for what hardly switches between threads, and for runs
/// whose time does not count ([`crate::race::counters`]).
pub fn counted(command: Command, output: Option<OwnedFd>, limit: Duration) -> Result<Finished> {
    watched(command, output, limit, &Watch { counted: true, ..Watch::default() })
}

/// Runs what `command` makes, which is asked again for a run of its own if the counters are to count
/// too: threads that wait for each other would pay for them if they were timed with them.
pub fn timed(
    mut command: impl FnMut() -> Result<(Command, Option<OwnedFd>)>,
    limit: Duration,
    count: bool,
) -> Result<Finished> {
    let (timed, output) = command()?;
    let mut finished = run(timed, output, limit)?;
    if count {
        let (again, output) = command()?;
        finished.sample.take_counts(&counted(again, output, limit)?.sample);
    }
    Ok(finished)
}

fn watched(
    mut command: Command,
    output: Option<OwnedFd>,
    limit: Duration,
    watch: &Watch,
) -> Result<Finished> {
    if let Some(output) = output {
        let lead = move || {
            rustix::stdio::dup2_stderr(rustix::stdio::stdout())?;
            rustix::stdio::dup2_stdout(&output)?;
            Ok(())
        };
        // SAFETY: between fork and exec it only duplicates descriptors, which is safe there.
        unsafe { command.pre_exec(lead) };
    }
    let stop = AtomicBool::new(false);
    let mut finished = child::run(command, watch, Until { limit, stop: &stop })
        .map_err(|failure| anyhow::anyhow!("{failure}"))?;
    let said = read(&mut finished.output)?;
    ensure!(finished.status.success(), "{}: {}", finished.status, said.trim());
    let usage = finished.usage;
    let peak = said.lines().find_map(|line| line.strip_prefix("peak_kib ")?.parse().ok());
    let sample = Sample {
        wall_s: finished.wall.as_secs_f64(),
        user_s: usage.user.as_secs_f64(),
        system_s: usage.system.as_secs_f64(),
        peak_kib: peak.unwrap_or(usage.peak_kib),
        minor_faults: usage.minor_faults,
        user_cycles: usage.user_cycles,
        user_instructions: usage.user_instructions,
        voluntary_switches: usage.voluntary_switches,
        involuntary_switches: usage.involuntary_switches,
        ..Sample::default()
    };
    Ok(Finished { sample, said })
}

fn read(file: &mut File) -> Result<String> {
    use std::io::{Read, Seek};
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn the_output_goes_where_it_is_led_and_the_rest_is_kept() {
        let (mut place, file) = {
            let file = tempfile::tempfile().unwrap();
            (file.try_clone().unwrap(), file)
        };
        let script = "echo much; echo peak_kib 77 >&2; echo other x y >&2";
        let finished = run(shell(script), Some(file.into()), LONG).unwrap();
        assert_eq!(read(&mut place).unwrap(), "much\n");
        assert_eq!(finished.sample.peak_kib, 77);
        assert_eq!(finished.field("other").unwrap(), "x y");
        assert!(finished.field("missing").is_err());
    }

    #[test]
    fn what_is_counted_runs_once_more() {
        let place = tempfile::tempdir().unwrap();
        let runs = || std::fs::read_to_string(place.path().join("runs")).unwrap_or_default();
        let command = || {
            let mut command = shell("echo x >> runs; echo again $(wc -l < runs)");
            command.current_dir(place.path());
            Ok((command, None))
        };
        let finished = timed(command, LONG, false).unwrap();
        assert_eq!((runs().as_str(), finished.field("again").unwrap()), ("x\n", "1"));
        let finished = timed(command, LONG, true).unwrap();
        assert_eq!(runs(), "x\nx\nx\n");
        assert_eq!(finished.field("again").unwrap(), "2", "what was timed counts");
    }

    #[test]
    fn a_failure_is_one() {
        let error = run(shell("echo why; exit 3"), None, LONG).err().unwrap().to_string();
        assert!(error.contains("3") && error.contains("why"), "{error}");
        assert!(run(shell("sleep 60"), None, Duration::from_millis(200)).is_err());
    }
}

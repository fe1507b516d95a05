//! One workload on one allocator: run it, believe it only after checking.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::child;
use super::sample::{Failure, Sample};
use crate::{arm::Arm, work};

/// A run's figures and the result it printed.
#[derive(Debug)]
pub struct Checked {
    /// The figures.
    pub sample: Sample,
    /// What has to be the same on every allocator.
    pub result: String,
}

/// The command that runs `workload` in the measured program.
pub fn command(workload: &str, seed: u64, scale: f64) -> Result<Command> {
    let mut command = Command::new(work::binary()?);
    command.args(["run", workload, &seed.to_string(), &scale.to_string()]);
    Ok(command)
}

/// Runs a command that reports like the measured program does, on `arm`.
pub fn run(mut command: Command, arm: &Arm, limit: Duration) -> Result<Checked, Failure> {
    arm.apply(&mut command);
    let finished = child::run(command, limit)?;
    let field = |key: &str| {
        let mut lines = finished.output.lines();
        lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))
    };
    let reported = field("allocator").unwrap_or("nothing known");
    arm.check(reported).map_err(|error| Failure::WrongAllocator(error.to_string()))?;
    let number = |key: &str| field(key).and_then(|value| value.parse().ok());
    let result = field("checksum").ok_or_else(|| Failure::Differs("no checksum".into()))?;
    let usage = finished.usage;
    let sample = Sample {
        wall_s: finished.wall.as_secs_f64(),
        user_s: usage.user.as_secs_f64(),
        system_s: usage.system.as_secs_f64(),
        peak_kib: number("peak_kib").unwrap_or(usage.peak_kib),
        settled_kib: number("settled_kib"),
        minor_faults: usage.minor_faults,
        user_cycles: usage.user_cycles,
        user_instructions: usage.user_instructions,
        voluntary_switches: usage.voluntary_switches,
        involuntary_switches: usage.involuntary_switches,
    };
    Ok(Checked { sample, result: result.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        command
    }

    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn a_run_is_read_by_its_keys() {
        let text = "echo allocator /lib/libc.so.6; echo checksum 00ff; echo peak_kib 77";
        let checked = run(script(text), &Arm::glibc(), LIMIT).unwrap();
        assert_eq!(checked.result, "00ff");
        assert_eq!(checked.sample.peak_kib, 77);
        assert_eq!(checked.sample.settled_kib, None);
    }

    #[test]
    fn a_run_on_another_allocator_is_refused() {
        let text = "echo allocator /lib/libother.so; echo checksum 00ff";
        let failure = run(script(text), &Arm::glibc(), LIMIT).unwrap_err();
        assert!(matches!(failure, Failure::WrongAllocator(_)), "{failure}");
    }

    #[test]
    fn a_run_that_does_not_say_who_served_it_is_refused() {
        let failure = run(script("echo checksum 00ff"), &Arm::glibc(), LIMIT).unwrap_err();
        assert!(matches!(failure, Failure::WrongAllocator(_)), "{failure}");
    }

    #[test]
    fn a_run_without_a_result_is_refused() {
        let failure = run(script("echo allocator /lib/libc.so.6"), &Arm::glibc(), LIMIT);
        assert_eq!(failure.unwrap_err(), Failure::Differs("no checksum".into()));
    }
}

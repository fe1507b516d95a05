//! The race: every workload on every allocator, round by round.
//!
//! In each round every arm runs once, in an order that rotates and turns round, so that
//! no arm always follows the same one. The first arm is the subject; it and the system's
//! allocator take part twice, and what two entries of the same one differ by is noise.

pub mod child;
mod counters;
pub mod job;
pub mod machine;
pub mod results;
pub mod sample;

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use masu_workloads::Workload;

use crate::{arm::Arm, work};
use machine::Machine;
use results::{Entrant, Measured, Results, Run, SCHEMA};
pub use sample::{Failure, Sample};

/// What is to be raced.
pub struct Plan {
    /// The allocators: the subject first, then all others.
    pub arms: Vec<Arm>,
    /// The workloads.
    pub workloads: Vec<&'static Workload>,
    /// How often each pair runs.
    pub rounds: usize,
    /// Where random choices start.
    pub seed: u64,
    /// The factor on the amount of work.
    pub scale: f64,
    /// When a run is given up.
    pub limit: Duration,
    /// Whether the subject and the system's allocator take part twice, to show the noise.
    pub twins: bool,
    /// How much of the machine's memory to touch before the first run, in MiB.
    pub warm_mib: u64,
}

/// Runs the plan. `done` is told the workload, round and arm of each run before it starts.
pub fn run(plan: &Plan, mut done: impl FnMut(&str, usize, &str)) -> Result<Results> {
    ensure!(!plan.arms.is_empty(), "a race needs a subject");
    ensure!(plan.rounds > 0, "a race needs at least one round");
    let mut arms: Vec<(Arm, bool)> = plan.arms.iter().cloned().map(|arm| (arm, false)).collect();
    if plan.twins {
        arms.push((plan.arms[0].clone(), true));
        arms.push((Arm::glibc(), true));
    }
    let mut results = Results {
        schema: SCHEMA,
        date: now(),
        machine: Machine::here(),
        arms: arms.iter().map(|(arm, null)| Entrant::of(arm, *null)).collect(),
        rounds: plan.rounds,
        seed: plan.seed,
        scale: plan.scale,
        settings: settings(),
        workloads: Vec::new(),
    };
    warm_up(plan.warm_mib)?;
    for workload in &plan.workloads {
        let arms: Vec<&Arm> = arms.iter().map(|(arm, _)| arm).collect();
        let runs = measure(plan, workload, &arms, &mut done)?;
        results.workloads.push(Measured {
            name: workload.name.into(),
            about: workload.about.into(),
            sleeps: workload.sleeps,
            runs,
        });
    }
    Ok(results)
}

/// The time, in UTC, to the second.
pub fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The order of the arms in a round.
fn order(arms: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..arms).map(|place| (place + round / 2) % arms).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

fn measure(
    plan: &Plan,
    workload: &Workload,
    arms: &[&Arm],
    done: &mut impl FnMut(&str, usize, &str),
) -> Result<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    let mut printed = Vec::new();
    for round in 0..plan.rounds {
        for arm in order(arms.len(), round) {
            done(workload.name, round, &arms[arm].name);
            // A failed arm is out of this workload: a crash is a crash.
            if runs.iter().any(|run| run.arm == arm && run.outcome.is_err()) {
                continue;
            }
            let command = job::command(workload.name, plan.seed, plan.scale)?;
            let checked = job::run(command, arms[arm], plan.limit);
            printed.push(checked.as_ref().map(|run| run.result.clone()).ok());
            runs.push(Run { arm, round, outcome: checked.map(|run| run.sample) });
        }
    }
    let system = arms.iter().position(|arm| arm.library.is_none());
    refuse_different(&mut runs, &printed, system.unwrap_or(0));
    Ok(runs)
}

/// Turns runs that printed something else than the reference arm into failures.
fn refuse_different(runs: &mut [Run], printed: &[Option<String>], reference: usize) {
    let of_reference = runs.iter().zip(printed).filter(|(run, _)| run.arm == reference);
    let Some(expected) = of_reference.filter_map(|(_, printed)| printed.clone()).next() else {
        return;
    };
    for (run, printed) in runs.iter_mut().zip(printed) {
        if let Some(printed) = printed
            && *printed != expected
        {
            run.outcome = Err(Failure::Differs(format!("{printed} instead of {expected}")));
        }
    }
}

/// On a virtual machine the first touch of memory can be several times slower than any
/// later one, whoever touches it. A child of its own touches enough of it first.
fn warm_up(mib: u64) -> Result<()> {
    let mib = mib.min(Machine::available_kib() / 1024 / 2);
    let mut command = Command::new(work::binary()?);
    command.args(["touch", &mib.to_string()]);
    Arm::glibc().apply(&mut command);
    let outcome = child::run(command, Duration::from_secs(120));
    ensure!(outcome.is_ok(), "cannot touch {mib} MiB of memory before the race");
    Ok(())
}

/// The options of the subject that come from the environment.
fn settings() -> Vec<String> {
    let ours = |key: &str| key.starts_with("MASU_") && key != "MASU_LIB";
    let mut settings: Vec<String> = std::env::vars()
        .filter(|(key, _)| ours(key))
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    settings.sort();
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_runs_every_arm_once() {
        for round in 0..20 {
            let mut arms = order(7, round);
            arms.sort_unstable();
            assert_eq!(arms, [0, 1, 2, 3, 4, 5, 6]);
        }
    }

    #[test]
    fn no_arm_always_follows_the_same_one() {
        let before_three = |round| {
            let order = order(5, round);
            let place = order.iter().position(|&arm| arm == 3).unwrap();
            (place > 0).then(|| order[place - 1])
        };
        let mut seen: Vec<_> = (0..10).map(before_three).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [None, Some(2), Some(4)]);
    }

    #[test]
    fn a_run_that_prints_another_result_is_a_failure() {
        let sample = Sample {
            wall_s: 1.0,
            user_s: 1.0,
            system_s: 0.0,
            peak_kib: 1,
            settled_kib: None,
            minor_faults: 1,
            user_cycles: None,
            user_instructions: None,
            voluntary_switches: 0,
            involuntary_switches: 0,
        };
        let run = |arm| Run { arm, round: 0, outcome: Ok(sample.clone()) };
        let mut runs = [run(0), run(1), run(2)];
        let printed = [Some("bad".into()), Some("good".into()), Some("good".into())];
        refuse_different(&mut runs, &printed, 2);
        assert!(matches!(runs[0].outcome, Err(Failure::Differs(_))));
        assert!(runs[1].outcome.is_ok() && runs[2].outcome.is_ok());
    }
}

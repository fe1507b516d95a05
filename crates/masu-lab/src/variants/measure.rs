//! Runs of one variant.

use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use masu_bench::work;
use serde::{Deserialize, Serialize};

use super::kinds::Variant;
use crate::arm::Arm;
use crate::memory::interrupt;
use crate::race::child::{self, Until};
use crate::race::watch::Watch;
use crate::stats::median;

/// The longest that a run may take.
const LIMIT: Duration = Duration::from_secs(30);

/// A run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Processor time of all its threads, in milliseconds.
    pub processor_ms: f64,
    /// The most memory that was ever resident, in KiB.
    pub peak_kib: u64,
}

/// A variant's runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measured {
    /// The variant.
    pub variant: Variant,
    /// For each allocator its runs.
    pub runs: Vec<Vec<Figures>>,
    /// What it computed, which must be the same everywhere.
    pub checksum: Option<String>,
    /// Whose run failed, and how; once for each allocator.
    pub failures: Vec<(usize, String)>,
}

impl Measured {
    /// Nothing yet.
    pub fn nothing(variant: Variant, allocators: usize) -> Self {
        Measured {
            variant,
            runs: vec![Vec::new(); allocators],
            checksum: None,
            failures: Vec::new(),
        }
    }

    /// Whether there is something of every allocator, if only a failure.
    pub fn is_complete(&self) -> bool {
        let failed = |number: usize| self.failures.iter().any(|(other, _)| *other == number);
        self.runs.iter().enumerate().all(|(number, runs)| !runs.is_empty() || failed(number))
    }

    /// Runs it once on an allocator.
    pub fn run(&mut self, number: usize, arm: &Arm, scale: f64) -> Result<()> {
        interrupt::check()?;
        if self.failures.iter().any(|(other, _)| *other == number) {
            return Ok(());
        }
        match once(&self.variant, arm, scale) {
            Ok((figures, checksum)) => {
                match self.checksum.get_or_insert_with(|| checksum.clone()) {
                    expected if *expected == checksum => self.runs[number].push(figures),
                    expected => {
                        let how = format!("computed {checksum} instead of {expected}");
                        self.failures.push((number, how));
                    }
                }
            }
            Err(error) => self.failures.push((number, format!("{error:#}"))),
        }
        Ok(())
    }

    /// The median of a figure, for an allocator that has not failed.
    pub fn of(&self, number: usize, figure: fn(&Figures) -> f64) -> Option<f64> {
        let failed = self.failures.iter().any(|(other, _)| *other == number);
        let values: Vec<_> = self.runs[number].iter().map(figure).collect();
        if failed { None } else { median(&values) }
    }
}

fn once(variant: &Variant, arm: &Arm, scale: f64) -> Result<(Figures, String)> {
    let mut command = Command::new(work::binary()?);
    command.args(["run", &variant.workload, &variant.seed.to_string()]);
    command.arg((variant.scale * scale).to_string()).args(&variant.words).stdin(Stdio::null());
    arm.apply(&mut command);
    let stop = AtomicBool::new(false);
    let run = child::run(command, &Watch::default(), Until { limit: LIMIT, stop: &stop });
    let mut finished = run.map_err(|failure| anyhow::anyhow!("{failure}"))?;
    if let Some(failure) = finished.unexpected(ExitStatus::default()) {
        bail!("{failure}");
    }
    let text = finished.text();
    let line = |key: &str| {
        let mut lines = text.lines();
        lines
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))
            .with_context(|| format!("masu-work did not say its `{key}`"))
    };
    arm.check(line("allocator")?)?;
    ensure!(line("mapped")? == "yes", "the kernel does not list the allocator as mapped");
    let used = finished.usage.user + finished.usage.system;
    let figures =
        Figures { processor_ms: used.as_secs_f64() * 1e3, peak_kib: line("peak_kib")?.parse()? };
    Ok((figures, line("checksum")?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variants::kinds;

    fn figures(processor_ms: f64) -> Figures {
        Figures { processor_ms, peak_kib: 1000 }
    }

    #[test]
    fn medians_are_of_the_runs_and_a_failure_has_none() {
        let variant = Variant::of(&kinds::ALL[0], 1);
        let mut one = Measured::nothing(variant, 2);
        assert!(!one.is_complete());
        one.runs[0] = [3.0, 1.0, 2.0].map(figures).to_vec();
        assert_eq!(one.of(0, |one| one.processor_ms), Some(2.0));
        assert_eq!(one.of(1, |one| one.processor_ms), None);
        one.runs[1] = vec![figures(5.0)];
        one.failures.push((1, "it crashed".into()));
        assert!(one.is_complete());
        assert_eq!(one.of(1, |one| one.processor_ms), None);
    }

    #[test]
    fn a_variant_runs_and_its_allocator_is_checked() {
        work::ready().unwrap();
        let kind = kinds::ALL.iter().find(|kind| kind.name == "churn").unwrap();
        let mut one = Measured::nothing(Variant::of(kind, 1), 2);
        one.run(0, &Arm::glibc(), 0.05).unwrap();
        let wrong = Arm::preloading("x", "", "/nonexistent/libx.so".into());
        one.run(1, &wrong, 0.05).unwrap();
        assert_eq!(one.runs[0].len(), 1, "{one:?}");
        assert!(one.runs[0][0].processor_ms > 0.0 && one.runs[0][0].peak_kib > 500);
        assert!(one.is_complete() && one.of(1, |one| one.processor_ms).is_none(), "{one:?}");
        assert!(one.failures[0].1.contains("libx.so"), "{one:?}");
    }
}

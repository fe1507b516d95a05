//! What is measured: a built-in workload or anybody's command. How a run of it is started, and
//! whether it is to be believed.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use masu_workloads::{Workload, latency};
use tempfile::TempDir;

use super::child::{self, Until};
use super::output;
use super::results::Work;
use super::sample::{Failure, Sample};
use super::watch::{Seen, Watch};
use crate::arm::{Arm, place_of};

/// One thing that is measured.
#[derive(Debug, Clone)]
pub struct Task {
    /// What tables call it.
    pub name: String,
    /// What it imitates; for a command, the command.
    pub about: String,
    /// True if its wall time says nothing.
    pub sleeps: bool,
    /// How it is started and believed.
    pub kind: Kind,
    /// Where its input is, if that was made for it: there as long as the task is.
    pub place: Option<Arc<TempDir>>,
}

/// See [`Task::kind`].
#[derive(Debug, Clone)]
pub enum Kind {
    /// A workload of `masu-work`, which reports about itself.
    Work(Work),
    /// A command that knows nothing of being measured.
    Command(Foreign),
}

/// A command that knows nothing of being measured.
#[derive(Debug, Clone)]
pub struct Foreign {
    /// The file to execute.
    pub program: PathBuf,
    /// Its arguments, its name for itself first.
    pub arguments: Vec<OsString>,
    /// What it reads on standard input; otherwise nothing.
    pub input: Option<PathBuf>,
    /// Whether any exit status or signal will do, as long as it is the same everywhere.
    pub any_status: bool,
}

/// A run that can be believed, except for what it printed.
#[derive(Debug)]
pub struct Checked {
    /// The figures.
    pub sample: Sample,
    /// What has to be the same on every allocator.
    pub printed: Printed,
    /// Memory over time, if it was watched.
    pub curve: Vec<(f64, u64)>,
    /// How long single operations took, if that was asked for and the program wrote it.
    pub latencies: Option<Histogram<u64>>,
}

/// What a run printed and how it ended.
#[derive(Debug)]
pub struct Printed {
    status: ExitStatus,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Checksum(String),
    File(File),
}

impl Printed {
    /// The status it ended with.
    pub fn status(&self) -> ExitStatus {
        self.status
    }

    /// How this one differs from what was `expected`, if it does.
    pub fn difference(&self, expected: &Printed) -> Option<String> {
        match (&self.content, &expected.content) {
            (Content::Checksum(mine), Content::Checksum(other)) => {
                (mine != other).then(|| format!("{mine} instead of {other}"))
            }
            (Content::File(mine), Content::File(other)) => output::difference(mine, other),
            _ => Some("a checksum instead of a text".into()),
        }
    }
}

/// What is looked at beside the time. All of it costs some.
#[derive(Debug, Clone, Copy, Default)]
pub struct Look<'l> {
    /// Whether memory is recorded over time.
    pub memory: bool,
    /// Whether the processor counts cycles and instructions.
    pub counters: bool,
    /// Where the program should write how long single operations took.
    pub latency: Option<&'l Path>,
}

/// The conditions of one run.
#[derive(Clone, Copy)]
pub struct Conditions<'c> {
    /// When it is given up.
    pub until: Until<'c>,
    /// The status it has to end with; none if that is not known yet.
    pub status: Option<ExitStatus>,
    /// Objects that must not be loaded: the other arms'.
    pub others: &'c [PathBuf],
    /// What is looked at beside the time.
    pub look: Look<'c>,
}

impl Task {
    /// A built-in workload.
    pub fn workload(workload: &Workload, seed: u64, scale: f64) -> Self {
        Task {
            name: workload.name.into(),
            about: workload.about.into(),
            sleeps: workload.sleeps,
            kind: Kind::Work(Work { seed, scale }),
            place: None,
        }
    }

    /// A command.
    pub fn command(name: &str, command: Foreign) -> Self {
        let words: Vec<_> = command.arguments.iter().map(|word| word.to_string_lossy()).collect();
        let about = words.join(" ");
        let kind = Kind::Command(command);
        Task { name: name.into(), about, sleeps: false, kind, place: None }
    }

    /// The status that its runs end with, where it is known from the start.
    pub fn status(&self) -> Option<ExitStatus> {
        match &self.kind {
            Kind::Command(command) if command.any_status => None,
            _ => Some(ExitStatus::default()),
        }
    }

    /// Runs it once on `arm`.
    pub fn run(&self, arm: &Arm, conditions: Conditions) -> Result<Checked, Failure> {
        let failed = |error: anyhow::Error| Failure::Start { reason: format!("{error:#}") };
        let report = tempfile::NamedTempFile::new().map_err(|error| failed(error.into()))?;
        let mut command = self.start(arm, report.path()).map_err(failed)?;
        match conditions.look.latency {
            Some(path) => command.env(latency::VARIABLE, path),
            None => command.env_remove(latency::VARIABLE),
        };
        // What is preloaded comes first whatever else is loaded; the system's malloc comes last.
        let others = if arm.library.is_none() { conditions.others } else { &[] };
        let watch = Watch {
            expected: arm.library.clone(),
            forbidden: others.to_vec(),
            memory: conditions.look.memory,
            counted: conditions.look.counters,
            launched: matches!(self.kind, Kind::Command(_)),
        };
        let mut finished = child::run(command, &watch, conditions.until)?;
        if watch.launched && !finished.take_account(report.path()) {
            let reason = finished.last_words();
            return Err(Failure::Start { reason });
        }
        let status = finished.status;
        if let Some(failure) = finished.unexpected(conditions.status.unwrap_or(status)) {
            return Err(failure);
        }
        refute(arm, &finished.seen)?;
        let usage = finished.usage;
        let mut sample = Sample {
            // To the microsecond, as the kernel's own figures are.
            wall_s: finished.wall.as_micros() as f64 / 1e6,
            user_s: usage.user.as_secs_f64(),
            system_s: usage.system.as_secs_f64(),
            peak_kib: usage.peak_kib,
            settled_kib: None,
            minor_faults: usage.minor_faults,
            user_cycles: usage.user_cycles,
            user_instructions: usage.user_instructions,
            voluntary_switches: usage.voluntary_switches,
            involuntary_switches: usage.involuntary_switches,
            proven: finished.seen.proven,
        };
        let curve = std::mem::take(&mut finished.seen.curve);
        let content = match &self.kind {
            Kind::Command(_) => Content::File(finished.output),
            Kind::Work(_) => Content::Checksum(own_report(&finished.text(), arm, &mut sample)?),
        };
        let latencies = match conditions.look.latency {
            Some(path) => super::latency::read(path)
                .map_err(|error| Failure::Latencies { reason: error.to_string() })?,
            None => None,
        };
        Ok(Checked { sample, printed: Printed { status, content }, curve, latencies })
    }

    /// The command that runs it on `arm`; who launches another program writes to `report`.
    fn start(&self, arm: &Arm, report: &Path) -> Result<Command> {
        ensure!(
            !arm.linked || matches!(self.kind, Kind::Work(_)),
            "{} is linked into the workloads and cannot serve another program",
            arm.name
        );
        let mut command = Command::new(arm.work()?);
        arm.apply(&mut command);
        match &self.kind {
            Kind::Work(Work { seed, scale }) => {
                command.args(["run", &self.name, &seed.to_string(), &scale.to_string()]);
                command.stdin(Stdio::null());
            }
            Kind::Command(foreign) => {
                command.env_remove("LD_PRELOAD").arg("launch").arg(report);
                command.arg(arm.library.clone().unwrap_or_default());
                command.arg(&foreign.program).args(&foreign.arguments);
                command.stdin(foreign.standard_input()?);
            }
        }
        Ok(command)
    }
}

impl Foreign {
    /// Its standard input, read from the start.
    pub fn standard_input(&self) -> Result<Stdio> {
        match &self.input {
            Some(path) => Ok(File::open(path)
                .with_context(|| format!("cannot read {}", path.display()))?
                .into()),
            None => Ok(Stdio::null()),
        }
    }
}

/// Refuses a run that was seen on another allocator, or never on the right one.
fn refute(arm: &Arm, seen: &Seen) -> Result<(), Failure> {
    /// Looks that may come too early to see what the dynamic loader is about to map.
    const EARLY: u32 = 3;
    let reason = match (&seen.wrong, &arm.library) {
        (Some(wrong), _) => format!("{} is loaded", place_of(wrong)),
        (None, Some(library)) if !seen.proven && seen.in_vain > EARLY => {
            format!("{} was never loaded", place_of(library))
        }
        _ => return Ok(()),
    };
    Err(Failure::WrongAllocator { reason })
}

/// Reads what a workload says about itself into the sample; its checksum.
pub(super) fn own_report(text: &str, arm: &Arm, sample: &mut Sample) -> Result<String, Failure> {
    let field = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    let reported = field("allocator").unwrap_or("nothing known");
    let wrong = |error: anyhow::Error| Failure::WrongAllocator { reason: error.to_string() };
    arm.check(reported).map_err(wrong)?;
    // The dynamic linker's word and the kernel's: the object named is one of its mappings.
    sample.proven |= field("mapped") == Some("yes");
    let number = |key: &str| field(key).and_then(|value| value.parse().ok());
    sample.peak_kib = number("peak_kib").unwrap_or(sample.peak_kib);
    sample.settled_kib = number("settled_kib");
    let checksum =
        field("checksum").ok_or_else(|| Failure::Differs { how: "no checksum".into() })?;
    Ok(checksum.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(text: &str) -> Result<(String, Sample), Failure> {
        let mut sample = Sample { peak_kib: 5, ..Sample::default() };
        own_report(text, &Arm::glibc(), &mut sample).map(|checksum| (checksum, sample))
    }

    #[test]
    fn a_report_is_read_by_its_keys() {
        let text = "allocator /lib/libc.so.6\nmapped yes\nchecksum 00ff\npeak_kib 77\n";
        let (checksum, sample) = report(text).unwrap();
        assert_eq!((checksum.as_str(), sample.peak_kib), ("00ff", 77));
        assert!(sample.proven && sample.settled_kib.is_none());
    }

    #[test]
    fn a_run_on_another_allocator_is_refused() {
        let failure = report("allocator /lib/libother.so\nchecksum 00ff").unwrap_err();
        assert!(matches!(failure, Failure::WrongAllocator { .. }), "{failure}");
    }

    #[test]
    fn a_linked_arm_runs_its_own_program_and_only_workloads() {
        let arm = Arm::linked("x", "", "/programs/masu-work-x".into());
        let churn = Task::workload(masu_workloads::named("churn").unwrap(), 1, 1.0);
        let command = churn.start(&arm, Path::new("report")).unwrap();
        assert_eq!(command.get_program(), "/programs/masu-work-x");
        let preloads =
            |(key, value): (&std::ffi::OsStr, Option<_>)| key == "LD_PRELOAD" && value.is_some();
        assert!(!command.get_envs().any(preloads));
        assert!(arm.check("/lib/libc.so.6").is_ok(), "C's functions are not asked");
        let foreign = Foreign {
            program: "/bin/true".into(),
            arguments: vec!["true".into()],
            input: None,
            any_status: false,
        };
        let error = Task::command("true", foreign).start(&arm, Path::new("report")).unwrap_err();
        assert!(error.to_string().contains("cannot serve another program"), "{error}");
    }

    #[test]
    fn a_run_that_does_not_say_who_served_it_is_refused() {
        let failure = report("checksum 00ff").unwrap_err();
        assert!(matches!(failure, Failure::WrongAllocator { .. }), "{failure}");
    }

    #[test]
    fn a_run_without_a_result_is_refused() {
        let failure = report("allocator /lib/libc.so.6").unwrap_err();
        assert_eq!(failure, Failure::Differs { how: "no checksum".into() });
    }

    #[test]
    fn looks_from_outside_refute() {
        let arm = Arm::preloading("x", "", "/lib/libx.so".into());
        assert!(refute(&arm, &Seen { proven: true, ..Seen::default() }).is_ok());
        assert!(refute(&arm, &Seen { in_vain: 1, ..Seen::default() }).is_ok(), "too short to tell");
        assert!(refute(&arm, &Seen { in_vain: 9, ..Seen::default() }).is_err());
        let wrong = Some("/lib/liby.so".into());
        assert!(refute(&arm, &Seen { proven: true, wrong, ..Seen::default() }).is_err());
    }
}

//! Suites: names for what is measured together.

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::{Context, Result};
use masu_workloads::programs::{self, Program};
use masu_workloads::{Workload, named};

use crate::race::results::Absent;
use crate::race::{Foreign, Task};

/// The suites, each with what it is.
pub const SUITES: [(&str, &str); 4] = [
    ("quick", "the workloads that do not sleep, each for a twentieth of a second or a little more"),
    ("workloads", "all workloads"),
    ("programs", "real programs"),
    ("full", "workloads and programs"),
];

/// What is to be measured.
#[derive(Debug)]
pub struct Suite {
    /// In the order of the lists; each once.
    pub tasks: Vec<Task>,
    /// Programs that are not installed.
    pub absent: Vec<Absent>,
    /// Whether `quick` was among the names, so that all of it has less to do.
    pub quick: bool,
}

/// A name that is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown(pub String);

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "there is no suite, workload or program called `{}`", self.0)
    }
}

impl std::error::Error for Unknown {}

/// Every name there is.
pub fn all_names() -> impl Iterator<Item = &'static str> {
    let suites = SUITES.iter().map(|(name, _)| *name);
    let workloads = masu_workloads::ALL.iter().map(|workload| workload.name);
    suites.chain(workloads).chain(programs::ALL.iter().map(|program| program.name))
}

/// Every name there is, for messages.
pub fn names() -> String {
    let suites: Vec<_> = SUITES.iter().map(|(name, _)| *name).collect();
    let workloads: Vec<_> = masu_workloads::ALL.iter().map(|workload| workload.name).collect();
    let programs: Vec<_> = programs::ALL.iter().map(|program| program.name).collect();
    format!(
        "suites: {}; workloads: {}; programs: {}",
        suites.join(", "),
        workloads.join(", "),
        programs.join(", ")
    )
}

/// What some names stand for. The order counts for nothing.
#[derive(Debug, Default)]
pub struct Choice {
    workloads: Vec<&'static Workload>,
    programs: Vec<&'static Program>,
    quick: bool,
}

impl Choice {
    /// Reads names of suites, workloads and programs.
    ///
    /// # Errors
    ///
    /// The first name that is unknown.
    pub fn of(wanted: &[String]) -> Result<Self, Unknown> {
        let mut choice = Choice::default();
        for name in wanted {
            choice.add(name)?;
        }
        let mut seen = HashSet::new();
        choice.workloads.retain(|workload| seen.insert(workload.name));
        choice.programs.retain(|program| seen.insert(program.name));
        Ok(choice)
    }

    fn add(&mut self, name: &str) -> Result<(), Unknown> {
        match name {
            "quick" => {
                self.quick = true;
                // Who only sleeps takes as long however little there is to do.
                let busy = masu_workloads::ALL.iter().filter(|workload| !workload.sleeps);
                self.workloads.extend(busy);
            }
            "workloads" => self.workloads.extend(masu_workloads::ALL),
            "programs" => self.programs.extend(programs::ALL),
            "full" => {
                self.workloads.extend(masu_workloads::ALL);
                self.programs.extend(programs::ALL);
            }
            _ => match (named(name), programs::named(name)) {
                (Some(workload), _) => self.workloads.push(workload),
                (None, Some(program)) => self.programs.push(program),
                (None, None) => return Err(Unknown(name.into())),
            },
        }
        Ok(())
    }

    /// Makes the programs' input and everything ready to be run. `scale` is a factor on the
    /// workloads' work; without one each has a little of its own ([`Workload::brief`]). What
    /// programs do is fixed.
    ///
    /// # Errors
    ///
    /// A program's input cannot be made.
    pub fn prepare(self, seed: u64, scale: Option<f64>) -> Result<Suite> {
        let ready =
            |workload: &&Workload| Task::workload(workload, seed, scale.unwrap_or(workload.brief));
        let mut tasks: Vec<Task> = self.workloads.iter().map(ready).collect();
        let mut absent = Vec::new();
        for program in self.programs {
            match program.missing() {
                Some(missing) => absent.push(Absent {
                    name: program.name.into(),
                    reason: format!("{missing} is not installed"),
                }),
                None => tasks.push(prepared(program)?),
            }
        }
        Ok(Suite { tasks, absent, quick: self.quick })
    }
}

/// A program with its input, which goes when the task does.
fn prepared(program: &Program) -> Result<Task> {
    let place = tempfile::Builder::new().prefix("masu-bench-").tempdir()?;
    let ready = program
        .prepare(place.path())
        .with_context(|| format!("the program {} cannot be prepared", program.name))?;
    let foreign = Foreign {
        program: ready.program,
        arguments: ready.arguments,
        input: None,
        any_status: false,
    };
    let task = Task::command(program.name, foreign);
    Ok(Task { about: program.about.into(), place: Some(Arc::new(place)), ..task })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::task::Kind;

    fn choice(names: &[&str]) -> Result<Choice, Unknown> {
        Choice::of(&names.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn suites_are_made_of_workloads_and_programs() {
        let all = choice(&["full", "quick", "churn", "python"]).unwrap();
        assert_eq!(all.workloads.len(), masu_workloads::ALL.len(), "each once");
        assert_eq!(all.programs.len(), programs::ALL.len());
        assert!(choice(&["quick"]).unwrap().workloads.iter().all(|workload| !workload.sleeps));
        assert_eq!(choice(&["nonsense"]).unwrap_err(), Unknown("nonsense".into()));
        assert!(all_names().all(|name| choice(&[name]).is_ok()));
        let names = names();
        assert!(SUITES.iter().all(|(name, _)| names.contains(name)), "{names}");
    }

    #[test]
    fn a_workload_has_its_own_scale_or_everybodys() {
        let scales = |scale: Option<f64>| {
            let suite = choice(&["churn", "cfrac"]).unwrap().prepare(3, scale).unwrap();
            let of = |task: &Task| match task.kind {
                Kind::Work(work) => work.scale,
                Kind::Command(_) => unreachable!("both are workloads"),
            };
            suite.tasks.iter().map(of).collect::<Vec<_>>()
        };
        let own = |name| named(name).unwrap().brief;
        assert_eq!(scales(None), [own("churn"), own("cfrac")]);
        assert_ne!(own("churn"), own("cfrac"), "as each has its own");
        assert_eq!(scales(Some(0.5)), [0.5, 0.5]);
    }

    #[test]
    fn a_programs_input_goes_with_its_task() {
        let suite = choice(&["bash"]).unwrap().prepare(1, None).unwrap();
        assert!(suite.absent.is_empty(), "every system that builds this has bash");
        let task = &suite.tasks[0];
        assert!(!task.about.contains('/'), "results are told nothing of the place");
        let place = task.place.as_ref().unwrap().path().to_path_buf();
        assert!(place.join("bash.sh").is_file());
        drop(suite);
        assert!(!place.exists());
    }
}

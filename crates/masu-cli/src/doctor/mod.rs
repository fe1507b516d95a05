//! `masu doctor`: does masu take effect here, and is anything in its way?
//!
//! ```text
//! run ─ target     a command: its file (crate::obstacle), then its dynamic loader (loader)
//!   ├─ process     a process that runs: its files (mapped), its systemd unit (unit)
//!   │    └─ serving    whose malloc comes first among a program's files
//!   ├─ all         --all: every process, in a table
//!   ├─ trial       --run: a command, started
//!   ├─ library     libmasu.so: found where, mappable, open to all
//!   ├─ settings    options, by the engine's own reading
//!   ├─ ground      kernel, memory, limits, container, under a root directory (root)
//!   └─ report      JSON; text for people
//! ```
//!
//! Each check returns facts, for programs, and findings, for people: a sentence, its severity, and
//! the remedy. Nothing is changed, and no program except the loader is run, unless `--run` says so.

mod all;
mod finding;
mod ground;
mod library;
mod loader;
mod mapped;
mod masu;
pub mod order;
mod process;
mod report;
mod root;
mod serving;
mod settings;
mod target;
mod text;
mod trial;
mod unit;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::env;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

use crate::columns;
use crate::failure::{Failure, USAGE};
use crate::library::Library;
use crate::obstacle;
use crate::schemas;
use crate::standard::{print, print_styled};
use all::All;
use finding::{Finding, Severity};
use ground::Ground;
use order::Order;
use report::Report;
use root::Root;
use target::Outlook;
use text::Amount;

/// No problems.
const SOUND: u8 = 0;
/// masu takes no effect, or there is a problem.
const PROBLEM: u8 = 1;

/// Columns if the output is not a terminal.
const COLUMNS: usize = 100;

/// Carries out `order` and returns the exit code.
pub fn run(order: &Order) -> Result<u8, Failure> {
    if order.schema {
        print(if order.all { schemas::DOCTOR_ALL } else { schemas::DOCTOR })?;
        return Ok(SOUND);
    }
    if order.all {
        let all = All::read(order.root.as_deref())?;
        print_styled(&if order.json {
            all.json()
        } else {
            columns::fit(&all::render(&all, width()))
        })?;
        return Ok(if all.is_a_problem() { PROBLEM } else { SOUND });
    }
    match &order.process {
        Some(processes) => look_at(order, processes),
        None => tell(order, &examine(order, None)?, Amount::All),
    }
}

/// Writes one report for each process. A missing process does not prevent the reports on the
/// others.
fn look_at(order: &Order, processes: &[u32]) -> Result<u8, Failure> {
    if processes.is_empty() {
        let failure = Failure::new(USAGE, "-p needs the id of a process");
        return Err(failure.remedy("pidof and pgrep print nothing if no process has the name"));
    }
    let (mut code, mut seen) = (SOUND, BTreeSet::new());
    let mut amount = Amount::All;
    for &process in processes.iter().filter(|&&process| seen.insert(process)) {
        let told = examine(order, Some(process)).and_then(|report| tell(order, &report, amount));
        if told.is_ok() {
            amount = Amount::Further;
        }
        code = code.max(match told {
            Ok(code) => code,
            Err(failure) => failure.tell(),
        });
    }
    Ok(code)
}

/// Prints the report and returns its exit code.
fn tell(order: &Order, report: &Report, amount: Amount) -> Result<u8, Failure> {
    let text = match order.json {
        true => report.json(),
        false => columns::fit(&text::render(report, width(), amount)),
    };
    print_styled(&text)?;
    Ok(if report.worst == Severity::Problem { PROBLEM } else { SOUND })
}

fn examine(order: &Order, id: Option<u32>) -> Result<Report, Failure> {
    let root = Root::new(order.root.as_deref(), id);
    let ground = Ground::read(&root);
    let mut findings = Vec::new();
    let library = find_library(order, &root, &mut findings)?;
    let (mut program, mut process, mut outlook) = (None, None, Outlook::Found);

    if let (false, Some(library)) = (order.command.is_empty(), &library) {
        let (facts, found, expected) = target::look(&order.command, library)?;
        program = Some(facts);
        findings.extend(found);
        outlook = expected;
        if order.run {
            let (seen, came) = trial::run(&order.command, library);
            // A trial run outweighs knowledge about other programs, and ignorance.
            if outlook == Outlook::Unknown || seen.severity == Severity::Ok {
                let outweighed = [obstacle::EXTENSIONS, obstacle::READABLE];
                findings.retain(|finding| !outweighed.contains(&finding.id));
                outlook = came;
            } else if came == Outlook::Crash {
                outlook = came;
            }
            findings.push(seen);
        }
        if outlook == Outlook::Crash {
            // Nobody should follow the advice to preload it.
            let advises = |finding: &Finding| {
                finding.id == target::PRELOAD && finding.severity == Severity::Note
            };
            findings.retain(|finding| !advises(finding));
        }
    }
    if let Some(id) = id {
        let (facts, found) = process::look(id, &root, library.as_ref(), ground.mappings())?;
        process = Some(facts);
        findings.extend(found);
    } else if root.is_live() {
        findings.extend(settings::mistakes(&own_variables()));
    }
    findings.extend(ground.findings(id.is_none() && root.is_live()));
    findings.sort_by_key(|finding| Reverse(finding.severity));

    let worst = findings.first().map_or(Severity::Ok, |finding| finding.severity);
    let about = order.command.first().map(|name| name.to_string_lossy().into_owned());
    let about = program.as_ref().map(|program| program.name.clone()).or(about);
    let about = process.as_ref().map(process_name).or(about);
    let known = about.as_ref().filter(|_| outlook != Outlook::Unknown);
    let effect = known.map(|_| !findings.iter().any(prevents));
    let tense = match (&process, &program) {
        (Some(_), _) => Tense::Runs,
        (None, Some(program)) if program.preloaded || program.runs_on_masu() => Tense::Is,
        (None, _) => Tense::Would,
    };
    let headline = match (outlook, &about) {
        (Outlook::Crash, Some(name)) if matches!(tense, Tense::Would) => {
            format!("`{name}` would crash on masu.")
        }
        (Outlook::Crash, Some(name)) => format!("`{name}` crashes on masu."),
        (Outlook::Unknown, Some(name)) => {
            format!("It is not known whether masu would take effect in `{name}`.")
        }
        _ => headline(about.as_deref(), tense, effect, worst),
    };
    Ok(Report {
        schema: report::SCHEMA,
        version: report::VERSION,
        effect,
        headline,
        worst,
        library: library.map(|library| library.path.display().to_string()),
        program,
        process,
        ground,
        findings,
    })
}

/// Finds the library, if it exists; a running process does not need it.
fn find_library(
    order: &Order,
    root: &Root,
    findings: &mut Vec<Finding>,
) -> Result<Option<Library>, Failure> {
    match crate::library::find(order.lib.as_deref()) {
        Ok(library) => {
            if order.process.is_none() {
                findings.extend(self::library::look(&library, root));
            }
            Ok(Some(library))
        }
        Err(failure) if failure.is_usage() => Err(failure),
        Err(_) if order.process.is_some() => Ok(None),
        Err(failure) => {
            findings.push(Finding::failure("library.file", failure));
            Ok(None)
        }
    }
}

fn process_name(process: &process::Process) -> String {
    format!("process {} ({})", process.id, process.name)
}

/// Whether a finding says that masu takes no effect.
fn prevents(finding: &Finding) -> bool {
    finding.severity == Severity::Problem
        && matches!(finding.area(), "program" | "process" | "library" | "environment")
        && finding.id != "process.mappings"
}

/// The subject of the headline.
enum Tense {
    /// A process.
    Runs,
    /// A command that contains masu, or for which LD_PRELOAD names it.
    Is,
    /// A command under `masu run`.
    Would,
}

fn headline(about: Option<&str>, tense: Tense, effect: Option<bool>, worst: Severity) -> String {
    let trouble = match worst {
        Severity::Problem => "there is a problem",
        Severity::Warning => "something could be improved",
        Severity::Ok | Severity::Note => "there are no problems",
    };
    let takes = if matches!(tense, Tense::Would) { "would take" } else { "takes" };
    match (about, effect, tense) {
        (Some(process), Some(true), Tense::Runs) => format!("masu serves {process}; {trouble}."),
        (Some(process), _, Tense::Runs) => format!("masu does not serve {process}."),
        (Some(name), Some(true), _) => format!("masu {takes} effect in `{name}`; {trouble}."),
        (Some(name), _, _) => format!("masu {takes} no effect in `{name}`."),
        (None, ..) if worst < Severity::Warning => "masu can work here.".to_owned(),
        (None, ..) => format!("masu can work here, but {trouble}."),
    }
}

/// Returns the environment that a program would inherit.
fn own_variables() -> Vec<CString> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
    };
    env::vars_os().filter_map(text).collect()
}

fn width() -> usize {
    columns::at_most(COLUMNS)
}

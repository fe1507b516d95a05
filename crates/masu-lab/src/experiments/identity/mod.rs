//! Whether `masu explain` accounts for every byte: ten real programs, at three moments each.
//!
//! Each program is started on masu, and read at its start, under load and at rest, as a user would read it: from
//! outside, while it goes on. The parts must add up to the RSS of `smaps_rollup`, and what is in motion counts as
//! missing: 1 % is allowed.
//!
//! ```text
//! programs ── what is started, and how it is brought to each moment
//!   ├─ scripts   interpreters and services, which say their moments themselves
//!   └─ servers   Redis, nginx, PostgreSQL, git, which their clients bring there
//! ```

mod running;
mod scripts;
mod servers;

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use masu_inspect::account::{self, Account, CLOSED, Kind};
use serde::Serialize;

use super::files::{Files, markdown};
use crate::paths;
use crate::race::{self, machine::Machine};

/// Options of the experiment.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Only these programs
    #[arg(long, value_delimiter = ',', value_name = "P,..")]
    only: Vec<String>,
    #[command(flatten)]
    files: Files,
}

/// A program.
struct Program {
    name: &'static str,
    /// What tells its version.
    version: &'static [&'static str],
    /// Brings it from moment to moment.
    run: fn(&mut Moments) -> Result<()>,
}

const PROGRAMS: [Program; 10] = [
    Program { name: "Ruby", version: &["ruby", "--version"], run: scripts::ruby },
    Program { name: "Python", version: &["python3", "--version"], run: scripts::python },
    Program { name: "Node", version: &["node", "--version"], run: scripts::node },
    Program { name: "Java", version: &["java", "-version"], run: scripts::java },
    Program { name: "Rust service", version: &["rustc", "--version"], run: scripts::rust },
    Program { name: "C++ service", version: &["c++", "--version"], run: scripts::cxx },
    Program { name: "git", version: &["git", "--version"], run: servers::git },
    Program { name: "Redis", version: &["redis-server", "--version"], run: servers::redis },
    Program { name: "nginx", version: &["/usr/sbin/nginx", "-v"], run: servers::nginx },
    Program { name: "PostgreSQL", version: &["pg_config", "--version"], run: servers::postgresql },
];

/// The names of the moments.
const START: &str = "start";
const LOAD: &str = "load";
const REST: &str = "rest";
/// How long a program is under load before it is read, and rests before it is.
const WHILE: Duration = Duration::from_millis(1500);

/// Where a program is brought to its moments.
struct Moments {
    /// A directory of its own.
    place: tempfile::TempDir,
    seen: Vec<(&'static str, Account)>,
}

impl Moments {
    /// Reads the process.
    fn read(&mut self, moment: &'static str, process: u32) -> Result<()> {
        if moment != START {
            sleep(WHILE);
        }
        let account =
            account::explain(process).map_err(|error| anyhow::anyhow!("{moment}: {error}"))?;
        self.seen.push((moment, account));
        Ok(())
    }

    fn place(&self) -> &Path {
        self.place.path()
    }
}

/// What was found.
#[derive(Debug, Serialize)]
struct Results {
    date: String,
    machine: Machine,
    rows: Vec<Row>,
    missing: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Row {
    program: String,
    version: String,
    moment: &'static str,
    account: Account,
}

/// Runs the experiment and writes `identity.md` and `identity.json`.
///
/// # Errors
/// A program cannot be started, or a sum is off by more than 1 %.
pub fn run(options: &Options) -> Result<()> {
    paths::build_masu_library()?;
    let is_asked_for = |program: &&Program| {
        let name = program.name.to_lowercase();
        options.only.is_empty()
            || options.only.iter().any(|only| name.contains(&only.to_lowercase()))
    };
    let mut results = Results {
        date: race::now(),
        machine: Machine::here(),
        rows: Vec::new(),
        missing: Vec::new(),
    };
    for program in PROGRAMS.iter().filter(is_asked_for) {
        let Some(version) = version(program.version) else {
            results.missing.push(program.name.to_owned());
            continue;
        };
        let mut moments = Moments { place: tempfile::tempdir()?, seen: Vec::new() };
        (program.run)(&mut moments).with_context(|| program.name)?;
        ensure!(moments.seen.len() == 3, "{} had {} moments", program.name, moments.seen.len());
        for (moment, account) in moments.seen {
            let row =
                Row { program: program.name.into(), version: version.clone(), moment, account };
            println!("{}", cells(&row).join("  "));
            results.rows.push(row);
        }
    }
    options.files.json("identity.json", &results)?;
    if options.only.is_empty() {
        options.files.text("identity.md", &page(&results))?;
    }
    let off: Vec<_> = results.rows.iter().filter(|row| row.account.error() > CLOSED).collect();
    ensure!(off.is_empty(), "{} sums are off by more than 1 %", off.len());
    ensure!(
        results.missing.is_empty(),
        "not installed: {}; crates/masu-lab/install-servers and tests/install-tools install them",
        results.missing.join(", ")
    );
    Ok(())
}

/// The first line in which a program says its version.
fn version(command: &[&str]) -> Option<String> {
    let (program, arguments) = command.split_first()?;
    let output = std::process::Command::new(program).args(arguments).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    number(String::from_utf8_lossy(&said).lines().next()?)
}

/// The first number in a line.
fn number(line: &str) -> Option<String> {
    let around = ['v', '"', ',', ')', '('];
    let mut words = line.split([' ', '/', '=']).map(|word| word.trim_matches(around));
    words.find(|word| word.starts_with(|c: char| c.is_ascii_digit())).map(str::to_owned)
}

const HEADER: [&str; 10] = [
    "program",
    "version",
    "moment",
    "RSS, MiB",
    "blocks",
    "free",
    "masu",
    "not masu's",
    "in motion, %",
    "sum off by, %",
];

fn cells(row: &Row) -> Vec<String> {
    let account = &row.account;
    let sum = |is: fn(Kind) -> bool| {
        let parts = account.parts.iter().filter(|part| is(part.kind));
        let bytes: i64 = parts.map(|part| part.bytes).sum();
        format!("{:.1}", bytes as f64 / 1024.0 / 1024.0)
    };
    let percent = |bytes: i64| format!("{:+.2}", bytes as f64 * 100.0 / account.rss.max(1) as f64);
    vec![
        row.program.clone(),
        row.version.clone(),
        row.moment.to_owned(),
        format!("{:.1}", account.rss as f64 / 1024.0 / 1024.0),
        sum(Kind::is_live),
        sum(|kind| kind.is_overhead() && !is_own(kind)),
        sum(is_own),
        sum(Kind::is_elsewhere),
        percent(account.bytes(Kind::InMotion)),
        percent(account.sum.cast_signed() - account.rss.cast_signed()),
    ]
}

/// Whether it is masu itself.
fn is_own(kind: Kind) -> bool {
    matches!(kind, Kind::Tables | Kind::Library | Kind::Profile | Kind::GuardRecords)
}

fn page(results: &Results) -> String {
    let rows: Vec<_> = results.rows.iter().map(cells).collect();
    let worst = results.rows.iter().map(|row| row.account.error()).fold(0.0, f64::max);
    let missing = match results.missing.is_empty() {
        true => String::new(),
        false => format!(" Not installed: {}.", results.missing.join(", ")),
    };
    format!(
        "# Every byte: `masu explain` in ten programs\n\n\
         Measured {} by `cargo run --release -p masu-lab -- identity`. {}.{missing}\n\n\
         Each program runs on masu {} and is read from outside at three moments: at its start, under load and at rest. \
         The parts, in MiB, must add up to the RSS of `smaps_rollup`; what moved while it was read counts as missing. \
         The worst of the {} is off by {:.2} %; 1 % is allowed.\n\n{}",
        results.date,
        results.machine,
        results.rows.first().map_or("", |row| &row.account.masu),
        results.rows.len(),
        worst * 100.0,
        markdown(&HEADER.map(str::to_owned), &rows),
    )
}

/// A command that runs on the library under test.
fn on_masu(program: impl AsRef<std::ffi::OsStr>) -> std::process::Command {
    let mut command = std::process::Command::new(program);
    command.env("LD_PRELOAD", paths::masu_library());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        for (line, version) in [
            ("ruby 3.1.7p261 (2025-03-26 revision 0a3704f218) [x86_64-linux-gnu]", "3.1.7p261"),
            ("v20.20.2", "20.20.2"),
            ("openjdk version \"17.0.15\" 2025-04-15", "17.0.15"),
            ("c++ (Debian 12.2.0-14+deb12u1) 12.2.0", "12.2.0-14+deb12u1"),
            ("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.2.1", "7.0.15"),
            ("nginx version: nginx/1.22.1", "1.22.1"),
        ] {
            assert_eq!(number(line).as_deref(), Some(version), "{line}");
        }
    }
}

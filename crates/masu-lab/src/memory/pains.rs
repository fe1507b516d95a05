//! What users of allocators complained of, measured on each: a matrix of numbers and verdicts.
//!
//! The programs are in `crates/masu-workloads/programs/pains`, where each has its limit; the tests run
//! the same ones on masu.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;

use super::allocator::Allocator;
use super::scenarios::compiled;
use crate::experiments::files::{Files, markdown};
use crate::paths;
use crate::race;
use crate::race::machine::Machine;

/// What is compared unless somebody asks for others.
const DEFAULT: &str = "masu,glibc,glibc-arenas2,jemalloc,mimalloc3,mimalloc2,tcmalloc,snmalloc";

/// Longest time for one pain on one allocator.
const PATIENCE: Duration = Duration::from_secs(90);

/// Options of the matrix.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Only the pains whose names contain one of these; without --out they are only printed
    #[arg(long, value_delimiter = ',', value_name = "PART,..")]
    only: Vec<String>,
    /// The allocators
    #[arg(long, value_delimiter = ',', value_name = "A,..", default_value = DEFAULT)]
    against: Vec<String>,
    #[command(flatten)]
    files: Files,
}

/// The matrix.
#[derive(Debug, Serialize)]
struct Results {
    date: String,
    machine: Machine,
    allocators: Vec<(String, String)>,
    pains: Vec<Pain>,
}

/// One row.
#[derive(Debug, Serialize)]
struct Pain {
    name: String,
    report: String,
    unit: String,
    limit: f64,
    measured: BTreeMap<String, Measured>,
}

/// One cell.
#[derive(Debug, Serialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Measured {
    /// The number, and whether it is within the limit.
    Value(f64, bool),
    /// Why there is none.
    Failed(String),
}

/// Measures everything and writes `pains.md` and `pains.json`; two to three minutes.
pub fn run(options: &Options) -> Result<()> {
    let (date, machine) = (race::now(), Machine::here());
    let program = program()?;
    let allocators = Allocator::all(&options.against)?;
    let listing = Command::new(&program).arg("--list").env_remove("LD_PRELOAD").output()?;
    let mut pains =
        String::from_utf8_lossy(&listing.stdout).lines().map(listed).collect::<Result<Vec<_>>>()?;
    ensure!(!pains.is_empty(), "the program lists nothing");
    pains.retain(|pain| {
        options.only.is_empty() || options.only.iter().any(|part| pain.name.contains(part.as_str()))
    });
    for pain in &mut pains {
        for allocator in &allocators {
            eprintln!("{}, {}", pain.name, allocator.name);
            let mut command = Command::new(&program);
            command.arg(&pain.name);
            allocator.apply(&mut command);
            pain.measured.insert(allocator.name.clone(), measure(command, allocator)?);
        }
    }
    let allocators = allocators.into_iter().map(|one| (one.name, one.version)).collect();
    let results = Results { date, machine, allocators, pains };
    let text = report(&results);
    println!("{text}");
    // A part of them says nothing of all.
    if !options.only.is_empty() && !options.files.are_elsewhere() {
        return Ok(());
    }
    options.files.json("pains.json", &results)?;
    options.files.text("pains.md", &text)
}

/// The program, compiled anew if one of its files changed.
fn program() -> Result<PathBuf> {
    let place = paths::workspace().join("crates/masu-workloads/programs/pains");
    compiled(
        "pains",
        &["pains.c", "going_back.c", "threads_and_forks.c", "address_space.c"]
            .map(|file| place.join(file)),
    )
}

fn listed(line: &str) -> Result<Pain> {
    let words: Vec<_> = line.split('\t').collect();
    let [name, unit, limit, report] = words[..] else {
        anyhow::bail!("not understood: {line}");
    };
    let limit = limit.parse().with_context(|| format!("no limit: {line}"))?;
    let (name, unit, report) = (name.into(), unit.into(), report.into());
    Ok(Pain { name, report, unit, limit, measured: BTreeMap::new() })
}

fn measure(mut command: Command, allocator: &Allocator) -> Result<Measured> {
    let begun = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut proven = false;
    while child.try_wait()?.is_none() {
        proven |= allocator.prove(child.id()).is_ok();
        if begun.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            return Ok(Measured::Failed("hangs".into()));
        }
        std::thread::sleep(Duration::from_millis(if proven { 20 } else { 1 }));
    }
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(match value(&said) {
        // A run of a few milliseconds may be over before its mappings could be read.
        Some(_) if !proven && begun.elapsed() > Duration::from_millis(200) => {
            Measured::Failed("not proven to be on its allocator".into())
        }
        Some((value, holds)) => Measured::Value(value, holds),
        None => Measured::Failed(format!("{}", output.status)),
    })
}

/// The number and the verdict of what the program says.
fn value(said: &str) -> Option<(f64, bool)> {
    let words: Vec<_> = said.split_whitespace().collect();
    Some((words.get(1)?.parse().ok()?, *words.last()? == "pass"))
}

fn report(results: &Results) -> String {
    let mut header = vec!["".to_string(), "limit".into()];
    header.extend(results.allocators.iter().map(|(name, _)| name.clone()));
    let rows: Vec<_> = results
        .pains
        .iter()
        .map(|pain| {
            let mut row = vec![pain.name.clone(), format!("{} {}", pain.limit, pain.unit)];
            row.extend(results.allocators.iter().map(|(name, _)| match &pain.measured[name] {
                Measured::Value(value, true) => shown(*value),
                Measured::Value(value, false) => format!("**{}**", shown(*value)),
                Measured::Failed(why) => format!("**{why}**"),
            }));
            row
        })
        .collect();
    let held = results.allocators.iter().map(|(name, version)| {
        let held = |pain: &&Pain| matches!(pain.measured[name], Measured::Value(_, true));
        let count = results.pains.iter().filter(held).count();
        format!("{name} {version}: {count}")
    });
    let what = results.pains.iter().map(|pain| format!("- `{}`: {}", pain.name, pain.report));
    format!(
        "# What users complained of\n\nEach row is named after the thread in which it was reported, and measures \
         one number; **bold** is above the limit. The tests hold masu to the same limits. Made by `masu-lab \
         pains`, {}; {} processors, Linux {}.\n\n{}\nWithin the limit, of {}: {}.\n\n{}\n",
        results.date,
        results.machine.processors,
        results.machine.kernel,
        markdown(&header, &rows),
        results.pains.len(),
        held.collect::<Vec<_>>().join("; "),
        what.collect::<Vec<_>>().join("\n"),
    )
}

fn shown(value: f64) -> String {
    match value {
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_says_is_understood() {
        assert_eq!(value("issue_x 8.250 MiB 32 pass\n"), Some((8.25, true)));
        assert_eq!(value("issue_x 8.250 x live 2 fail\n"), Some((8.25, false)));
        assert_eq!(value(""), None);
        let pain = listed("issue_x\tMiB\t32\tstays").unwrap();
        assert_eq!((pain.name.as_str(), pain.limit, pain.unit.as_str()), ("issue_x", 32.0, "MiB"));
        assert!(listed("nonsense").is_err());
    }

    #[test]
    fn what_is_above_the_limit_stands_out() {
        let mut pain = listed("issue_x\tMiB\t32\tstays").unwrap();
        pain.measured.insert("a".into(), Measured::Value(8.0, true));
        pain.measured.insert("b".into(), Measured::Value(640.0, false));
        pain.measured.insert("c".into(), Measured::Failed("hangs".into()));
        let allocators = ["a", "b", "c"].map(|name| (name.to_string(), "1".to_string())).to_vec();
        let (date, machine) = (String::new(), Machine::here());
        let text = report(&Results { date, machine, allocators, pains: vec![pain] });
        for part in ["| 8.00 |", "**640**", "**hangs**", "a 1: 1; b 1: 0"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

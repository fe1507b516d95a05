//! What it costs a Rust program to have an allocator: the time of a build from nothing, and bytes.
//!
//! The program is the smallest that prints a line. For each allocator it is built in a directory of
//! its own, after what it needs has been downloaded, so that a build is the compilers' work alone. The
//! rounds are interleaved; the smallest time counts, as only other work makes a build slower.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;

use super::child;
use super::files::{Files, markdown};
use crate::paths;
use crate::race::machine::Machine;
use crate::race::{self};

/// Options of the experiment.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// How often each is built; a round takes some two minutes, most of it jemalloc's
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    #[command(flatten)]
    files: Files,
}

/// The allocators: name, dependency, type, and what else their documentation puts into the manifest
/// of a program that is to be small.
const ALLOCATORS: [(&str, &str, &str, &str); 6] = [
    ("system", "", "", ""),
    ("masu", MASU.0, MASU.1, ""),
    (
        "masu, for size",
        MASU.0,
        MASU.1,
        "[profile.release.package.masu-core]\nopt-level = \"s\"\ncodegen-units = 1\n",
    ),
    (
        "jemalloc",
        "tikv-jemallocator = \"=0.7.0\"",
        "tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc",
        "",
    ),
    (
        "mimalloc",
        "mimalloc = { version = \"=0.1.52\", default-features = false }",
        "mimalloc::MiMalloc = mimalloc::MiMalloc",
        "",
    ),
    ("snmalloc", "snmalloc-rs = \"=0.7.6\"", "snmalloc_rs::SnMalloc = snmalloc_rs::SnMalloc", ""),
];
const MASU: (&str, &str) = ("masu = { path = \"MASU\" }", "masu::Masu = masu::Masu");

/// What was found.
#[derive(Debug, Serialize)]
struct Results {
    date: String,
    machine: Machine,
    costs: Vec<Cost>,
}

#[derive(Debug, Serialize)]
struct Cost {
    allocator: String,
    /// Seconds of each build.
    wall_s: Vec<f64>,
    /// Processor seconds of each.
    cpu_s: Vec<f64>,
    /// Bytes of the program, stripped.
    stripped: u64,
}

/// Runs the experiment and writes `build-cost.md` and `.json`.
pub fn run(options: &Options) -> Result<()> {
    let mut results = Results { date: race::now(), machine: Machine::here(), costs: Vec::new() };
    let places: Vec<_> = ALLOCATORS
        .iter()
        .map(|(_, dependency, declared, profile)| {
            let place = tempfile::tempdir()?;
            package(place.path(), dependency, declared, profile)?;
            cargo(place.path(), &["fetch", "--quiet"])?;
            Ok(place)
        })
        .collect::<Result<_>>()?;
    for (allocator, ..) in ALLOCATORS {
        let (wall_s, cpu_s) = (Vec::new(), Vec::new());
        results.costs.push(Cost { allocator: allocator.into(), wall_s, cpu_s, stripped: 0 });
    }
    for round in 0..options.rounds.max(1) {
        for (cost, place) in results.costs.iter_mut().zip(&places) {
            eprintln!("round {}, {}", round + 1, cost.allocator);
            measure(cost, place.path())?;
        }
    }
    let text = report(&results);
    options.files.text("build-cost.md", &text)?;
    options.files.json("build-cost.json", &results)?;
    println!("{text}");
    Ok(())
}

/// Writes the program.
fn package(place: &Path, dependency: &str, declared: &str, profile: &str) -> Result<()> {
    let masu = paths::workspace().join("crates/masu");
    let dependency = dependency.replace("MASU", &masu.to_string_lossy());
    let manifest = format!(
        "[package]\nname = \"program\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [profile.release]\nstrip = true\n\n{profile}\n[dependencies]\n{dependency}\n"
    );
    let global = match declared {
        "" => String::new(),
        declared => format!("#[global_allocator]\nstatic GLOBAL: {declared};\n\n"),
    };
    fs::create_dir(place.join("src"))?;
    fs::write(place.join("Cargo.toml"), manifest)?;
    let main = "fn main() {\n    println!(\"{}\", String::from(\"hello\"));\n}\n";
    fs::write(place.join("src/main.rs"), global + main)?;
    Ok(())
}

fn cargo(place: &Path, arguments: &[&str]) -> Result<child::Finished> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(arguments).current_dir(place).env_remove("RUSTFLAGS");
    cargo.env("CARGO_TARGET_DIR", place.join("target"));
    child::run(cargo, None, Duration::from_secs(1800))
}

/// One build from nothing.
fn measure(cost: &mut Cost, place: &Path) -> Result<()> {
    let target = place.join("target");
    if target.exists() {
        fs::remove_dir_all(&target)?;
    }
    let sample = cargo(place, &["build", "--quiet", "--release", "--offline"])?.sample;
    cost.wall_s.push(sample.wall_s);
    cost.cpu_s.push(sample.user_s + sample.system_s);
    let program = target.join("release/program");
    cost.stripped = fs::metadata(&program).context("cargo built no program")?.len();
    let said = Command::new(&program).output()?;
    ensure!(said.stdout == b"hello\n", "the program on {} is broken", cost.allocator);
    Ok(())
}

fn report(results: &Results) -> String {
    let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let none = &results.costs[0];
    let rows: Vec<Vec<String>> = results
        .costs
        .iter()
        .map(|cost| {
            let (wall, cpu) = (least(&cost.wall_s), least(&cost.cpu_s));
            let bytes = cost.stripped as i64 - none.stripped as i64;
            vec![
                cost.allocator.clone(),
                format!("{wall:.1} s"),
                format!("{:+.1} s", wall - least(&none.wall_s)),
                format!("{cpu:.1} s"),
                format!("{:+.1} s", cpu - least(&none.cpu_s)),
                format!("{} B", cost.stripped),
                format!("{bytes:+} B"),
            ]
        })
        .collect();
    let header =
        ["allocator", "clean build", "added", "processor time", "added", "stripped", "added"];
    format!(
        "# What an allocator costs a Rust program\n\nThe smallest program that prints a line, built \
         from nothing for release; the best of {} builds. {}. Again: `masu-lab build-cost`.\n\n{}.\n\n{}",
        none.wall_s.len(),
        results.date,
        results.machine,
        markdown(&header.map(String::from), &rows),
    )
}

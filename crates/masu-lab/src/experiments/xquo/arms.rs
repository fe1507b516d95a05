//! The tool on each allocator and C library: built, and proven to use what it should.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::input;
use crate::experiments::programs::{self, Package};
use crate::experiments::{child, files};

/// The target for static programs on musl.
const MUSL: &str = "x86_64-unknown-linux-musl";

/// The allocators, with the beginning of a symbol that only a program with this one has.
pub const ALLOCATORS: [(&str, Option<&str>); 5] = [
    ("masu", Some("masu_core")),
    ("system", None),
    ("jemalloc", Some("_rjem_je_")),
    ("mimalloc", Some("mi_malloc")),
    ("rusty_alloc", Some("rusty_alloc")),
];

/// One program.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Arm {
    /// Its allocator.
    pub allocator: String,
    /// Its C library, `gnu` or `musl`.
    pub libc: String,
    /// Where it is.
    #[serde(skip)]
    pub program: PathBuf,
    /// How it is known that this allocator serves it.
    pub proof: String,
}

/// The feature of the tool that chooses an allocator.
pub fn feature(allocator: &str) -> &str {
    if allocator == "system" { "" } else { allocator }
}

/// Builds the tool and makes sure of its allocator.
pub fn build(allocator: &str, libc: &str) -> Result<Arm> {
    let target = match libc {
        "gnu" => None,
        "musl" => Some(MUSL),
        _ => bail!("no C library called `{libc}`; known: gnu, musl"),
    };
    let package = Package {
        name: "xquo",
        binary: "xquo",
        features: Some(feature(allocator)),
        target,
        directory: None,
    };
    let built = programs::cargo(&package)?;
    let program = programs::directory().join(format!("xquo-{libc}-{allocator}"));
    std::fs::copy(&built, &program).context("cannot keep the built program")?;
    let proof = match libc {
        "gnu" => format!("{}; {}", symbols(&program, allocator)?, blocks(&program, allocator)?),
        _ => symbols(&program, allocator)?,
    };
    Ok(Arm { allocator: allocator.into(), libc: libc.into(), program, proof })
}

/// The program holds this allocator and no other.
fn symbols(program: &Path, allocator: &str) -> Result<String> {
    let output = Command::new("nm").arg(program).output().context("nm is needed")?;
    let names = String::from_utf8_lossy(&output.stdout);
    ensure!(names.contains("main"), "nm shows no symbols of {}", program.display());
    for (name, symbol) in ALLOCATORS {
        if let Some(symbol) = symbol {
            let present = names.contains(symbol);
            ensure!(present == (name == allocator), "{}: {symbol}: {present}", program.display());
        }
    }
    Ok(match ALLOCATORS.iter().find(|(name, _)| *name == allocator) {
        Some((_, Some(symbol))) => format!("linked with {symbol}…"),
        Some((_, None)) => "linked with none of the others".into(),
        None => bail!("no allocator called `{allocator}`"),
    })
}

/// The C library's allocator serves all of the records' blocks, or none of them.
fn blocks(program: &Path, allocator: &str) -> Result<String> {
    const RECORDS: u64 = 20_000;
    let counter = programs::compile(
        "cc",
        "count_blocks.c",
        "libcount_blocks.so",
        &["-shared", "-fPIC", "-O2"],
    )?;
    let input = tempfile::NamedTempFile::new()?;
    input::write(input.reopen()?, RECORDS)?;
    let mut command = Command::new(program);
    command.args(["-w", "2", "--pipeline", "bulks", "--stats"]);
    command.env("LD_PRELOAD", counter).stdin(input.reopen()?);
    let null = std::fs::File::options().write(true).open("/dev/null")?;
    let finished = child::run(command, Some(null.into()), Duration::from_secs(60))?;
    let label = finished.field("allocator")?;
    ensure!(label == allocator, "the program says that its allocator is {label}");
    let count: u64 = finished.field("libc_blocks")?.parse()?;
    let each = count as f64 / RECORDS as f64;
    let served = each >= 7.0;
    ensure!(
        served == (allocator == "system") && (served || each < 0.1),
        "{each:.2} blocks of a record came from the C library"
    );
    Ok(format!("{each:.2} blocks of a record from the C library"))
}

/// What it costs to have an allocator.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cost {
    /// The allocator.
    pub allocator: String,
    /// A build from nothing, in seconds.
    pub build_s: f64,
    /// The same in processor seconds, which a busy machine does not change.
    pub build_cpu_s: f64,
    /// The stripped program's bytes.
    pub stripped: u64,
}

/// Builds the tool from nothing, in a directory of its own.
pub fn cost(allocator: &str) -> Result<Cost> {
    let place = programs::directory().join(format!("clean-{allocator}"));
    if place.exists() {
        std::fs::remove_dir_all(&place)?;
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(["build", "--quiet", "--release", "--locked", "--package", "xquo"]);
    cargo.args(["--no-default-features", "--features", feature(allocator), "--target-dir"]);
    cargo.arg(&place).current_dir(crate::paths::workspace());
    let finished = child::run(cargo, None, Duration::from_secs(1800))?;
    let program = place.join("release/xquo");
    let status = Command::new("strip").arg(&program).status().context("strip is needed")?;
    ensure!(status.success(), "strip: {status}");
    let stripped = std::fs::metadata(&program)?.len();
    std::fs::remove_dir_all(&place)?;
    let sample = finished.sample;
    Ok(Cost {
        allocator: allocator.into(),
        build_s: sample.wall_s,
        build_cpu_s: sample.user_s + sample.system_s,
        stripped,
    })
}

/// The costs as a table, with what each allocator adds to the program without one.
pub fn table(costs: &[Cost]) -> String {
    let header =
        ["allocator", "clean build", "added", "processor time", "added", "stripped", "added"];
    let none = costs.iter().find(|cost| cost.allocator == "system");
    let added = |of: fn(&Cost) -> f64, cost: &Cost, show: fn(f64) -> String| {
        none.map_or("-".into(), |none| show(of(cost) - of(none)))
    };
    let rows: Vec<Vec<String>> = costs
        .iter()
        .map(|cost| {
            vec![
                cost.allocator.clone(),
                format!("{:.1} s", cost.build_s),
                added(|cost| cost.build_s, cost, |value| format!("{value:+.1} s")),
                format!("{:.1} s", cost.build_cpu_s),
                added(|cost| cost.build_cpu_s, cost, |value| format!("{value:+.1} s")),
                format!("{} B", cost.stripped),
                added(|cost| cost.stripped as f64, cost, |value| format!("{value:+.0} B")),
            ]
        })
        .collect();
    files::markdown(&header.map(String::from), &rows)
}

//! Instructions per malloc and free pair, counted exactly.
//!
//! Wall time on a shared machine says little about a change of three instructions.
//! Callgrind counts every instruction of the process, the allocator's own calls into
//! libc and the dynamic linker included; the difference between a long and a short run
//! cancels start-up and first use, and the same loop around two functions that return
//! at once gives what the loop itself costs.

mod report;

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use masu_workloads::pairs::Shape;
use masu_workloads::pairs::driver::{BATCH, NULL_PAIR};

use masu_bench::work;

use crate::arm::Arm;
pub use report::Table;

/// The short and the long run, in batches. The difference is what counts.
const BATCHES: (usize, usize) = (200, 1000);

/// Counts every cell for every arm and returns the table. `done` is told each cell.
/// An arm that fails once is out of the rest, and the table says why.
pub fn measure(arms: &[Arm], sizes: &[usize], mut done: impl FnMut(&str)) -> Result<Table> {
    let mut table = Table::new(arms);
    for &size in sizes {
        for shape in Shape::ALL {
            let driver = per_pair(&Arm::glibc(), "null", shape, size)?;
            let mut row = Vec::new();
            for arm in arms {
                done(&format!("{} {size} B {}", shape.name(), arm.name));
                if table.failed(&arm.name) {
                    row.push(None);
                    continue;
                }
                let count = per_pair(arm, "process", shape, size);
                if let Err(reason) = &count {
                    table.fail(&arm.name, format!("{reason:#}"));
                }
                row.push(count.ok().map(|count| count - driver + NULL_PAIR as f64));
            }
            table.push(shape, size, row);
        }
    }
    Ok(table)
}

/// Instructions per pair, the driver's loop included.
fn per_pair(arm: &Arm, subject: &str, shape: Shape, size: usize) -> Result<f64> {
    let short = count(arm, subject, shape, size, BATCHES.0)?;
    let long = count(arm, subject, shape, size, BATCHES.1)?;
    ensure!(long > short, "the long run took fewer instructions than the short one");
    Ok((long - short) as f64 / ((BATCHES.1 - BATCHES.0) * BATCH) as f64)
}

/// Instructions of one whole process of the measured program.
fn count(arm: &Arm, subject: &str, shape: Shape, size: usize, batches: usize) -> Result<u64> {
    let work = work::build()?;
    let mut command = Command::new(&work);
    command.args(["pairs", subject, shape.name(), &size.to_string(), &batches.to_string()]);
    arm.apply(&mut command);
    let (count, said) = whole(&command)?;
    let reported = said.lines().find_map(|line| line.strip_prefix("allocator "));
    arm.check(reported.context("the program did not say which allocator serves it")?)?;
    Ok(count)
}

/// Runs a command under callgrind. Returns the instructions of the whole process, and what it printed.
///
/// # Errors
/// There is no valgrind, or the command fails.
pub fn whole(command: &Command) -> Result<(u64, String)> {
    let out = tempfile::NamedTempFile::new()?;
    let mut counted = Command::new("valgrind");
    counted
        .args(["--tool=callgrind", "-q"])
        .arg(format!("--callgrind-out-file={}", out.path().display()))
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => counted.env(name, value),
            None => counted.env_remove(name),
        };
    }
    if let Some(place) = command.get_current_dir() {
        counted.current_dir(place);
    }
    let output = counted.output().context("valgrind is needed to count instructions")?;
    if !output.status.success() {
        bail!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    let profile = std::fs::read_to_string(out.path())?;
    let count = profile
        .lines()
        .find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok())
        .context("callgrind wrote no totals")?;
    Ok((count, String::from_utf8_lossy(&output.stdout).into_owned()))
}

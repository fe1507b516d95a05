//! Instructions per malloc and free pair, counted exactly.
//!
//! Wall time on a shared machine says little about a change of three instructions.
//! Callgrind counts every instruction of the process, the allocator's own calls into
//! libc and the dynamic linker included; the difference between a long and a short run
//! cancels start-up and first use, and the same loop around two functions that return
//! at once gives what the loop itself costs.

pub mod driver;
mod report;

use std::process::{Command, Stdio};
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;

use crate::{arm::Arm, paths};
use driver::{BATCH, NULL_PAIR};
pub use report::Table;

/// How a batch of blocks is asked for and given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// Each block is freed before the next is asked for.
    Pair,
    /// Last in, first out.
    Lifo,
    /// First in, first out.
    Fifo,
    /// A random permutation, another one in each of sixteen batches.
    Random,
    /// Another thread frees the batch, first in, first out.
    Remote,
    /// As [`Shape::Pair`], with calloc.
    Calloc,
}

impl Shape {
    /// All shapes, in the order of the table.
    pub const ALL: [Shape; 6] =
        [Shape::Pair, Shape::Lifo, Shape::Fifo, Shape::Random, Shape::Remote, Shape::Calloc];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Pair => "pair",
            Shape::Lifo => "lifo",
            Shape::Fifo => "fifo",
            Shape::Random => "random",
            Shape::Remote => "remote",
            Shape::Calloc => "calloc",
        }
    }

    /// What tables call it.
    fn label(self) -> &'static str {
        match self {
            Shape::Pair => "one at a time",
            Shape::Lifo => "100 lifo",
            Shape::Fifo => "100 fifo",
            Shape::Random => "100 random",
            Shape::Remote => "100 freed by another thread",
            Shape::Calloc => "one at a time, calloc",
        }
    }

    /// The permutations in which batches are freed, used in turn.
    fn indices(self) -> [[u8; BATCH]; 16] {
        let mut rng = fastrand::Rng::with_seed(42);
        std::array::from_fn(|_| {
            let mut indices: [u8; BATCH] = std::array::from_fn(|index| index as u8);
            match self {
                Shape::Lifo => indices.reverse(),
                Shape::Random => rng.shuffle(&mut indices),
                Shape::Pair | Shape::Fifo | Shape::Remote | Shape::Calloc => {}
            }
            indices
        })
    }
}

impl FromStr for Shape {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Shape::ALL.into_iter().find(|shape| shape.name() == name);
        found.with_context(|| format!("no shape called `{name}`"))
    }
}

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

/// Instructions of one whole process.
fn count(arm: &Arm, subject: &str, shape: Shape, size: usize, batches: usize) -> Result<u64> {
    let out = tempfile::NamedTempFile::new()?;
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "-q"])
        .arg(format!("--callgrind-out-file={}", out.path().display()))
        .arg(paths::work_binary()?)
        .args(["pairs", subject, shape.name(), &size.to_string(), &batches.to_string()])
        .stdin(Stdio::null());
    arm.apply(&mut command);
    let output = command.output().context("valgrind is needed to count instructions")?;
    if !output.status.success() {
        bail!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let reported = text.lines().find_map(|line| line.strip_prefix("allocator "));
    arm.check(reported.context("the program did not say which allocator serves it")?)?;
    let profile = std::fs::read_to_string(out.path())?;
    profile
        .lines()
        .find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok())
        .context("callgrind wrote no totals")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_frees_each_block_once() {
        for shape in Shape::ALL {
            for mut indices in shape.indices() {
                indices.sort_unstable();
                assert!(
                    indices.iter().enumerate().all(|(place, &index)| place == usize::from(index))
                );
            }
        }
    }

    #[test]
    fn shapes_differ_as_their_names_say() {
        assert_eq!(Shape::Fifo.indices()[0][..3], [0, 1, 2]);
        assert_eq!(Shape::Lifo.indices()[0][..3], [99, 98, 97]);
        let random = Shape::Random.indices();
        assert_ne!(random[0], random[1]);
    }
}

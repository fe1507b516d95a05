//! Whether one column is slower than another, cell by cell, and what is only noise.
//!
//! A process is one sample: its thousands of batches share where the kernel and the linker put things, and so
//! are no samples of that. In each round one process of each column runs, and the two columns' medians of
//! that round make a ratio; the ratios of all rounds have a middle and an interval. What the same column
//! measured twice differs by is the noise: of the nineteen sizes of a pattern, the difference that nineteen
//! in twenty stay below, the last but one. A cell is slower only if its interval lies above 1 and its middle
//! beyond that noise, and faster by the same rule; everything else is a tie.

use super::cells::SIZES;
use super::patterns::Pattern;
use super::{COLUMNS, Results};
use crate::stats::{Ratio, Verdict, noise_floor, ratio, verdict};

/// One cell of a comparison.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    /// The pattern.
    pub pattern: Pattern,
    /// The objects' size in bytes.
    pub size: usize,
    /// Time of the one column in the other's.
    pub ratio: Ratio,
    /// What it says.
    pub verdict: Verdict,
}

/// All cells of a comparison.
#[derive(Debug, Clone, Default)]
pub struct Judged {
    /// Those that both columns have.
    pub cells: Vec<Cell>,
    /// The noise of each pattern, as a fraction.
    pub noise: Vec<(Pattern, f64)>,
}

impl Judged {
    /// How many cells there are of a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.cells.iter().filter(|cell| cell.verdict == verdict).count()
    }

    /// The slower cells, the slowest first.
    pub fn slower(&self) -> Vec<Cell> {
        let mut slower: Vec<Cell> =
            self.cells.iter().filter(|cell| cell.verdict == Verdict::Loss).copied().collect();
        slower.sort_by(|a, b| b.ratio.centre.total_cmp(&a.ratio.centre));
        slower
    }

    /// The geometric mean of the ratios.
    pub fn mean(&self) -> f64 {
        let sum: f64 = self.cells.iter().map(|cell| cell.ratio.centre.ln()).sum();
        (sum / self.cells.len().max(1) as f64).exp()
    }
}

/// Compares two columns, by what a third one and its repetition differ by.
pub fn judge(results: &Results, mine: &str, theirs: &str, twins: (&str, &str)) -> Judged {
    let mut judged = Judged::default();
    for pattern in Pattern::ALL {
        let compared = |mine: &str, theirs: &str, size| {
            ratio(&rounds(results, mine, pattern, size)?, &rounds(results, theirs, pattern, size)?)
        };
        let nulls = SIZES.into_iter().filter_map(|size| compared(twins.1, twins.0, size));
        let noise = noise_floor(farthest_but_one(nulls.map(|null| null.centre).collect()));
        judged.noise.push((pattern, noise));
        judged.cells.extend(SIZES.into_iter().filter_map(|size| {
            let ratio = compared(mine, theirs, size)?;
            Some(Cell { pattern, size, ratio, verdict: verdict(ratio, noise) })
        }));
    }
    judged
}

/// The ratio, of several, that is second farthest from 1; the farthest of few.
fn farthest_but_one(mut centres: Vec<f64>) -> Option<Ratio> {
    const TWENTIETH: f64 = 0.05;
    centres.sort_by(|a, b| b.ln().abs().total_cmp(&a.ln().abs()));
    let beyond = (TWENTIETH * centres.len() as f64).round() as usize;
    centres.get(beyond).map(|&centre| Ratio { centre, low: centre, high: centre })
}

/// The median of each round's thousands of batches, in nanoseconds; `None` where there are none.
fn rounds(results: &Results, name: &str, pattern: Pattern, size: usize) -> Option<Vec<f64>> {
    let column = COLUMNS.iter().position(|column| column.name == name)?;
    let each = (results.iterations / results.rounds.max(1)).max(1);
    let mut rounds = vec![Vec::new(); results.rounds as usize];
    for record in &results.records {
        if (record.column, record.pattern, record.size) == (column, pattern, size) {
            rounds.get_mut((record.iteration / each) as usize)?.push(record.total_ns as f64);
        }
    }
    rounds.iter().map(|round| crate::stats::median(round)).collect()
}

#[cfg(test)]
mod tests;

//! The experiment's tables.

use std::fmt::Write;

use anyhow::Result;

use super::{Cell, PROGRAMS, Results};
use crate::experiments::files::{Files, markdown};
use crate::race::Sample;
use crate::stats::median;

/// One figure of a run.
struct Figure {
    title: &'static str,
    of: fn(&Sample) -> Option<f64>,
    show: fn(f64) -> String,
}

const FIGURES: [Figure; 5] = [
    Figure {
        title: "Time from start to end",
        of: |s| Some(s.wall_s),
        show: |v| format!("{v:.3} s"),
    },
    Figure {
        title: "Processor time, user and system",
        of: |s| Some(s.user_s + s.system_s),
        show: |v| format!("{v:.3} s"),
    },
    Figure {
        title: "Instructions in user mode",
        of: |s| s.user_instructions.map(|n| n as f64),
        show: |v| format!("{:.0} M", v / 1e6),
    },
    Figure {
        title: "Peak resident memory",
        of: |s| Some(s.peak_kib as f64),
        show: |v| format!("{:.1} MiB", v / 1024.0),
    },
    Figure {
        title: "Page faults",
        of: |s| Some(s.minor_faults as f64),
        show: |v| format!("{v:.0}"),
    },
];

impl Cell {
    fn median(&self, figure: &Figure) -> Option<f64> {
        median(&self.samples.iter().filter_map(figure.of).collect::<Vec<_>>())
    }
}

/// Writes everything and returns the text.
pub fn write(results: &Results, files: &Files) -> Result<String> {
    let mut text = head(results);
    for figure in &FIGURES {
        if let Some(table) = table(results, figure) {
            write!(text, "\n## {}\n\n{table}", figure.title)?;
        }
    }
    if !results.missing.is_empty() {
        text += "\n## Not built\n\n";
        for (allocator, reason) in &results.missing {
            writeln!(text, "- {allocator}: {reason}")?;
        }
    }
    files.text("rust-programs.md", &text)?;
    files.json("rust-programs.json", results)?;
    Ok(text)
}

fn head(results: &Results) -> String {
    let mut text = String::from("# Programs in Rust with an allocator linked in\n\n");
    for (program, what) in PROGRAMS {
        text += &format!("- `{program}`: {what}\n");
    }
    text += &format!(
        "\n{}, {} rounds of {} % of the work, interleaved; medians, in brackets what they are in \
         terms of the system's allocator. Every run computed the same checksum. Again: `masu-lab \
         rust-programs --rounds {}`.\n\n{}.\n\n",
        results.date, results.rounds, results.percent, results.rounds, results.machine,
    );
    for arm in &results.arms {
        text += &format!("- {} {}: {}\n", arm.allocator, arm.version, arm.proof);
    }
    text
}

/// Programs by allocators; `None` when nobody could measure the figure.
fn table(results: &Results, figure: &Figure) -> Option<String> {
    let mut header = vec!["program".to_owned()];
    header.extend(results.arms.iter().map(|arm| arm.allocator.clone()));
    let mut any = false;
    let rows: Vec<Vec<String>> = PROGRAMS
        .iter()
        .map(|(program, _)| {
            let value = |arm: usize| {
                let cell =
                    results.cells.iter().find(|cell| cell.program == *program && cell.arm == arm);
                cell?.median(figure)
            };
            let system = results.arms.iter().position(|arm| arm.allocator == "system");
            let system = system.and_then(value);
            let show = |value: Option<f64>| match (value, system) {
                (Some(value), Some(system)) if system > 0.0 => {
                    format!("{} ({:.2})", (figure.show)(value), value / system)
                }
                (Some(value), _) => (figure.show)(value),
                (None, _) => "-".into(),
            };
            let mut row = vec![(*program).to_owned()];
            row.extend((0..results.arms.len()).map(|arm| {
                any |= value(arm).is_some();
                show(value(arm))
            }));
            row
        })
        .collect();
    any.then(|| markdown(&header, &rows))
}

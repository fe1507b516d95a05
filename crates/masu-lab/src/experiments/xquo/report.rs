//! The experiment's tables and charts.

use anyhow::Result;

use super::{Cell, Results, arms};
use crate::experiments::chart;
use crate::experiments::chart::{Axis, Panel, Series};
use crate::experiments::files::{Files, markdown};
use crate::race::Sample;
use crate::stats::{Ratio, median, ratio};

/// One figure of a run.
struct Figure {
    title: &'static str,
    of: fn(&Sample) -> f64,
    show: fn(f64) -> String,
}

const WALL: Figure =
    Figure { title: "Time from start to end", of: |s| s.wall_s, show: |v| format!("{v:.2} s") };
const CPU: Figure = Figure {
    title: "Processor time, user and system",
    of: |s| s.user_s + s.system_s,
    show: |v| format!("{v:.2} s"),
};
const PEAK: Figure = Figure {
    title: "Peak resident memory",
    of: |s| s.peak_kib as f64,
    show: |v| format!("{:.1} MiB", v / 1024.0),
};
const FAULTS: Figure =
    Figure { title: "Page faults", of: |s| s.minor_faults as f64, show: |v| format!("{v:.0}") };
const CYCLES: Figure = Figure {
    title: "Processor cycles in user mode",
    of: |s| s.user_cycles.map_or(f64::NAN, |count| count as f64),
    show: |v| format!("{:.0} M", v / 1e6),
};
const INSTRUCTIONS: Figure = Figure {
    title: "Instructions in user mode",
    of: |s| s.user_instructions.map_or(f64::NAN, |count| count as f64),
    show: |v| format!("{:.0} M", v / 1e6),
};
const FIGURES: [Figure; 6] = [WALL, CPU, CYCLES, INSTRUCTIONS, PEAK, FAULTS];

impl Cell {
    fn values(&self, figure: &Figure) -> Vec<f64> {
        self.samples.iter().map(figure.of).filter(|value| value.is_finite()).collect()
    }

    fn median(&self, figure: &Figure) -> Option<f64> {
        median(&self.values(figure))
    }
}

impl Results {
    fn libcs(&self) -> Vec<&str> {
        let mut libcs: Vec<&str> = self.arms.iter().map(|arm| arm.libc.as_str()).collect();
        libcs.dedup();
        libcs
    }

    fn pipelines(&self) -> Vec<&str> {
        let mut pipelines: Vec<&str> =
            self.cells.iter().map(|cell| cell.pipeline.as_str()).collect();
        pipelines.dedup();
        pipelines
    }

    fn workers(&self) -> Vec<usize> {
        let mut workers: Vec<usize> = self.cells.iter().map(|cell| cell.workers).collect();
        workers.sort_unstable();
        workers.dedup();
        workers
    }

    fn cell(&self, libc: &str, allocator: &str, pipeline: &str, workers: usize) -> Option<&Cell> {
        self.cells.iter().find(|cell| {
            let arm = &self.arms[cell.arm];
            (arm.libc.as_str(), arm.allocator.as_str()) == (libc, allocator)
                && (cell.pipeline.as_str(), cell.workers) == (pipeline, workers)
        })
    }

    fn allocators<'r>(&'r self, libc: &'r str) -> impl Iterator<Item = &'r str> {
        self.arms.iter().filter(move |arm| arm.libc == libc).map(|arm| arm.allocator.as_str())
    }
}

/// Writes everything and returns the text.
pub fn write(results: &Results, files: &Files) -> Result<String> {
    let mut text = head(results);
    for pipeline in results.pipelines() {
        for libc in results.libcs() {
            text += &format!("\n## {} on {libc}\n", name(pipeline));
            text += &standing(results, libc, pipeline);
            for figure in &FIGURES {
                if let Some(table) = table(results, libc, pipeline, figure) {
                    text += &format!("\n### {}\n\n{table}", figure.title);
                }
            }
        }
        text += &format!("\n![wall time by workers](xquo/{pipeline}.svg)\n");
        let panels = results
            .libcs()
            .into_iter()
            .flat_map(|libc| [WALL, CPU].map(|figure| panel(results, libc, pipeline, &figure)));
        chart::lines(
            &files.path(&format!("xquo/{pipeline}.svg"))?,
            &panels.collect::<Vec<_>>(),
            2,
        )?;
    }
    if !results.costs.is_empty() {
        text += "\n## What an allocator costs to have\n\nBuilt from nothing, each in a directory of its own.\n\n";
        text += &arms::table(&results.costs);
    }
    text += &failures(results);
    files.text("xquo.md", &text)?;
    files.json("xquo.json", results)?;
    files.raw_text("xquo.csv", &csv(results))?;
    Ok(text)
}

fn name(pipeline: &str) -> &str {
    match pipeline {
        "unordered" => "Unordered (as v0.1 of the original)",
        "bulks" => "Ordered bulks (as v0.2 of the original)",
        "chunks" => "Chunks (no allocation for a record)",
        other => other,
    }
}

fn head(results: &Results) -> String {
    let proofs: Vec<String> = results
        .arms
        .iter()
        .map(|arm| format!("- {}, {}: {}", arm.allocator, arm.libc, arm.proof))
        .collect();
    format!(
        "# xquo: a tool that lives on its allocator\n\n\
         Measured {} by `cargo run --release -p masu-lab -- xquo`: {} records, {} interleaved rounds, medians.\n\n\
         {}.\n\n\
         The same tool, built with each allocator. Output of every program and pipeline was compared with \
         what it has to be, line by line and in order (unordered: in any order); each run wrote the right \
         number of bytes. A tool with N workers has N + 2 threads. Processor time and cycles say more than \
         wall time where more threads than processors run.\n\nWhich allocator served:\n\n{}\n",
        results.date,
        results.records,
        results.rounds,
        results.machine,
        proofs.join("\n"),
    )
}

/// What masu does with more workers, and against the best of the others.
fn standing(results: &Results, libc: &str, pipeline: &str) -> String {
    let wall = |workers| results.cell(libc, "masu", pipeline, workers)?.median(&WALL);
    let mut text = String::new();
    if let Some(one) = wall(1) {
        let relative: Vec<String> = results
            .workers()
            .into_iter()
            .filter_map(|workers| Some(format!("{workers}: {:.2}", wall(workers)? / one)))
            .collect();
        text += &format!(
            "\n- masu's wall time by workers, one worker being 1: {}\n",
            relative.join(", ")
        );
        let used = results.cell(libc, "masu", pipeline, 1).and_then(|cell| cell.median(&CPU));
        if let Some(used) = used {
            let (busy, all) = (used / one, results.machine.processors as f64);
            text += &format!(
                "- One worker, with the reader and the writer, keeps {busy:.2} of {all} processors busy: \
                 the same work on all of them takes {:.2} of its time at least\n",
                busy / all
            );
        }
    }
    let peers = |workers| {
        let others = results.allocators(libc).filter(|name| *name != "masu");
        others.filter_map(move |name| Some((name, results.cell(libc, name, pipeline, workers)?)))
    };
    let at = if results.workers().contains(&2) { 2 } else { results.workers()[0] };
    let Some(mine) = results.cell(libc, "masu", pipeline, at) else { return text };
    let best = peers(at)
        .filter_map(|(name, cell)| Some((name, cell, cell.median(&CPU)?)))
        .min_by(|a, b| a.2.total_cmp(&b.2));
    if let Some((name, cell, _)) = best {
        for figure in [&CPU, &CYCLES, &PEAK] {
            if let Some((medians, paired)) = compared(mine, cell, figure) {
                text += &format!(
                    "- {} at {at} workers against {name}, the best peer by processor time: {medians:.2} \
                     (rounds: {:.2}, {:.2} to {:.2})\n",
                    figure.title, paired.centre, paired.low, paired.high
                );
            }
        }
    }
    let least = peers(at)
        .filter_map(|(name, cell)| Some((name, cell.median(&PEAK)?)))
        .min_by(|a, b| a.1.total_cmp(&b.1));
    if let (Some((name, least)), Some(mine)) = (least, mine.median(&PEAK)) {
        text += &format!(
            "- Peak resident memory at {at} workers against the least, {name}'s: {:.2}\n",
            mine / least
        );
    }
    text
}

/// The ratio of medians, and the rounds' ratios with their interval.
fn compared(mine: &Cell, theirs: &Cell, figure: &Figure) -> Option<(f64, Ratio)> {
    let medians = mine.median(figure)? / theirs.median(figure)?;
    Some((medians, ratio(&mine.values(figure), &theirs.values(figure))?))
}

fn table(results: &Results, libc: &str, pipeline: &str, figure: &Figure) -> Option<String> {
    let workers = results.workers();
    let head = workers.iter().map(|count| match count {
        1 => "1 worker".into(),
        _ => format!("{count} workers"),
    });
    let header: Vec<String> = std::iter::once("allocator".into()).chain(head).collect();
    let mut known = false;
    let rows: Vec<Vec<String>> = results
        .allocators(libc)
        .map(|allocator| {
            let cells = workers.iter().map(|&workers| {
                let cell = results.cell(libc, allocator, pipeline, workers);
                let value = cell.and_then(|cell| cell.median(figure));
                known |= value.is_some();
                value.map_or("-".into(), figure.show)
            });
            std::iter::once(allocator.to_string()).chain(cells).collect()
        })
        .collect();
    known.then(|| markdown(&header, &rows))
}

fn panel(results: &Results, libc: &str, pipeline: &str, figure: &Figure) -> Panel {
    let series = results.allocators(libc).map(|allocator| Series {
        name: allocator.into(),
        points: results
            .workers()
            .into_iter()
            .filter_map(|workers| {
                let cell = results.cell(libc, allocator, pipeline, workers)?;
                Some((workers as f64, cell.median(figure)?))
            })
            .collect(),
    });
    Panel {
        title: format!("{pipeline}, {libc}: {}", figure.title.to_lowercase()),
        x: Axis::Linear("workers"),
        y: Axis::Linear("seconds"),
        series: series.collect(),
    }
}

fn csv(results: &Results) -> String {
    let mut text = String::from(
        "libc,allocator,pipeline,workers,round,wall_s,user_s,system_s,peak_kib,minor_faults,user_cycles,user_instructions\n",
    );
    for cell in &results.cells {
        let arm = &results.arms[cell.arm];
        for (round, s) in cell.samples.iter().enumerate() {
            let count = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
            text += &format!(
                "{},{},{},{},{round},{},{},{},{},{},{},{}\n",
                arm.libc,
                arm.allocator,
                cell.pipeline,
                cell.workers,
                s.wall_s,
                s.user_s,
                s.system_s,
                s.peak_kib,
                s.minor_faults,
                count(s.user_cycles),
                count(s.user_instructions),
            );
        }
    }
    text
}

fn failures(results: &Results) -> String {
    let built = results.missing.iter().map(|(name, reason)| format!("- {name}: {reason}\n"));
    let failed = results.cells.iter().filter_map(|cell| {
        let arm = &results.arms[cell.arm];
        let failure = cell.failure.as_ref()?;
        let (pipeline, workers) = (&cell.pipeline, cell.workers);
        Some(format!(
            "- {}, {}, {pipeline}, {workers} workers: {failure}\n",
            arm.allocator, arm.libc
        ))
    });
    let text: String = built.chain(failed).collect();
    if text.is_empty() { text } else { format!("\n## Failures\n\n{text}") }
}

//! The demonstration: one real program, twice the same binary, two allocators.
//!
//! It uses the runner of the race, so that runs are interleaved, accounted for by the
//! kernel, and refused if another allocator served them or their results differ.

use anyhow::{Result, bail};
use comfy_table::{Attribute, Cell, CellAlignment, Color, Table, presets};

use crate::arm::{self, Arm};
use crate::progress::Progress;
use crate::race::results::{Measured, Results};
use crate::race::{self, Plan, Sample, Task};
use crate::stats::{Verdict, median, noise_floor, ratio, verdict};
use crate::workloads::documents::{self, DOCUMENTS};

const MASU: usize = 0;
const SYSTEM: usize = 1;

/// Runs the program `rounds` times on each allocator and prints what came of it.
pub fn run(rounds: usize) -> Result<()> {
    let arms = vec![arm::masu()?, Arm::glibc()];
    let tasks = vec![Task::workload(&DOCUMENTS, 1, 1.0)];
    let plan = Plan {
        rounds,
        twins: Vec::new(),
        warm_mib: 256,
        watch: false,
        latency_rounds: 0,
        ..Plan::new(arms, tasks)
    };
    println!("{}", introduction(&plan));
    let progress = Progress::new(2 * rounds);
    let results = race::run(&plan, |step| progress.race(step))?;
    progress.done();
    let measured = &results.workloads[0];
    for (arm, entrant) in results.arms.iter().enumerate() {
        if let Some((round, failure)) = measured.failure(arm) {
            bail!("the program failed on {} in round {}: {failure}", entrant.name, round + 1);
        }
    }
    println!("{}", table(&results, measured));
    println!(
        "\nBoth printed the same result in every round. To run a program of your own on masu:"
    );
    println!("\n    target/release/masu run -- PROGRAM\n");
    Ok(())
}

fn introduction(plan: &Plan) -> String {
    let [masu, system] = [MASU, SYSTEM].map(|arm| &plan.arms[arm]);
    format!(
        "masu {} against the system's allocator, glibc {}\n\n\
         The program: {} JSON documents are parsed, rewritten and indexed by {} threads that\n\
         hand strings and maps to each other. One binary; only LD_PRELOAD differs. {} rounds.\n",
        masu.version,
        system.version,
        documents::DOCUMENTS_COUNT,
        documents::WORKERS + 2,
        plan.rounds,
    )
}

/// One line of the table.
struct Line {
    label: &'static str,
    of: fn(&Sample) -> f64,
    show: fn(f64) -> String,
    /// How a smaller figure is called.
    gain: fn(f64) -> String,
    /// How a larger figure is called.
    cost: fn(f64) -> String,
}

const LINES: [Line; 5] = [
    Line {
        label: "wall time",
        of: |sample| sample.wall_s,
        show: seconds,
        gain: |ratio| format!("{:.2}x faster", 1.0 / ratio),
        cost: |ratio| format!("{ratio:.2}x slower"),
    },
    Line { label: "user time", of: |sample| sample.user_s, show: seconds, gain: less, cost: more },
    Line {
        label: "system time",
        of: |sample| sample.system_s.max(0.001),
        show: seconds,
        gain: less,
        cost: more,
    },
    Line {
        label: "peak memory",
        of: |sample| sample.peak_kib as f64,
        show: |kib| format!("{:.1} MiB", kib / 1024.0),
        gain: less,
        cost: more,
    },
    Line {
        label: "page faults",
        of: |sample| sample.minor_faults as f64,
        show: |count| format!("{count:.0}"),
        gain: less,
        cost: more,
    },
];

fn seconds(value: f64) -> String {
    format!("{value:.3} s")
}

fn less(ratio: f64) -> String {
    format!("{:.0} % less", (1.0 - ratio) * 100.0)
}

fn more(ratio: f64) -> String {
    format!("{:.0} % more", (ratio - 1.0) * 100.0)
}

fn table(results: &Results, measured: &Measured) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    let names = [SYSTEM, MASU].map(|arm| right(results.arms[arm].name.clone()));
    let header = [Cell::new("median")].into_iter().chain(names).chain([Cell::new("masu takes")]);
    table.set_header(header.map(|cell| cell.add_attribute(Attribute::Bold)));
    for line in &LINES {
        table.add_row(row(line, measured));
    }
    table
}

fn row(line: &Line, measured: &Measured) -> Vec<Cell> {
    let series = |arm: usize| -> Vec<f64> {
        measured.samples(arm).map(|(_, sample)| (line.of)(sample)).collect()
    };
    let (masu, system) = (series(MASU), series(SYSTEM));
    let shown = |values: &[f64]| right(median(values).map_or("-".into(), line.show));
    let judged = ratio(&masu, &system).map(|ratio| (ratio, verdict(ratio, noise_floor(None))));
    let says = match judged {
        Some((ratio, Verdict::Win)) => Cell::new((line.gain)(ratio.centre)).fg(Color::Green),
        Some((ratio, Verdict::Loss)) => Cell::new((line.cost)(ratio.centre)).fg(Color::Red),
        _ => Cell::new("the same, within the noise"),
    };
    vec![Cell::new(line.label), shown(&system), shown(&masu), says]
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_said_the_way_people_say_them() {
        assert_eq!((LINES[0].gain)(0.5), "2.00x faster");
        assert_eq!((LINES[0].cost)(1.25), "1.25x slower");
        assert_eq!(less(0.8), "20 % less");
        assert_eq!(more(1.5), "50 % more");
    }
}

//! Tables and curves of what the suite found.

use std::fmt::Write;

use anyhow::Result;

use super::results::{Curve, Measured, Ran, Results, Served, Web, When, machine};
use crate::experiments::chart::{self, Axis, Panel, Series};
use crate::experiments::files::{Files, markdown};
use crate::stats::median;

/// Writes `memory.md` and a chart for every scenario, and prints the tables.
pub fn write(results: &Results, files: &Files) -> Result<()> {
    let mut text = String::from("# Memory over time\n\n");
    writeln!(text, "{}\n", machine(results, "masu-lab memory"))?;
    text += "Memory in MiB: `Rss` of one process; of several, their proportional shares, so that what they \
             share counts once. Medians of the rounds. *× live*: over what the program holds by its own \
             account; Redis counts what blocks can hold, so coarser size classes make it more. *mean* and *peak* are over the whole run; page \
             faults are those by the last mark, instructions those in user mode of all processes, to their end. Every process was proven, by its mappings, \
             to be on its allocator and on none of the others.\n\n";
    let versions = results.allocators.iter().map(|(name, version)| format!("{name} {version}"));
    writeln!(text, "Allocators: {}.\n", versions.collect::<Vec<_>>().join(", "))?;
    for (what, why) in &results.missing {
        writeln!(text, "Not run: {what}: {why}\n")?;
    }
    if let Some(web) = &results.web {
        text += &web_part(results, web, files)?;
    }
    for measured in &results.scenarios {
        text += &scenario_part(results, measured, files)?;
    }
    println!("{text}");
    files.text("memory.md", &text)
}

fn scenario_part(results: &Results, measured: &Measured, files: &Files) -> Result<String> {
    let good = || measured.runs.iter().filter(|run| run.failed.is_none());
    let mut text = format!(
        "## {}\n\n{}. {}{}\n\n",
        measured.name,
        measured.about,
        ran(&measured.ran),
        other_rounds(results, measured)
    );
    if let Some(model) = good().next() {
        let names: Vec<_> = model.readings.iter().map(|reading| reading.name.clone()).collect();
        let figures: Vec<_> = model.figures.keys().cloned().collect();
        let with_live =
            model.readings.iter().any(|reading| reading.live.is_some_and(|kib| kib > 0));
        let mut header = vec![String::new()];
        for name in &names {
            header.push(name.clone());
            if with_live {
                header.push("× live".into());
            }
        }
        header.extend(["mean", "peak", "k faults", "M instr.", "processor s"].map(String::from));
        header.extend(figures.iter().filter(|name| *name != "processor").cloned());
        let rows: Vec<_> = (0..results.allocators.len())
            .map(|allocator| row(results, measured, allocator, &names, with_live, &figures))
            .collect();
        text += &markdown(&header, &rows);
        let series = (0..results.allocators.len()).filter_map(|allocator| {
            let run = good().rfind(|run| run.allocator == allocator)?;
            Some((results.allocators[allocator].0.clone(), &run.curve))
        });
        text += &curves(files, &measured.name, &series.collect::<Vec<_>>())?;
    }
    for run in measured.runs.iter() {
        if let Some(why) = &run.failed {
            writeln!(text, "Failed on {}: {why}\n", results.allocators[run.allocator].0)?;
        }
    }
    Ok(text)
}

/// How often it ran, if that was not as often as what was measured last.
fn other_rounds(results: &Results, measured: &Measured) -> String {
    match measured.runs.len() / results.allocators.len().max(1) {
        same if same == results.rounds => String::new(),
        rounds => format!(" {rounds} rounds."),
    }
}

fn row(
    results: &Results,
    measured: &Measured,
    allocator: usize,
    names: &[String],
    with_live: bool,
    figures: &[String],
) -> Vec<String> {
    let runs: Vec<_> = measured
        .runs
        .iter()
        .filter(|run| run.allocator == allocator && run.failed.is_none())
        .collect();
    let of = |value: &dyn Fn(&Ran) -> Option<f64>| {
        median(&runs.iter().filter_map(|run| value(run)).collect::<Vec<_>>())
    };
    let mut row = vec![results.allocators[allocator].0.clone()];
    for name in names {
        let reading = |run: &Ran| run.readings.iter().find(|one| one.name == *name).cloned();
        row.push(mib(of(&|run| Some(reading(run)?.memory.resident as f64))));
        if with_live {
            let ratio = of(&|run| {
                let reading = reading(run)?;
                let live = reading.live.filter(|kib| *kib > 0)?;
                Some(reading.memory.resident as f64 / live as f64)
            });
            row.push(ratio.map_or("–".into(), |ratio| format!("{ratio:.2}")));
        }
    }
    row.push(mib(of(&|run| Some(run.curve.mean(0.0, 1.0)))));
    row.push(mib(of(&|run| Some(run.curve.peak() as f64))));
    let count = |value: Option<f64>, unit: f64| {
        value.map_or("–".into(), |value| format!("{:.0}", value / unit))
    };
    let faults = of(&|run| Some(run.readings.last()?.faults as f64).filter(|count| *count > 0.0));
    row.push(count(faults, 1e3));
    row.push(count(of(&|run| run.instructions.map(|count| count as f64)), 1e6));
    // The program's own account is finer and leaves its start out.
    let own = of(&|run| run.figures.get("processor").copied());
    let all = of(&|run| Some(run.readings.last()?.processor));
    row.push(own.or(all).map_or("–".into(), |seconds| format!("{seconds:.2}")));
    for name in figures.iter().filter(|name| *name != "processor") {
        let value = of(&|run| run.figures.get(name).copied());
        row.push(value.map_or("–".into(), |value| format!("{value:.2}")));
    }
    row
}

fn web_part(results: &Results, web: &Web, files: &Files) -> Result<String> {
    let mut text = format!(
        "## Web servers under load\n\nAll servers live for {:.0} s and get the same requests in turn, {} at \
         once; the first {:.0} s do not count for latencies. {}. {} Five threads a process; a \
         cluster is two forked workers and their parent.\n\n*growth* is how much the mean of the last quarter is above \
         that of the one before.\n\n",
        web.seconds,
        web.concurrency,
        web.warm_up,
        web.settings,
        ran(&web.ran)
    );
    if web.ran.is_busy(results.machine.processors) {
        text += "**The machine was busy with other work**: memory holds, latencies and processor time are worth little.\n\n";
    }
    let mut kinds: Vec<&str> = web.servers.iter().map(|server| server.kind.as_str()).collect();
    kinds.dedup();
    for kind in kinds {
        let servers: Vec<_> = web.servers.iter().filter(|server| server.kind == kind).collect();
        let subject = subject(&servers);
        let others = format!("{}'s is", results.allocators[0].0);
        let header = [
            "",
            "mean MiB",
            &others,
            "last half",
            "growth",
            "peak",
            "p50 ms",
            "p95",
            "p99",
            "p99 by thirds",
            "processor ms",
            "requests",
            "failed",
        ];
        let rows: Vec<_> = servers.iter().map(|server| served(results, server, subject)).collect();
        writeln!(text, "### {kind}\n\n{}", markdown(&header.map(String::from), &rows))?;
        let series: Vec<_> = servers
            .iter()
            .map(|server| (results.allocators[server.allocator].0.clone(), &server.curve))
            .collect();
        text += &curves(files, kind, &series)?;
        for server in &servers {
            if let Some(why) = &server.failed {
                writeln!(text, "Failed on {}: {why}\n", results.allocators[server.allocator].0)?;
            }
        }
    }
    Ok(text)
}

/// The mean memory of the first allocator, unless it failed.
fn subject(servers: &[&Served]) -> Option<f64> {
    let first = servers.iter().find(|server| server.allocator == 0 && server.failed.is_none())?;
    Some(first.curve.mean(0.0, 1.0))
}

fn served(results: &Results, server: &Served, subject: Option<f64>) -> Vec<String> {
    let mut row = vec![results.allocators[server.allocator].0.clone()];
    if server.failed.is_some() {
        row.extend(std::iter::repeat_n("–".into(), 12));
        return row;
    }
    let mean = server.curve.mean(0.0, 1.0);
    let [_, p50, p95, p99] = server.latency;
    let growth = server.curve.mean(0.75, 1.0) / server.curve.mean(0.5, 0.75) - 1.0;
    row.push(mib(Some(mean)));
    let relative = |subject: f64| format!("{:+.1} %", (subject / mean - 1.0) * 100.0);
    row.push(subject.map_or("–".into(), relative));
    row.push(mib(Some(server.curve.mean(0.5, 1.0))));
    row.push(format!("{:+.1} %", growth * 100.0));
    row.push(mib(Some(server.curve.peak() as f64)));
    row.extend([p50, p95, p99].map(|ms| format!("{ms:.2}")));
    row.push(server.thirds.map(|ms| format!("{ms:.1}")).join(" "));
    row.push(format!("{:.2}", server.processor_ms));
    row.push(server.requests.to_string());
    row.push(server.errors.to_string());
    row
}

/// Draws curves and returns the reference to the chart.
fn curves(files: &Files, name: &str, all: &[(String, &Curve)]) -> Result<String> {
    let panel = |title: &str, value: fn(&(f64, u64, u64)) -> u64| Panel {
        title: format!("{name}: {title}"),
        x: Axis::Linear("seconds"),
        y: Axis::Linear("MiB"),
        series: all
            .iter()
            .map(|(name, curve)| Series {
                name: name.clone(),
                points: curve
                    .0
                    .iter()
                    .map(|point| (point.0, value(point) as f64 / 1024.0))
                    .collect(),
            })
            .collect(),
    };
    let file = format!("memory/{name}.svg");
    let panels = [panel("resident", |point| point.1), panel("anonymous", |point| point.2)];
    chart::lines(&files.path(&file)?, &panels, 2)?;
    Ok(format!("\n![memory over time]({file})\n\n"))
}

fn ran(when: &When) -> String {
    format!("Ran {}, masu {}, load {}.", when.date, when.version, when.load)
}

/// KiB as MiB, in a figure or two.
pub fn mib(kib: Option<f64>) -> String {
    match kib.map(|kib| kib / 1024.0) {
        Some(mib) if mib < 10.0 => format!("{mib:.1}"),
        Some(mib) => format!("{mib:.0}"),
        None => "–".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_run_measured_has_its_own_rounds() {
        let mut results = Results::begun(1, &[]);
        results.allocators = ["masu", "glibc"].map(|name| (name.into(), "1".into())).to_vec();
        let measured = |runs: usize| Measured {
            name: "redis".into(),
            about: "values".into(),
            ran: When::now("1"),
            runs: (0..runs).map(|_| Ran::default()).collect(),
        };
        assert_eq!(other_rounds(&results, &measured(6)), " 3 rounds.");
        assert_eq!(other_rounds(&results, &measured(2)), "");
    }

    #[test]
    fn nobody_is_compared_with_a_server_that_failed() {
        let server = |allocator, kib, failed: Option<&str>| Served {
            failed: failed.map(String::from),
            requests: 1,
            latency: [1.0; 4],
            thirds: [1.0; 3],
            processor_ms: 1.0,
            processes: 1,
            curve: Curve(vec![(0.0, kib, kib), (1.0, kib, kib)]),
            ..Served::of("rails", allocator)
        };
        let mut results = Results::begun(1, &[]);
        results.allocators = ["masu", "glibc"].map(|name| (name.into(), "1".into())).to_vec();
        let (masu, glibc) = (server(0, 90, None), server(1, 100, None));
        let relative =
            |masu: &Served| served(&results, &glibc, subject(&[masu, &glibc]))[2].clone();
        assert_eq!(relative(&masu), "-10.0 %");
        assert_eq!(relative(&server(0, 0, Some("it ended"))), "–");
    }
}

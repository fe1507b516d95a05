//! Tables of what was found.

use std::fmt::Write;

use anyhow::Result;

use super::results::{Level, Measured, Ran, Results};
use crate::experiments::files::{Files, markdown};
use crate::memory::report::mib;
use crate::stats::{geometric_mean, median};

/// A ratio above 1 by less than this is no loss.
const TIE: f64 = 0.03;

/// A line of a table: one figure of a service, for each allocator.
struct Row {
    /// What tables call it.
    name: String,
    /// What it belongs to in the overview.
    group: &'static str,
    unit: Unit,
    /// The median of the rounds, for each allocator.
    values: Vec<Option<f64>>,
    /// How far the rounds of one allocator are apart, in the median of the allocators: 0.1 is a tenth. Unknown of one
    /// round.
    spread: Option<f64>,
}

#[derive(Clone, Copy, PartialEq)]
enum Unit {
    Microseconds,
    Count,
    Kib,
}

/// The columns of the overview.
const GROUPS: [&str; 7] =
    ["processor time", "p50", "p99", "p99.9", "memory under load", "peak", "after rest"];

/// Writes `servers.md`, and prints it.
pub fn write(results: &Results, files: &Files) -> Result<()> {
    let text = page(results)?;
    println!("{text}");
    files.text("servers.md", &text)
}

/// Prints it.
pub fn print(results: &Results) -> Result<()> {
    println!("{}", page(results)?);
    Ok(())
}

fn page(results: &Results) -> Result<String> {
    let machine = &results.machine;
    let mut text = String::from("# Busy servers\n\n");
    writeln!(
        text,
        "{}; {} processors ({}), {} MiB, Linux {}, {}, huge pages `{}`, load {} at the start. Made by \
         `masu-lab servers`.\n",
        results.date,
        machine.processors,
        machine.processor,
        machine.memory_mib,
        machine.kernel,
        machine.system,
        machine.huge_pages,
        machine.load,
    )?;
    text += "One server at a time is loaded at shares of the rate that glibc sustains, with the same requests on every \
             allocator. Latencies count from the planned start of a request, so a stall delays all that should have \
             begun in it. Processor time is that of all processes of the server. Memory is `Rss` of one process; of several, \
             the sum of their `Pss`. *After rest* is five seconds after the last request, beside the load of the next service. \
             Medians of the rounds; in brackets the ratio to the best of the row. *spread* is how far the \
             rounds of one allocator lie apart. [How it is measured](README.md#how-busy-servers-are-measured).\n\n";
    let versions = results.allocators.iter().map(|(name, version)| format!("{name} {version}"));
    writeln!(text, "Allocators: {}.\n", versions.collect::<Vec<_>>().join(", "))?;
    for (what, why) in &results.missing {
        writeln!(text, "Not run: {what}: {}\n", why.lines().next().unwrap_or_default())?;
    }
    let all: Vec<(&Measured, Vec<Row>)> =
        results.services.iter().map(|service| (service, rows(results, service))).collect();
    text += &overview(results, &all)?;
    text += &losses(results, &all)?;
    for (service, rows) in &all {
        text += &table(results, service, rows)?;
    }
    Ok(text)
}

/// The lines of a service's table.
fn rows(results: &Results, service: &Measured) -> Vec<Row> {
    let row = |name: String, group, unit, value: &dyn Fn(&Ran) -> Option<f64>| {
        let of = |allocator: usize| -> Vec<f64> {
            let runs = service.runs.iter();
            let good = runs.filter(|run| run.allocator == allocator && run.failed.is_none());
            good.filter_map(value).collect()
        };
        let all: Vec<_> = (0..results.allocators.len()).map(of).collect();
        let spread = |values: &Vec<f64>| {
            let lowest = values.iter().copied().min_by(f64::total_cmp)?;
            let highest = values.iter().copied().max_by(f64::total_cmp)?;
            (values.len() > 1 && lowest > 0.0).then(|| highest / lowest - 1.0)
        };
        let spread = median(&all.iter().filter_map(spread).collect::<Vec<_>>());
        Row { name, group, unit, values: all.iter().map(|values| median(values)).collect(), spread }
    };
    let mut percents: Vec<u32> =
        service.runs.iter().flat_map(|run| &run.levels).map(|level| level.percent).collect();
    percents.sort_unstable();
    percents.dedup();
    type Figure = fn(&Level) -> Option<f64>;
    // A quantile needs five requests beyond it.
    let figures: [(&str, &str, Unit, Figure); 5] = [
        ("processor time", "processor time", Unit::Microseconds, |one| Some(one.processor_us)),
        ("p50", "p50", Unit::Microseconds, |one| Some(one.p50_us)),
        ("p99", "p99", Unit::Microseconds, |one| (one.requests >= 500).then_some(one.p99_us)),
        ("p99.9", "p99.9", Unit::Microseconds, |one| {
            (one.requests >= 5_000).then_some(one.p999_us)
        }),
        ("page faults", "", Unit::Count, |one| Some(one.faults)),
    ];
    let mut rows = Vec::new();
    for (name, group, unit, figure) in figures {
        for &percent in &percents {
            let value = |run: &Ran| {
                run.levels.iter().find(|level| level.percent == percent).and_then(figure)
            };
            rows.push(row(format!("{name}, {percent} %"), group, unit, &value));
        }
    }
    let mean = |run: &Ran| {
        let all: f64 = run.levels.iter().map(|level| level.mean_kib).sum();
        (!run.levels.is_empty()).then(|| all / run.levels.len() as f64)
    };
    rows.push(row("memory under load".into(), "memory under load", Unit::Kib, &mean));
    rows.push(row("peak".into(), "peak", Unit::Kib, &|run| Some(run.peak_kib as f64)));
    rows.push(row("after rest".into(), "after rest", Unit::Kib, &|run| Some(run.rest_kib as f64)));
    rows.retain(|row| row.values.iter().any(Option::is_some));
    rows
}

impl Row {
    fn best(&self) -> Option<(usize, f64)> {
        let known = self.values.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?)));
        known.min_by(|one, other| one.1.total_cmp(&other.1))
    }

    /// The ratio to the best; none where that is next to nothing.
    fn ratio(&self, allocator: usize) -> Option<f64> {
        let (_, best) = self.best()?;
        let least = if self.unit == Unit::Count { 0.05 } else { 0.0 };
        (best > least).then_some(self.values[allocator]? / best)
    }

    fn shown(&self, allocator: usize) -> String {
        let Some(value) = self.values[allocator] else { return "–".into() };
        let value = match self.unit {
            Unit::Microseconds if value >= 10_000.0 => format!("{:.1} ms", value / 1e3),
            Unit::Microseconds if value >= 1_000.0 => format!("{:.2} ms", value / 1e3),
            Unit::Microseconds => format!("{value:.0} µs"),
            Unit::Count if value < 10.0 => format!("{value:.2}"),
            Unit::Count => format!("{value:.0}"),
            Unit::Kib => format!("{} MiB", mib(Some(value))),
        };
        match self.ratio(allocator) {
            Some(_) if self.best().is_some_and(|best| best.0 == allocator) => {
                format!("**{value}**")
            }
            Some(ratio) => format!("{value} ({ratio:.2})"),
            None => value,
        }
    }
}

/// Everybody's geometric mean of the ratios to the best of each row.
fn overview(results: &Results, all: &[(&Measured, Vec<Row>)]) -> Result<String> {
    let mean = |allocator: usize, group: &str| {
        let rows = all.iter().flat_map(|(_, rows)| rows).filter(|row| row.group == group);
        geometric_mean(&rows.filter_map(|row| row.ratio(allocator)).collect::<Vec<_>>())
    };
    let header: Vec<_> = std::iter::once("").chain(GROUPS).map(String::from).collect();
    let line = |allocator: usize| {
        let mut line = vec![results.allocators[allocator].0.clone()];
        line.extend(GROUPS.iter().map(|group| {
            mean(allocator, group).map_or("–".into(), |ratio| format!("{ratio:.3}"))
        }));
        line
    };
    let lines: Vec<_> = (0..results.allocators.len()).map(line).collect();
    Ok(format!(
        "## All services\n\nThe geometric mean of the ratios to the best of each row; 1 is the best everywhere.\n\n{}\n",
        markdown(&header, &lines)
    ))
}

/// Where the first allocator is behind the best one by more than the rounds lie apart.
fn losses(results: &Results, all: &[(&Measured, Vec<Row>)]) -> Result<String> {
    let subject = &results.allocators[0].0;
    let mut lost = Vec::new();
    for (service, rows) in all {
        for row in rows {
            let (Some(ratio), Some((best, _))) = (row.ratio(0), row.best()) else { continue };
            if ratio > 1.0 + row.spread.unwrap_or(TIE).max(TIE) {
                let winner = results.allocators[best].0.clone();
                lost.push((ratio, service.name.clone(), row.name.clone(), winner, row.spread));
            }
        }
    }
    lost.sort_by(|one, other| other.0.total_cmp(&one.0));
    let total: usize = all.iter().map(|(_, rows)| rows.len()).sum();
    let header = ["service", "figure", "ratio", "best", "spread"].map(String::from);
    let lines: Vec<_> = lost
        .into_iter()
        .map(|(ratio, service, name, winner, spread)| {
            vec![service, name, format!("{ratio:.2}"), winner, percent(spread)]
        })
        .collect();
    Ok(format!(
        "## Where {subject} is behind\n\n{} of {total} rows, by more than {:.0} % and more than their spread.\n\n{}\n",
        lines.len(),
        TIE * 100.0,
        markdown(&header, &lines)
    ))
}

fn percent(share: Option<f64>) -> String {
    share.map_or("–".into(), |share| format!("{:.0} %", share * 100.0))
}

fn table(results: &Results, service: &Measured, rows: &[Row]) -> Result<String> {
    let rounds = service.runs.iter().map(|run| run.round + 1).max().unwrap_or(0);
    let mut text = format!(
        "## {}\n\n{}. {:.0} requests a second are 100 %, over {} connections; {:.1} s at each level, {rounds} \
         rounds. Ran {}, masu {}, load {}.\n\n",
        service.name,
        service.about,
        service.capacity,
        service.connections,
        service.seconds,
        service.ran.date,
        service.ran.version,
        service.ran.load
    );
    if service.ran.is_busy(results.machine.processors) {
        text +=
            "**The machine was busy with other work**: memory holds, the rest is worth little.\n\n";
    }
    let mut header = vec![String::new()];
    header.extend(results.allocators.iter().map(|(name, _)| name.clone()));
    header.push("spread".into());
    let line = |row: &Row| {
        let mut line = vec![row.name.clone()];
        line.extend((0..results.allocators.len()).map(|allocator| row.shown(allocator)));
        line.push(percent(row.spread));
        line
    };
    text += &markdown(&header, &rows.iter().map(line).collect::<Vec<_>>());
    text.push('\n');
    for run in &service.runs {
        let name = &results.allocators[run.allocator].0;
        if let Some(why) = &run.failed {
            writeln!(text, "Failed on {name}: {}\n", why.lines().next().unwrap_or_default())?;
        }
        for level in run.levels.iter().filter(|level| level.unsent + level.errors > 0) {
            writeln!(
                text,
                "{name}, {} %, round {}: of {} requests {} failed and {} were not sent in time{}\n",
                level.percent,
                run.round + 1,
                level.requests,
                level.errors,
                level.unsent,
                level.first_error.as_ref().map_or(String::new(), |error| format!(" ({error})")),
            )?;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::results::When;
    use crate::race::machine::Machine;

    fn ran(allocator: usize, round: usize, cost: f64, faults: f64) -> Ran {
        let level = Level {
            percent: 60,
            requests: 1_000,
            processor_us: cost,
            faults,
            p50_us: cost,
            p99_us: 2.0 * cost,
            mean_kib: 20_480.0,
            ..Level::default()
        };
        Ran {
            allocator,
            round,
            levels: vec![level],
            peak_kib: 30_720,
            rest_kib: 10_240,
            failed: None,
        }
    }

    fn results(runs: Vec<Ran>) -> Results {
        let ran = When { date: "now".into(), load: "0.1".into(), version: "1".into() };
        Results {
            date: "now".into(),
            machine: Machine::here(),
            allocators: vec![("masu".into(), "1".into()), ("glibc".into(), "2".into())],
            missing: vec![("nginx".into(), "not installed\nand more".into())],
            services: vec![Measured {
                name: "redis".into(),
                about: "values".into(),
                ran,
                connections: 8,
                capacity: 1000.0,
                seconds: 2.0,
                runs,
            }],
        }
    }

    #[test]
    fn ratios_are_to_the_best_of_the_row_and_losses_are_named() {
        let runs = vec![ran(0, 0, 120.0, 0.0), ran(1, 0, 100.0, 0.01)];
        let page = page(&results(runs)).unwrap();
        assert!(page.contains("120 µs (1.20)") && page.contains("**100 µs**"), "{page}");
        assert!(page.contains("Not run: nginx: not installed\n"), "{page}");
        let lost = page.split("is behind").nth(1).unwrap().split("## redis").next().unwrap();
        assert!(lost.contains("processor time, 60 %") && lost.contains("p99, 60 %"), "{lost}");
        // Equal memory is no loss; of a thousand requests there is no p99.9; nothing to nothing has no ratio.
        assert!(!lost.contains("peak") && !lost.contains("page faults"), "{lost}");
        assert!(!page.contains("p99.9, 60") && page.contains("20 MiB"), "{page}");
    }

    #[test]
    fn what_lies_within_the_spread_is_no_loss() {
        let runs = [(0, 0, 120.0), (0, 1, 90.0), (1, 0, 80.0), (1, 1, 110.0)]
            .map(|(allocator, round, cost)| ran(allocator, round, cost, 0.0));
        let page = page(&results(runs.to_vec())).unwrap();
        assert!(page.contains("105 µs (1.11)"), "{page}");
        assert!(page.contains("0 of"), "{page}");
    }

    #[test]
    fn a_failure_has_its_reason_and_no_figures() {
        let failed = Ran { allocator: 1, failed: Some("it ended".into()), ..Ran::default() };
        let page = page(&results(vec![ran(0, 0, 100.0, 1.0), failed])).unwrap();
        assert!(page.contains("Failed on glibc: it ended"), "{page}");
        assert!(page.contains(" – |"), "{page}");
    }
}

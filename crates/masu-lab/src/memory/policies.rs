//! What masu's policies cost and save: the same programs under each, and a table for their page.
//!
//! A policy trades memory for page faults. So the table has, for each program: memory on the mean and
//! after a rest, page faults, instructions in user mode, and processor time. But for the last, none of
//! these depends on how busy the machine is.

use std::fs;

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::allocator::{Allocator, POLICIES};
use super::report::mib;
use super::results::{Measured, Ran, Results, machine};
use super::{interrupt, measure, scenarios};
use crate::experiments::files::{Files, markdown, write};
use crate::paths;
use crate::race::machine::Machine;
use crate::stats::median;

/// Programs of the kinds that policies are for.
const SCENARIOS: [&str; 5] = ["ruby-jobs", "python-service", "redis", "postgresql", "batch"];

/// Where the table goes.
const PAGE: &str = "docs/benchmarks/policies.md";
/// What surrounds the table in its page.
const MARKS: [&str; 2] =
    ["<!-- made by `masu-lab policies` -->", "<!-- end of what `masu-lab policies` made -->"];

/// Options of the comparison.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Only these of the memory suite's programs; without --out their figures are only printed
    #[arg(long, value_delimiter = ',', value_name = "NAME,..", default_values = SCENARIOS)]
    only: Vec<String>,
    /// How often each runs under each policy; a round takes about four minutes
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// One round
    #[arg(long)]
    quick: bool,
    /// Make the table again from policies.json
    #[arg(long)]
    report: bool,
    #[command(flatten)]
    files: Files,
}

/// Measures, writes `policies.json`, and puts the table into `docs/benchmarks/policies.md` (with
/// `--out`, into `policies.md` there).
pub fn run(options: &Options) -> Result<()> {
    // A part of them says nothing of all.
    let is_part = !options.report && options.only != SCENARIOS && !options.files.are_elsewhere();
    let results = if options.report {
        options.files.read("policies.json")?
    } else {
        let results = compare(options)?;
        if !is_part {
            options.files.json("policies.json", &results)?;
        }
        results
    };
    let text = table(&results)?;
    println!("{text}");
    if is_part {
        return Ok(());
    }
    if options.files.are_elsewhere() {
        return options.files.text("policies.md", &text);
    }
    let page = paths::workspace().join(PAGE);
    let before = fs::read_to_string(&page)?;
    write(&page, &placed(&before, &text)?)
}

fn compare(options: &Options) -> Result<Results> {
    let names: Vec<_> = POLICIES.iter().map(|policy| format!("masu:{policy}")).collect();
    interrupt::listen()?;
    let machine = Machine::here();
    let allocators = Allocator::all(&names)?;
    let rounds = if options.quick { 1 } else { options.rounds };
    let mut results = Results { machine, ..Results::begun(rounds, &allocators) };
    for name in &options.only {
        let scenario = scenarios::ALL.iter().find(|one| one.name == *name);
        let scenario = scenario
            .with_context(|| format!("no program {name}: `masu-lab memory --list` names them"))?;
        results.scenarios.push(measure(scenario, &allocators, results.rounds)?);
    }
    Ok(results)
}

/// A measure of a run.
type Measure = fn(&Ran) -> Option<f64>;

/// A row of each program: its name, the measure, and what shows a value.
type Row = (&'static str, Measure, fn(f64) -> String);

/// The rows.
const MEASURES: [Row; 5] = [
    ("mean MiB", |run| Some(run.curve.mean(0.0, 1.0)), |kib| mib(Some(kib))),
    ("MiB at rest", |run| Some(run.readings.last()?.memory.resident as f64), |kib| mib(Some(kib))),
    (
        "thousand faults",
        |run| Some(run.readings.last()?.faults as f64),
        |count| format!("{:.1}", count / 1e3),
    ),
    (
        "M instructions",
        |run| run.instructions.map(|count| count as f64),
        |count| format!("{:.0}", count / 1e6),
    ),
    (
        "processor s",
        |run| run.figures.get("processor").copied().or(Some(run.readings.last()?.processor)),
        |seconds| format!("{seconds:.2}"),
    ),
];

fn table(results: &Results) -> Result<String> {
    let mut header = vec!["program".to_string(), "".into()];
    let policies: Vec<_> = results
        .allocators
        .iter()
        .map(|(name, _)| format!("`{}`", name.strip_prefix("masu:").unwrap_or(name)))
        .collect();
    header.extend(policies);
    let rows = results.scenarios.iter().flat_map(|scenario| {
        let values = move |measure| {
            (0..results.allocators.len()).map(move |allocator| value(scenario, allocator, measure))
        };
        // Not every machine counts instructions.
        let measured = move |row: &&Row| values(row.1).any(|value| value.is_some());
        MEASURES.iter().filter(measured).enumerate().map(move |(number, (what, measure, show))| {
            let name = if number == 0 { scenario.name.clone() } else { String::new() };
            let mut row = vec![name, (*what).to_string()];
            row.extend(values(*measure).map(|value| value.map_or("–".into(), show)));
            row
        })
    });
    let rows: Vec<_> = rows.collect();
    ensure!(!rows.is_empty(), "nothing was measured");
    let mut text = format!(
        "{}\n{} Medians; memory is resident; instructions are those in user mode; processor time is the \
         only figure that a busy machine changes.\n\n",
        markdown(&header, &rows),
        machine(results, "masu-lab policies"),
    );
    for scenario in &results.scenarios {
        text += &format!("- *{}*: {}.\n", scenario.name, scenario.about);
        for run in &scenario.runs {
            if let Some(why) = &run.failed {
                text += &format!("  Failed under {}: {why}\n", results.allocators[run.allocator].0);
            }
        }
    }
    Ok(text)
}

/// The median over the good runs of a scenario under a policy.
fn value(scenario: &Measured, allocator: usize, measure: Measure) -> Option<f64> {
    let good =
        scenario.runs.iter().filter(|run| run.allocator == allocator && run.failed.is_none());
    median(&good.filter_map(measure).collect::<Vec<_>>())
}

/// The page with the table in its place.
fn placed(page: &str, table: &str) -> Result<String> {
    let [begin, end] = MARKS;
    let (before, rest) = page.split_once(begin).with_context(|| format!("{PAGE} has no place"))?;
    let (_, after) = rest.split_once(end).with_context(|| format!("{PAGE} has no end of it"))?;
    Ok(format!("{before}{begin}\n{table}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::results::{Curve, When};

    fn run(allocator: usize, resident: u64, faults: u64) -> Ran {
        let reading = serde_json::json!({"name": "idle", "seconds": 1.0, "processor": 0.25, "faults": faults,
            "processes": 1, "resident": resident, "anonymous": 0, "file": 0, "lazily_freed": 0, "huge": 0});
        Ran {
            allocator,
            readings: vec![serde_json::from_value(reading).unwrap()],
            curve: Curve(vec![(0.0, resident, 0), (1.0, resident, 0)]),
            instructions: Some(3_000_000),
            ..Ran::default()
        }
    }

    #[test]
    fn a_policys_row_has_its_medians_and_failures_are_named() {
        let failed = Ran { allocator: 1, failed: Some("why".into()), ..run(1, 1, 1) };
        let runs =
            vec![run(0, 20 << 10, 1500), run(0, 40 << 10, 1500), run(1, 8 << 10, 77), failed];
        let (name, about) = ("jobs".to_string(), "work".to_string());
        let ran = When { date: String::new(), load: String::new(), version: String::new() };
        let results = Results {
            date: String::new(),
            machine: Machine::here(),
            rounds: 2,
            allocators: ["masu:default", "masu:container"]
                .map(|name| (name.into(), "1".into()))
                .into(),
            missing: Vec::new(),
            scenarios: vec![Measured { name, about, ran, runs }],
            web: None,
        };
        let text = table(&results).unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "| program | | `default` | `container` |",
            "| jobs | mean MiB | 30 | 8.0 |",
            "| | MiB at rest | 30 | 8.0 |",
            "| | thousand faults | 1.5 | 0.1 |",
            "| | M instructions | 3 | 3 |",
            "| | processor s | 0.25 | 0.25 |",
            "Failed under masu:container: why",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn the_table_takes_the_place_of_the_earlier_one() {
        let [begin, end] = MARKS;
        let page = format!("# A\n{begin}\nold\n{end}\nB\n");
        assert_eq!(placed(&page, "new\n").unwrap(), format!("# A\n{begin}\nnew\n{end}\nB\n"));
        assert!(placed("# A\n", "new").is_err());
        let page = fs::read_to_string(paths::workspace().join(PAGE)).unwrap();
        placed(&page, "").unwrap();
    }
}

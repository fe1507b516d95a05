//! The command `masu-lab race`: suites of workloads and programs on every allocator, in bounded
//! time, into the reports of `docs/benchmarks`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use std::{fs, io};

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use masu_bench::race::duration;
use masu_bench::race::results::Absent;
use masu_bench::report::{Comparison, Mean, Metric, Summary};
use masu_bench::suite::{self, Choice, SUITES};
use masu_bench::work;

use crate::arm::{self, Arm};
use crate::experiments::chart;
use crate::experiments::files::{self, RAW};
use crate::progress::Progress;
use crate::race::machine::Machine;
use crate::race::results::Results;
use crate::{paths, peers, race, report, scale};

/// The peers that the goal of this project names, beside glibc.
pub const PEERS: [&str; 7] =
    ["jemalloc", "mimalloc2", "mimalloc3", "tcmalloc", "snmalloc", "rpmalloc", "rusty_alloc"];

/// Entries of the system's allocator beside its first and second: with the second they are as many
/// as there are peers.
const COPIES: usize = 6;

/// What the committed pages are of.
const ROUNDS: usize = 7;
const SUBJECT: &str = "masu";
const SEED: u64 = 1;

/// What can be asked for.
#[derive(Args)]
pub struct Options {
    /// What is run: `full`, `workloads`, `programs`, `quick`, or single workloads and programs.
    #[arg(
        long,
        alias = "only",
        value_delimiter = ',',
        value_name = "S,..",
        value_parser = suite_name,
        default_value = "full"
    )]
    suite: Vec<String>,
    /// The time that all of it may take, such as 20m. Rows that are noisy get more rounds if there
    /// is time, and the steadier ones fewer if there is not.
    #[arg(long, value_name = "T", value_parser = duration)]
    time: Option<Duration>,
    /// How often each workload runs on each allocator.
    #[arg(long, value_name = "N", default_value_t = ROUNDS)]
    rounds: usize,
    /// A factor on the workloads' work; that of programs is fixed [default: each workload's own,
    /// so that none is over in a few milliseconds].
    #[arg(long, value_name = "F")]
    scale: Option<f64>,
    /// The allocators to compare with; by default glibc and its seven strongest rivals. `all` is
    /// every peer that was built.
    #[arg(long, value_delimiter = ',', value_name = "A,..", value_parser = arm_name)]
    against: Vec<String>,
    /// The allocator that is compared.
    #[arg(long, value_name = "A", default_value = SUBJECT)]
    subject: String,
    /// Compare the programs that have an allocator linked in, musl's malloc among them.
    #[arg(long, conflicts_with_all = ["against", "subject"])]
    linked: bool,
    /// Where the workloads' random choices start.
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,
    /// Give a run up after so long.
    #[arg(long, value_name = "T", value_parser = duration, default_value = "60s")]
    timeout: Duration,
    /// Enter so many more copies of the system's allocator, to show what choosing the best of
    /// several does [default: 6 for suites].
    #[arg(long, value_name = "N")]
    null_copies: Option<usize>,
    /// Count instructions under callgrind too, on this factor of the work.
    #[arg(long, value_name = "F", num_args = 0..=1, default_missing_value = "0.01")]
    instructions: Option<f64>,
    /// Leave the scale model out of a suite's report.
    #[arg(long)]
    no_scale_model: bool,
    /// Write STEM.json, STEM.md and STEM.html [default for suites: the tables as docs/benchmarks/SUITE.md
    /// or linked.md, the others below results; all of them below results, as SUITE-otherwise, if something
    /// but the time is not as usual].
    #[arg(long, value_name = "STEM")]
    out: Option<PathBuf>,
    #[command(flatten)]
    files: Files,
}

/// A name that `--suite` takes.
fn suite_name(name: &str) -> Result<String, String> {
    let known = Choice::of(&[name.into()]);
    known.map(|_| name.into()).map_err(|unknown| format!("{unknown}; {}", suite::names()))
}

/// A name that `--against` takes.
fn arm_name(name: &str) -> Result<String, String> {
    let known = if name == "all" { Ok(()) } else { arm::named(name).map(drop) };
    known.map(|()| name.into()).map_err(|error| format!("{error:#}"))
}

/// Single files.
#[derive(Args)]
pub struct Files {
    /// Write the raw results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the tables as Markdown.
    #[arg(long, value_name = "FILE")]
    md: Option<PathBuf>,
    /// Write everything as one HTML page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Draw everybody's time against their memory, compared with the best of each row, as SVG.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Races and reports.
pub fn run(options: &Options) -> Result<()> {
    // Builds and the scale model load it, and are no other programs.
    let machine = Machine::here();
    work::build()?;
    match options.linked_in().as_slice() {
        _ if options.linked => drop(peers::relink(&[])?),
        [] => paths::build_masu_library()?,
        some => {
            peers::relink(some)?;
            paths::build_masu_library()?;
        }
    }
    // What is built is not part of the race.
    let start = Instant::now();
    let suite =
        Choice::of(&options.suite).map_err(|unknown| anyhow!("{unknown}; {}", suite::names()))?;
    let is_suite = options.suite.iter().all(|name| SUITES.iter().any(|(suite, _)| name == suite));
    let (arms, mut absent) = options.arms()?;
    let suite = suite.prepare(options.seed, options.scale)?;
    absent.extend(suite.absent);
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stop.clone()).context("cannot listen to signals")?;
    }
    // First, so that the race knows what is left for it.
    let model = match is_suite && !options.linked && !options.no_scale_model {
        true => Some(scale::usual(options.time.map_or(Duration::MAX, |time| time / 20))?),
        false => None,
    };
    let left = |time: Duration| time.saturating_sub(start.elapsed()).saturating_sub(REPORT);
    let plan = race::Plan {
        rounds: options.rounds,
        uncertain: options.rounds,
        time: options.time.map(left),
        limit: options.timeout,
        copies: options.null_copies.unwrap_or(if is_suite { COPIES } else { 0 }),
        warm_mib: 2048,
        instructions: options.instructions,
        absent,
        stop,
        // musl's programs are static and on another C library, which shows in their memory.
        aside: (1..arms.len()).filter(|&arm| arms[arm].name == "musl").collect(),
        ..race::Plan::new(arms, suite.tasks)
    };
    let progress = Progress::new(plan.rounds);
    let mut results = race::run(&plan, |step| progress.race(step))?;
    progress.done();
    results.machine = machine;
    if let Some(model) = model {
        (results.scale, results.scale_check) = (model.curves, model.check);
    }
    options.show(&results, is_suite)
}

/// What the names of arms that are linked in begin with.
const LINKED: &str = "linked:";

/// What writing the reports takes, at most.
const REPORT: Duration = Duration::from_secs(5);

impl Options {
    /// The allocators that are asked for as linked in, by their own names.
    fn linked_in(&self) -> Vec<String> {
        let named = self.against.iter().chain([&self.subject]);
        named.filter_map(|name| name.strip_prefix(LINKED)).map(String::from).collect()
    }

    /// Who takes part, and who cannot.
    fn arms(&self) -> Result<(Vec<Arm>, Vec<Absent>)> {
        if self.linked {
            return linked();
        }
        let names: Vec<&str> = match self.against.as_slice() {
            [] => PEERS.to_vec(),
            names => names.iter().map(String::as_str).collect(),
        };
        let mut arms = vec![arm::named(&self.subject)?, Arm::glibc()];
        let mut absent = Vec::new();
        if names == ["all"] {
            arms.extend(arm::built_peers()?);
            let list = peers::list()?.into_iter();
            absent.extend(list.filter_map(|p| Some(Absent { name: p.name, reason: p.reason? })));
        } else {
            for name in names {
                match (arm::named(name), self.against.is_empty()) {
                    (Ok(arm), _) => arms.push(arm),
                    (Err(error), false) => return Err(error),
                    (Err(_), true) => absent.push(missing(name)),
                }
            }
        }
        let mut seen = std::collections::HashSet::new();
        arms.retain(|arm| seen.insert(arm.name.clone()));
        Ok((arms, absent))
    }

    /// Whether everything but the time is as in the committed pages.
    fn is_usual(&self) -> bool {
        let is_plain =
            self.against.is_empty() && self.scale.is_none() && self.null_copies.is_none();
        let is_whole = self.instructions.is_none() && !self.no_scale_model;
        // Programs can have nothing linked in.
        let is_of_page = !self.linked || self.suite == ["workloads"];
        let raced = (self.rounds, self.subject.as_str(), self.seed);
        is_plain && is_whole && is_of_page && raced == (ROUNDS, SUBJECT, SEED)
    }

    /// Where files go that nobody named, if they go anywhere.
    fn usual(&self, is_suite: bool) -> Files {
        let mut name = match self.linked {
            true => "linked".into(),
            false => self.suite.join("-"),
        };
        let mut pages = "docs/benchmarks";
        if !self.is_usual() {
            (name, pages) = (name + "-otherwise", RAW);
        }
        let file = |usual: &str, extension: &str| {
            let usual = || is_suite.then(|| paths::workspace().join(usual).join(&name));
            let stem = self.out.clone().or_else(usual)?;
            Some(PathBuf::from(format!("{}.{extension}", stem.display())))
        };
        let (json, html) = (file(RAW, "json"), file(RAW, "html"));
        Files { json, md: file(pages, "md"), html, svg: None }
    }

    /// Prints the report and writes the files.
    fn show(&self, results: &Results, is_suite: bool) -> Result<()> {
        self.usual(is_suite).write(results)?;
        self.files.write(results)?;
        print(results);
        Ok(())
    }
}

/// Why a peer does not take part.
fn missing(name: &str) -> Absent {
    let reason = match peers::list() {
        Ok(list) => list.into_iter().find(|peer| peer.name == name).and_then(|peer| peer.reason),
        Err(_) => None,
    };
    Absent {
        name: name.into(),
        reason: reason.unwrap_or_else(|| "`masu-lab peers` has not built it".into()),
    }
}

/// The programs with an allocator linked in: masu's first, and who has none.
fn linked() -> Result<(Vec<Arm>, Vec<Absent>)> {
    let mut arms = arm::linked()?;
    let masu = arms.iter().position(|arm| arm.name.strip_prefix(LINKED) == Some("masu"));
    let masu = arms
        .remove(masu.context("masu is not linked in: `masu-lab peers --linked masu` says why")?);
    arms.insert(0, masu);
    arms.insert(1, Arm::glibc());
    let list = peers::list()?.into_iter();
    // All of them are linked in here: that need not be said of each.
    for arm in &mut arms {
        arm.name = arm.name.trim_start_matches(LINKED).into();
    }
    let reason = |peer: peers::Peer| Some(Absent { name: peer.name, reason: peer.program_reason? });
    Ok((arms, list.filter_map(reason).collect()))
}

/// Reads the results of an earlier race.
pub fn again(results: &PathBuf, files: &Files) -> Result<()> {
    ensure!(files.json.is_none(), "the raw results are there already");
    let results = Results::parse(&fs::read_to_string(results)?)?;
    files.write(&results)?;
    print(&results);
    Ok(())
}

impl Files {
    fn write(&self, results: &Results) -> Result<()> {
        if let Some(file) = &self.json {
            files::write(file, &results.json())?;
        }
        if let Some(file) = &self.md {
            files::write(file, &report::render(results, report::Style::Markdown))?;
        }
        if let Some(file) = &self.html {
            files::write(file, &report::html::page(results))?;
        }
        if let Some(file) = &self.svg {
            draw(results, file)?;
        }
        Ok(())
    }
}

/// A dot for each allocator: see [`Files::svg`].
fn draw(results: &Results, file: &Path) -> Result<()> {
    let metrics = [Metric::Wall, Metric::Peak];
    let comparisons = metrics.map(|metric| Comparison::new(results, metric));
    let summary = Summary::new(results, &comparisons);
    ensure!(summary.metrics == metrics, "the race has no times and peaks to draw");
    let dot = |(arm, means): &(usize, Vec<Option<Mean>>)| match means[..] {
        [Some(time), Some(peak)] => Some((results.arms[*arm].name.clone(), time.ratio, peak.ratio)),
        _ => None,
    };
    let dots: Vec<_> = summary.rows.iter().filter_map(dot).collect();
    let of = |what| format!("{what}, as a multiple of the best allocator of each workload");
    chart::dots(file, &of("time"), &of("peak memory"), &dots)
}

fn print(results: &Results) {
    let colour = io::stdout().is_terminal();
    println!("{}", report::render(results, report::Style::Terminal { colour }));
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn mistakes_end_with_two_and_a_useful_line() {
        for (arguments, expected) in [
            (&["race", "--suite", "nonsense"][..], "suites: quick, workloads"),
            (&["race", "--against", "nonsense"], "nonsense"),
            (&["race", "--time", "soon"], "--time"),
            (&["race", "--linked", "--against", "glibc"], "--against"),
        ] {
            let Err(error) = Cli::try_parse_from(arguments) else { panic!("{arguments:?}") };
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains(expected), "{arguments:?}: {error}");
        }
        let glibc = Cli::try_parse_from(["race", "--against", "glibc"]);
        assert!(glibc.is_ok_and(|cli| cli.options.linked_in().is_empty()));
        let good = Cli::try_parse_from(["race", "--suite", "larson,bash", "--against", "glibc"]);
        assert_eq!(
            good.unwrap_or_else(|error| panic!("{error}")).options.suite,
            ["larson", "bash"]
        );
    }

    /// A race of other allocators, or of fewer rounds, is no newer version of the page.
    #[test]
    fn only_the_usual_race_takes_the_place_of_a_committed_page() {
        let page = |arguments: &[&str]| {
            let cli = Cli::try_parse_from(["race"].iter().chain(arguments));
            let files = cli.unwrap_or_else(|error| panic!("{error}")).options.usual(true);
            let [json, page] = [files.json, files.md].map(Option::unwrap);
            let below = |file: PathBuf| {
                file.strip_prefix(paths::workspace()).unwrap_or(&file).display().to_string()
            };
            [below(json), below(page)]
        };
        let usual = ["results/full.json", "docs/benchmarks/full.md"];
        assert_eq!(page(&[]), usual);
        assert_eq!(page(&["--time", "15m"]), usual);
        let linked = ["results/linked.json", "docs/benchmarks/linked.md"];
        assert_eq!(page(&["--suite", "workloads", "--linked"]), linked);
        let otherwise = ["results/linked-otherwise.json", "results/linked-otherwise.md"];
        assert_eq!(page(&["--linked"]), otherwise, "other rows");
        let otherwise = ["results/full-otherwise.json", "results/full-otherwise.md"];
        for arguments in
            [["--against", "glibc"], ["--rounds", "2"], ["--scale", "0.1"], ["--seed", "2"]]
        {
            assert_eq!(page(&arguments), otherwise, "{arguments:?}");
        }
        assert_eq!(page(&["--rounds", "2", "--out", "/a/b"]), ["/a/b.json", "/a/b.md"]);
    }
}

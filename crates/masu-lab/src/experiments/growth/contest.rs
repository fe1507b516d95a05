//! Contestants in turn, round by round, and the figures that each run prints.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use masu_bench::work;

use crate::arm::Arm;
use crate::experiments::child;
use crate::progress::Progress;
use crate::race::plan;
use crate::stats::median;

/// When a run is given up.
const LIMIT: Duration = Duration::from_secs(600);

/// One command on one allocator.
pub struct Contestant {
    /// What tables call it.
    pub label: String,
    /// The allocator.
    pub arm: Arm,
    /// Program, arguments, environment.
    program: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    /// Whether its first line names the object that serves `malloc`.
    says_allocator: bool,
    read: fn(&str) -> Figures,
}

/// What a run found, by name.
pub type Figures = BTreeMap<String, f64>;

/// Contestants and what they do.
pub struct Contest {
    /// The name of its files.
    pub name: String,
    /// A line.
    pub title: String,
    /// What the columns mean.
    pub about: String,
    /// The figures that are drawn.
    pub plotted: Vec<String>,
    /// The first is the one that others are compared with.
    pub contestants: Vec<Contestant>,
}

impl Contest {
    /// Whether an entry of the results is masu's.
    pub fn is_masu(&self, entry: usize) -> bool {
        self.contestants.get(entry).unwrap_or(&self.contestants[0]).arm.name == "masu"
    }
}

impl Contestant {
    /// A run of `growth-work`.
    pub fn work<const N: usize>(label: &str, arm: &Arm, arguments: [String; N]) -> Self {
        let program = std::env::current_exe().unwrap_or_default().with_file_name("growth-work");
        Contestant {
            label: label.to_owned(),
            arm: arm.clone(),
            program: program.display().to_string(),
            arguments: arguments.to_vec(),
            environment: Vec::new(),
            says_allocator: true,
            read: repetitions,
        }
    }

    /// A program that prints its figures by name.
    pub fn program(
        label: &str,
        arm: &Arm,
        program: &Path,
        arguments: Vec<String>,
        env: &[(&str, &str)],
    ) -> Self {
        Contestant {
            label: label.to_owned(),
            arm: arm.clone(),
            program: program.display().to_string(),
            arguments,
            environment: env.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect(),
            says_allocator: false,
            read: metrics,
        }
    }

    /// A run of RocksDB's benchmark with `keys` keys.
    pub fn rocksdb(arm: &Arm, keys: usize) -> Self {
        let script = format!(
            "d=$(mktemp -d) && trap 'rm -rf \"$d\"' EXIT && db_bench --db=\"$d\" --num={keys} \
             --benchmarks=fillrandom,readrandom,overwrite,readseq --value_size=200 \
             --cache_size=67108864 --compression_type=none --disable_wal=1 2>/dev/null"
        );
        Contestant {
            label: arm.name.clone(),
            arm: arm.clone(),
            program: "bash".to_owned(),
            arguments: vec!["-c".to_owned(), script],
            environment: Vec::new(),
            says_allocator: false,
            read: db_bench,
        }
    }

    fn run(&self) -> Result<Figures> {
        warm_up()?;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        self.arm.apply(&mut command);
        command.envs(self.environment.iter().map(|(key, value)| (key, value)));
        let finished = child::run(command, None, LIMIT).with_context(|| self.label.clone())?;
        if let (true, Some(library)) = (self.says_allocator, &self.arm.library) {
            let served = finished.field("allocator")?;
            ensure!(served == library.display().to_string(), "{}: {served} served", self.label);
        }
        let mut figures = (self.read)(&finished.said);
        ensure!(!figures.is_empty(), "{} printed no figure: {}", self.label, finished.said);
        figures.insert("cpu s".into(), finished.sample.user_s + finished.sample.system_s);
        Ok(figures)
    }
}

/// More than any contestant takes, in MiB.
const WARM: u64 = 1536;

/// Has enough memory touched before each run: what a slow first touch costs falls on whoever runs first
/// and on who takes huge pages, and the host of a virtual machine has taken it away again seconds later.
fn warm_up() -> Result<()> {
    child::run(work::touch(WARM)?, None, LIMIT).context("cannot touch memory before a run")?;
    Ok(())
}

/// All figures: by contestant, by round. A contestant that failed has the reason instead.
pub type Results = Vec<Result<Vec<Figures>, String>>;

/// Runs all contestants `rounds` times, each time in an order of its own. The last entry of
/// the results is the first contestant's second one.
pub fn run(contest: &Contest, rounds: usize) -> Result<Results> {
    let entries = contest.contestants.len() + 1;
    let mut results: Results = (0..entries).map(|_| Ok(Vec::new())).collect();
    let progress = Progress::new(entries * rounds);
    for round in 0..rounds {
        for entry in plan::order(entries, round, 0) {
            let contestant = contest.contestants.get(entry).unwrap_or(&contest.contestants[0]);
            progress.step(format!("round {} {}", round + 1, contestant.label));
            if let Ok(runs) = &mut results[entry] {
                match contestant.run() {
                    Ok(figures) => runs.push(figures),
                    Err(error) => results[entry] = Err(format!("{error:#}")),
                }
            }
        }
    }
    progress.done();
    Ok(results)
}

/// What `growth-work` prints.
fn repetitions(said: &str) -> Figures {
    let mut figures = Figures::new();
    let (mut times, mut faults) = (Vec::new(), Vec::new());
    for line in said.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let number = |n: usize| words.get(n).and_then(|w| w.parse::<f64>().ok()).unwrap_or(0.0);
        match words.first() {
            Some(&"repetition") => {
                times.push(number(1) / 1e6);
                faults.push(number(2));
            }
            Some(&"peak_kib") => drop(figures.insert("peak MiB".into(), number(1) / 1024.0)),
            Some(&"settled_kib") => drop(figures.insert("settled MiB".into(), number(1) / 1024.0)),
            Some(&"moves") => drop(figures.insert("moves".into(), number(1))),
            _ => {}
        }
    }
    if let (Some((first, later)), Some((fault, others))) =
        (times.split_first(), faults.split_first())
    {
        figures.insert("first ms".into(), *first);
        figures.insert("first faults".into(), *fault);
        if let Some(later) = median(later) {
            figures.insert("later ms".into(), later);
            figures.insert("later faults".into(), others.iter().copied().fold(0.0, f64::max));
        }
    }
    figures
}

/// Lines `metric NAME VALUE`.
fn metrics(said: &str) -> Figures {
    let lines = said.lines().filter_map(|line| line.strip_prefix("metric ")?.rsplit_once(' '));
    lines.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
}

/// `fillrandom   :   3.1 micros/op …` of RocksDB's benchmark.
fn db_bench(said: &str) -> Figures {
    let line = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let (micros, _) = rest.split_once("micros/op")?;
        Some((format!("{} µs", name.trim()), micros.trim().parse().ok()?))
    };
    said.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_first_and_later() {
        let figures = repetitions(
            "allocator x\nrepetition 2000000 9\nrepetition 1000000 3\nrepetition 3000000 1\n\
             moves 4\npeak_kib 2048\nsettled_kib 512\n",
        );
        assert_eq!(figures["first ms"], 2.0);
        assert_eq!(figures["later ms"], 2.0);
        assert_eq!((figures["first faults"], figures["later faults"]), (9.0, 3.0));
        assert_eq!((figures["peak MiB"], figures["settled MiB"]), (2.0, 0.5));
    }

    #[test]
    fn metrics_may_have_blanks_in_their_names() {
        let figures = metrics("noise\nmetric read csv ms 12.5\nmetric bad x\n");
        assert_eq!(figures.len(), 1);
        assert_eq!(figures["read csv ms"], 12.5);
    }

    #[test]
    fn lines_of_db_bench_are_read() {
        let figures =
            db_bench("fillrandom   :       3.25 micros/op 318243 ops/sec;\nDB path: [x]\n");
        assert_eq!(figures["fillrandom µs"], 3.25);
        assert_eq!(figures.len(), 1);
    }
}

//! The table of a contest, and its raw figures.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::contest::{Contest, Figures, Results};
use crate::experiments::files;
use crate::race::{self, machine::Machine};
use crate::stats::median;

/// When it began, and the machine before.
pub struct Begun {
    date: String,
    machine: Machine,
}

impl Begun {
    /// Now.
    pub fn now() -> Self {
        Begun { date: race::now(), machine: Machine::here() }
    }
}

/// A contestant's median of a figure.
fn figure(runs: &[Figures], name: &str) -> Option<f64> {
    median(&runs.iter().filter_map(|run| run.get(name).copied()).collect::<Vec<_>>())
}

/// The label of an entry; behind the last contestant comes the first one again.
pub fn label(contest: &Contest, entry: usize) -> String {
    match contest.contestants.get(entry) {
        Some(contestant) => contestant.label.clone(),
        None => format!("{} (again)", contest.contestants[0].label),
    }
}

/// A value with three digits or so.
pub fn shown(value: f64) -> String {
    match value {
        v if v >= 100.0 || v == 0.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// The allocators that take part, with their versions.
fn versions(contest: &Contest) -> String {
    let arms =
        contest.contestants.iter().map(|one| format!("{} {}", one.arm.name, one.arm.version));
    // In the order in which they are first named.
    let mut named: Vec<String> = Vec::new();
    for arm in arms {
        if !named.contains(&arm) {
            named.push(arm);
        }
    }
    named.join(", ")
}

/// The tables as Markdown: medians, and how many times the first contestant's they are.
pub fn markdown(contest: &Contest, results: &Results, at: &Begun) -> String {
    let runs = |entry: usize| results.get(entry).and_then(|r| r.as_ref().ok());
    let names: BTreeSet<String> =
        results.iter().flatten().flatten().flat_map(|run| run.keys().cloned()).collect();
    let mut header = vec!["".to_owned()];
    header.extend(names.iter().cloned());
    let mut medians = Vec::new();
    let mut ratios = Vec::new();
    for entry in 0..results.len() {
        let mut row = vec![label(contest, entry)];
        let mut ratio = row.clone();
        for name in &names {
            let value = runs(entry).and_then(|runs| figure(runs, name));
            let base = runs(0).and_then(|runs| figure(runs, name));
            row.push(value.map_or("failed".to_owned(), shown));
            ratio.push(match (value, base) {
                (Some(value), Some(base)) if base > 0.0 => format!("{:.2}", value / base),
                _ => "".to_owned(),
            });
        }
        medians.push(row);
        ratios.push(ratio);
    }
    let rounds = runs(0).map_or(0, Vec::len);
    let mut text = format!(
        "# {}\n\n{}\n\nMeasured {}, {rounds} rounds in turn; medians. The last row is the first \
         contestant again: what the two differ by is noise.\n\n{}.\n\nAllocators: {}.\n\n{}\n",
        contest.title,
        contest.about,
        at.date,
        at.machine,
        versions(contest),
        files::markdown(&header, &medians),
    );
    text += &format!("As multiples of the first row:\n\n{}\n", files::markdown(&header, &ratios));
    text += &format!("![{}]({}.svg)\n\n", contest.title, contest.name);
    for (entry, result) in results.iter().enumerate() {
        if let Err(reason) = result {
            text += &format!("{} failed: {reason}\n", label(contest, entry));
        }
    }
    text
}

/// Every figure of every run, and where it was measured.
pub fn raw(contest: &Contest, results: &Results, at: &Begun) -> Value {
    let entries = results.iter().enumerate().map(|(entry, result)| {
        let arm = contest.contestants.get(entry).unwrap_or(&contest.contestants[0]);
        json!({
            "label": label(contest, entry),
            "allocator": arm.arm.name,
            "version": arm.arm.version,
            "runs": result.as_ref().ok(),
            "failure": result.as_ref().err(),
        })
    });
    json!({
        "experiment": contest.name,
        "title": contest.title,
        "date": at.date,
        "machine": at.machine,
        "entries": entries.collect::<Vec<_>>(),
    })
}

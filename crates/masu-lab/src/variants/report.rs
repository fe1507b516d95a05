//! Tables of what was found.

use std::fmt::Write;

use anyhow::Result;

use super::kinds::{self, Kind};
use super::measure::{Figures, Measured};
use super::{AGAIN, Results};
use crate::experiments::files::{Files, markdown};
use crate::memory::report::mib;
use crate::stats::{geometric_mean, median};

type Figure = fn(&Figures) -> f64;

/// What is compared.
const FIGURES: [(&str, Figure); 2] = [
    ("Processor time", |figures| figures.processor_ms),
    ("Peak memory", |figures| figures.peak_kib as f64),
];

/// Writes `variants.md` and `variants.csv`.
pub fn write(results: &Results, files: &Files) -> Result<()> {
    let text = page(results)?;
    println!("{text}");
    files.text("variants.md", &text)?;
    files.text("variants.csv", &csv(results))
}

/// Prints the figures of each variant.
pub fn print(results: &Results) -> Result<()> {
    for (title, figure) in FIGURES {
        println!("{title}\n\n{}", each(results, title, figure));
    }
    failures(results).map(|text| print!("{text}"))
}

fn page(results: &Results) -> Result<String> {
    let machine = &results.machine;
    let mut text = String::from("# Variants\n\n");
    writeln!(
        text,
        "{}; {} processors ({}), {} MiB, Linux {}, {}, huge pages `{}`, load {} at the start. masu {}. Made by \
         `masu-lab variants`.\n",
        results.date,
        machine.processors,
        machine.processor,
        machine.memory_mib,
        machine.kernel,
        machine.system,
        machine.huge_pages,
        machine.load,
        results.ran.version,
    )?;
    if results.ran.is_busy(machine.processors) {
        text += "**The machine was busy with other work**: memory holds, processor time is worth little.\n\n";
    }
    let runs = results.measured.iter().flat_map(|one| &one.runs).map(Vec::len);
    let (least, most) = (runs.clone().min().unwrap_or(0), runs.max().unwrap_or(0));
    writeln!(
        text,
        "Each kind of workload in up to {} variants of sizes, lifetimes, threads and seeds; {least} to {most} runs of each on each \
         allocator. Ratios are to the best allocator of each variant: the median of the variants, and in brackets the worst. \
         *{AGAIN}* is a second entry of the same library, which is never counted as the best: what it shows beside the first is noise. \
         Every figure is in [variants.csv](variants.csv).\n",
        results.variants,
    )?;
    let versions = results.allocators.iter().filter(|(name, _)| name != AGAIN);
    let versions: Vec<_> = versions.map(|(name, version)| format!("{name} {version}")).collect();
    writeln!(text, "Allocators: {}.\n", versions.join(", "))?;
    for (what, why) in &results.missing {
        writeln!(text, "Not run: {what}: {why}\n")?;
    }
    for (title, figure) in FIGURES {
        writeln!(text, "## {title}\n\n{}", distribution(results, figure))?;
    }
    writeln!(
        text,
        "## The worst variants of {}\n\n`sizes` and `live` are factors on the sizes of blocks and on how many of them live.\n",
        results.allocators[0].0
    )?;
    for (title, figure) in FIGURES {
        writeln!(text, "{title}:\n\n{}", worst(results, figure))?;
    }
    text += &failures(results)?;
    Ok(text)
}

/// The ratio of an allocator to the best one.
fn ratio(results: &Results, one: &Measured, number: usize, figure: Figure) -> Option<f64> {
    let (_, best) = best(results, one, figure)?;
    Some(one.of(number, figure)? / best)
}

/// The best allocator, and its figure.
fn best(results: &Results, one: &Measured, figure: Figure) -> Option<(usize, f64)> {
    let numbers = (0..results.allocators.len()).filter(|&at| results.allocators[at].0 != AGAIN);
    let known = numbers.filter_map(|number| Some((number, one.of(number, figure)?)));
    known.min_by(|one, other| one.1.total_cmp(&other.1)).filter(|(_, best)| *best > 0.0)
}

fn variants<'r>(results: &'r Results, kind: &Kind) -> Vec<&'r Measured> {
    results.measured.iter().filter(|one| one.variant.kind == kind.name).collect()
}

fn ratios(results: &Results, kind: &Kind, number: usize, figure: Figure) -> Vec<f64> {
    let all = variants(results, kind);
    all.into_iter().filter_map(|one| ratio(results, one, number, figure)).collect()
}

/// The kinds that were measured.
fn measured(results: &Results) -> Vec<&'static Kind> {
    kinds::ALL.iter().filter(|kind| !variants(results, kind).is_empty()).collect()
}

fn distribution(results: &Results, figure: Figure) -> String {
    let mut header = vec![String::new(), "variants".into()];
    header.extend(results.allocators.iter().map(|(name, _)| name.clone()));
    let allocators = 0..results.allocators.len();
    let cell = |ratios: &[f64]| {
        let highest = ratios.iter().copied().max_by(f64::total_cmp);
        match (median(ratios), highest) {
            (Some(middle), Some(highest)) => format!("{middle:.2} ({highest:.2})"),
            _ => "–".into(),
        }
    };
    let kinds = measured(results);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for kind in &kinds {
        let mut row = vec![kind.name.into(), variants(results, kind).len().to_string()];
        row.extend(allocators.clone().map(|number| cell(&ratios(results, kind, number, figure))));
        rows.push(row);
    }
    let mut all = vec!["geometric mean of the medians".into(), String::new()];
    all.extend(allocators.map(|number| {
        let medians: Vec<_> = kinds
            .iter()
            .filter_map(|kind| median(&ratios(results, kind, number, figure)))
            .collect();
        geometric_mean(&medians).map_or("–".into(), |mean| format!("{mean:.3}"))
    }));
    rows.push(all);
    markdown(&header, &rows)
}

/// For each kind the variant in which the first allocator is furthest behind.
fn worst(results: &Results, figure: Figure) -> String {
    let header = ["", "ratio", "best", "variant", "again"].map(String::from);
    let row = |kind: &&Kind| {
        let all = variants(results, kind);
        let known = all.iter().filter_map(|one| Some((ratio(results, one, 0, figure)?, one)));
        let (ratio, one) = known.max_by(|one, other| one.0.total_cmp(&other.0))?;
        let (winner, _) = best(results, one, figure)?;
        let words = match one.variant.words.as_slice() {
            [] => "as raced".into(),
            words => words.join(" "),
        };
        let command = format!("`{}`", one.variant.command());
        let winner = results.allocators[winner].0.clone();
        Some(vec![kind.name.into(), format!("{ratio:.2}"), winner, words, command])
    };
    markdown(&header, &measured(results).iter().filter_map(row).collect::<Vec<_>>())
}

/// Each variant's figures, for the few that somebody asked for.
fn each(results: &Results, title: &str, figure: Figure) -> String {
    let is_memory = title == FIGURES[1].0;
    let mut header = vec![String::new()];
    header.extend(results.allocators.iter().map(|(name, _)| name.clone()));
    let row = |one: &Measured| {
        let mut row = vec![format!("{} {}", one.variant.name(), one.variant.words.join(" "))];
        row.extend((0..results.allocators.len()).map(|number| {
            let value = one.of(number, figure);
            match (value, ratio(results, one, number, figure)) {
                (Some(value), Some(ratio)) if is_memory => {
                    format!("{} MiB ({ratio:.2})", mib(Some(value)))
                }
                (Some(value), Some(ratio)) => format!("{value:.1} ms ({ratio:.2})"),
                _ => "–".into(),
            }
        }));
        row
    };
    markdown(&header, &results.measured.iter().map(row).collect::<Vec<_>>())
}

fn failures(results: &Results) -> Result<String> {
    let mut text = String::new();
    for one in &results.measured {
        for (number, why) in &one.failures {
            writeln!(
                text,
                "Failed on {}: {}: {why}\n",
                results.allocators[*number].0,
                one.variant.name()
            )?;
        }
    }
    Ok(text)
}

/// A line for each variant: milliseconds and KiB of each allocator.
fn csv(results: &Results) -> String {
    let mut lines = vec![String::from("kind,variant,seed,scale,variation")];
    for (name, _) in &results.allocators {
        let name = name.replace(' ', "_");
        lines[0] += &format!(",{name}_ms,{name}_kib");
    }
    for one in &results.measured {
        let Measured { variant, .. } = one;
        let scale = variant.scale * results.scale;
        let mut line = format!(
            "{},{},{},{scale},{}",
            variant.kind,
            variant.number,
            variant.seed,
            variant.words.join(" ")
        );
        for number in 0..results.allocators.len() {
            for (decimals, (_, figure)) in [2, 0].into_iter().zip(FIGURES) {
                let value = one.of(number, figure);
                line += &value.map_or(",".into(), |value| format!(",{value:.decimals$}"));
            }
        }
        lines.push(line);
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::kinds::Variant;
    use super::*;
    use crate::memory::results::When;
    use crate::race::machine::Machine;

    fn results() -> Results {
        let one = |number: usize, times: [f64; 3], peaks: [u64; 3]| {
            let mut one = Measured::nothing(Variant::of(&kinds::ALL[0], number), 3);
            for at in 0..3 {
                one.runs[at] = vec![Figures { processor_ms: times[at], peak_kib: peaks[at] }];
            }
            one
        };
        let ran = When { date: "now".into(), load: "0.1".into(), version: "1".into() };
        let allocators = ["masu", AGAIN, "glibc"].map(|name| (name.into(), "1".into())).to_vec();
        let mut failed = one(3, [5.0; 3], [10; 3]);
        failed.failures.push((2, "it crashed".into()));
        Results {
            date: "now".into(),
            machine: Machine::here(),
            ran,
            allocators,
            missing: vec![("jemalloc".into(), "not built".into())],
            variants: 20,
            scale: 1.0,
            measured: vec![
                one(0, [10.0, 9.0, 20.0], [100, 100, 80]),
                one(1, [30.0, 33.0, 20.0], [100, 100, 400]),
                one(2, [22.0, 22.0, 20.0], [100, 100, 100]),
                failed,
            ],
        }
    }

    #[test]
    fn medians_and_worst_ratios_are_to_the_best_of_each_variant() {
        let results = results();
        // 10/10, 30/20, 22/20, 5/5: the second entry is not the best although it is faster.
        let table = distribution(&results, FIGURES[0].1);
        assert!(table.contains("1.05 (1.50)"), "{table}");
        // glibc: 2, 1, 1, and nothing of the failure.
        assert!(table.contains("1.00 (2.00)"), "{table}");
        let worst = worst(&results, FIGURES[0].1);
        assert!(worst.contains("1.50") && worst.contains("glibc"), "{worst}");
        assert!(worst.contains("`masu-lab variants --only larson --variant 1`"), "{worst}");
        let page = page(&results).unwrap();
        assert!(page.contains("Failed on glibc: larson 3: it crashed"), "{page}");
        assert!(page.contains("Not run: jemalloc: not built"), "{page}");
    }

    #[test]
    fn every_variant_is_a_line_of_figures() {
        let text = csv(&results());
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 5);
        assert!(
            lines[0].ends_with("masu_ms,masu_kib,masu_again_ms,masu_again_kib,glibc_ms,glibc_kib")
        );
        assert!(
            lines[1].starts_with("larson,0,1,")
                && lines[1].ends_with(",10.00,100,9.00,100,20.00,80")
        );
        assert!(lines[4].ends_with(",5.00,10,,"), "{}", lines[4]);
        let commas = |line: &str| line.matches(',').count();
        assert!(lines.iter().all(|line| commas(line) == commas(lines[0])));
    }
}

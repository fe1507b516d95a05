//! The experiment's table.

use anyhow::Result;

use super::{Results, Series};
use crate::experiments::files::{Files, markdown};
use crate::experiments::middle;
use crate::race::Sample;
use crate::stats::{Verdict, noise_floor, ratio, verdict};

/// Processor time: a busy machine changes it less than wall time.
fn cpu(sample: &Sample) -> f64 {
    sample.user_s + sample.system_s
}

/// Not a number where the machine does not count them.
fn cycles(sample: &Sample) -> f64 {
    sample.user_cycles.map_or(f64::NAN, |count| count as f64)
}

impl Series {
    fn values(&self, of: fn(&Sample) -> f64) -> Vec<f64> {
        self.samples.iter().map(of).collect()
    }

    fn median(&self, of: fn(&Sample) -> f64) -> f64 {
        middle(self.values(of))
    }
}

/// Writes everything and returns the text.
pub fn write(results: &Results, files: &Files) -> Result<String> {
    let text = render(results);
    files.text("object-pool.md", &text)?;
    files.json("object-pool.json", results)?;
    files.raw_text("object-pool.csv", &csv(results))?;
    Ok(text)
}

fn render(results: &Results) -> String {
    let mut text = format!(
        "# A C++ program that lives on `new`\n\n\
         Measured {} by `cargo run --release -p masu-lab -- object-pool`: {} interleaved rounds, medians.\n\n\
         {}.\n\n\
         One thread makes and drops {} objects, {} times in a run. The pools take their chunks from glibc. \
         *After a thread*: the program has started a thread that did nothing and waited for its end. Every \
         program said which object serves `malloc` and `free` in it, and all printed the same result.\n\n",
        results.date, results.rounds, results.machine, results.objects, results.repetitions,
    );
    text += &table(results);
    text += &failures(results);
    text
}

fn table(results: &Results) -> String {
    let header = [
        "on",
        "version",
        "processor time",
        "of an object",
        "cycles",
        "peak",
        "masu takes",
        "after a thread",
        "difference",
    ];
    let find = |name: &str, thread: bool, again: bool| {
        results.series.iter().find(|series| {
            (series.name.as_str(), series.thread, series.again) == (name, thread, again)
        })
    };
    let mine = find("masu", false, false);
    let null = mine
        .zip(find("masu", false, true))
        .and_then(|(mine, again)| ratio(&mine.values(cpu), &again.values(cpu)));
    let floor = noise_floor(null);
    let plain = results.series.iter().filter(|series| !series.thread && !series.again);
    let rows: Vec<Vec<String>> = plain
        .map(|series| {
            let each =
                series.median(cpu) / (results.objects as f64 * f64::from(results.repetitions));
            let against = mine
                .filter(|mine| mine.name != series.name)
                .and_then(|mine| ratio(&mine.values(cpu), &series.values(cpu)))
                .map_or("-".into(), |ratio| {
                    let mark = match verdict(ratio, floor) {
                        Verdict::Win => "",
                        Verdict::Tie => " (noise)",
                        Verdict::Loss => " (loss)",
                    };
                    format!("{:.2}{mark}", ratio.centre)
                });
            let thread = find(&series.name, true, false);
            let difference = thread
                .and_then(|thread| ratio(&thread.values(cpu), &series.values(cpu)))
                .map_or("-".into(), |ratio| {
                    let percent = |value: f64| (value - 1.0) * 100.0;
                    format!(
                        "{:+.1} % ({:+.1} to {:+.1})",
                        percent(ratio.centre),
                        percent(ratio.low),
                        percent(ratio.high)
                    )
                });
            vec![
                series.name.clone(),
                series.version.clone(),
                format!("{:.3} s", series.median(cpu)),
                format!("{:.1} ns", each * 1e9),
                match series.median(cycles) / 1e6 {
                    counted if counted.is_finite() => format!("{counted:.0} M"),
                    _ => "-".into(),
                },
                format!("{:.1} MiB", series.median(|sample| sample.peak_kib as f64) / 1024.0),
                against,
                thread.map_or("-".into(), |thread| format!("{:.3} s", thread.median(cpu))),
                difference,
            ]
        })
        .collect();
    let noise = format!("\nNoise, from two series of masu: {:.1} %.\n", floor * 100.0);
    markdown(&header.map(String::from), &rows) + &noise
}

fn failures(results: &Results) -> String {
    let lines: Vec<String> =
        results.missing.iter().map(|(name, reason)| format!("- {name}: {reason}\n")).collect();
    match lines.is_empty() {
        true => String::new(),
        false => format!("\nNot measured:\n\n{}", lines.concat()),
    }
}

fn csv(results: &Results) -> String {
    let mut text = String::from(
        "name,after_thread,again,round,wall_s,user_s,system_s,user_cycles,peak_kib,minor_faults\n",
    );
    for series in &results.series {
        for (round, sample) in series.samples.iter().enumerate() {
            text += &format!(
                "\"{}\",{},{},{round},{},{},{},{},{},{}\n",
                series.name,
                series.thread,
                series.again,
                sample.wall_s,
                sample.user_s,
                sample.system_s,
                sample.user_cycles.map_or(String::new(), |count| count.to_string()),
                sample.peak_kib,
                sample.minor_faults,
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::machine::Machine;

    #[test]
    fn the_table_compares_with_masu_and_with_the_mode_before() {
        let series = |name: &str, thread, again, user_s: f64| Series {
            name: name.into(),
            version: "1".into(),
            thread,
            again,
            samples: vec![Sample { user_s, ..Sample::default() }; 5],
        };
        let results = Results {
            date: String::new(),
            machine: Machine::here(),
            rounds: 5,
            repetitions: 2,
            objects: 500_000_000,
            series: vec![
                series("masu", false, false, 1.0),
                series("masu", true, false, 1.02),
                series("glibc", false, false, 2.0),
                series("glibc", true, false, 3.0),
                series("masu", false, true, 1.0),
            ],
            missing: vec![("other".into(), "no compiler".into())],
        };
        let text = render(&results);
        let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line("| masu").contains("+2.0 %") && line("| masu").contains("1.0 ns"), "{text}");
        assert!(line("| glibc").contains("0.50") && line("| glibc").contains("+50.0 %"), "{text}");
        assert!(text.contains("- other: no compiler"));
    }
}

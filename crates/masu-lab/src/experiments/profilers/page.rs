//! The table, and what follows from it.

use masu_bench::stats::geometric_mean;

use super::{FINE, PYTHON, Results, Row, SAMPLED, middle};
use crate::experiments::files::markdown;

/// What is wanted: processor time with a profile against without it, MiB more at the peak, microseconds a sample.
const AIM_RATIO: f64 = 1.01;
const AIM_MIB: f64 = 2.0;
const AIM_US: f64 = 2.0;

fn more_mib(row: &Row) -> f64 {
    row.more_kib / 1024.0
}

/// Of each profiler, over the programs of the race: how many, the mean ratio, and the memory more, in the middle and at
/// most.
fn sums(results: &Results) -> Vec<(&str, &str, usize, f64, [f64; 2])> {
    let mut names: Vec<(&str, &str)> = Vec::new();
    for row in &results.rows {
        if !names.contains(&(&row.profiler, &row.base)) {
            names.push((&row.profiler, &row.base));
        }
    }
    let of = |(name, base)| {
        let is_of = |row: &&Row| row.profiler == name;
        let rows: Vec<&Row> = results.rows.iter().filter(is_of).collect();
        let race: Vec<&&Row> = rows.iter().filter(|row| row.program != PYTHON).collect();
        // Those of Python follow Python alone.
        let rows = if race.is_empty() { rows.iter().collect() } else { race };
        let ratios: Vec<f64> = rows.iter().map(|row| row.ratio).collect();
        let more: Vec<f64> = rows.iter().map(|row| more_mib(row)).collect();
        let more = [middle(more.iter().copied()), more.iter().copied().fold(f64::MIN, f64::max)];
        (name, base, rows.len(), geometric_mean(&ratios).unwrap_or(f64::NAN), more)
    };
    names.into_iter().map(of).collect()
}

fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    markdown(&header.iter().map(|&word| word.to_owned()).collect::<Vec<_>>(), rows)
}

/// The page.
pub fn of(results: &Results) -> String {
    let sums: Vec<Vec<String>> = sums(results)
        .into_iter()
        .map(|(name, base, programs, ratio, [more, most])| {
            let words = [name.to_owned(), base.to_owned(), programs.to_string()];
            let figures = [format!("{ratio:.3}"), format!("{more:+.1}"), format!("{most:+.1}")];
            words.into_iter().chain(figures).collect()
        })
        .collect();
    let rows: Vec<Vec<String>> = results
        .rows
        .iter()
        .map(|row| {
            vec![
                row.program.clone(),
                row.profiler.clone(),
                row.base.clone(),
                format!("{}", row.work),
                format!("{:.3}", row.cpu_s),
                format!("{:.3}", row.ratio),
                format!("{:.1}", row.peak_kib / 1024.0),
                format!("{:+.1}", more_mib(row)),
            ]
        })
        .collect();
    let missing = match &results.missing[..] {
        [] => String::new(),
        missing => format!("\nNot here, so without figures: {}.\n", missing.join(", ")),
    };
    format!(
        "# What a heap profile costs\n\n\
         Measured {} by `cargo run --release -p masu-lab -- profilers`: {} rounds, scale {}. {}\n\n\
         Each program of the race of fifteen under a profiler, against the same work on the same allocator without it. \
         masu, jemalloc and tcmalloc take a sample in 512 KiB. tcmalloc's heap profiler, heaptrack and memray follow \
         every call; they run two rounds, with less work where the table says so. memray follows a program in Python. \
         `masu, no profile` is masu against itself: the noise. `longer` is six times the work. Programs whose memory \
         grows with it, such as `frag` and `burst`, then vary by a third by themselves.\n\n\
         Processor time is the geometric mean of the ratios. Memory is what a program takes more at its peak: the \
         median of the programs, and the most. For masu at most {AIM_RATIO} and {AIM_MIB} MiB are wanted.\n\n{}\n\
         A sample costs masu {:.2} µs, on average over {} samples of one program, `{SAMPLED}`, one in {} KiB; {AIM_US} µs \
         are wanted. The unwinding rules of its few functions are cached for nearly all of them: the first samples of \
         a program cost more.\n{missing}\n\
         ## Each program\n\n{}",
        results.date,
        results.rounds,
        results.scale,
        results.machine,
        table(
            &["profiler", "against", "programs", "processor time", "more, MiB", "at most, MiB"],
            &sums
        ),
        results.sample_us,
        results.samples,
        FINE >> 10,
        table(
            &[
                "program",
                "profiler",
                "against",
                "work",
                "processor, s",
                "ratio",
                "peak, MiB",
                "more, MiB"
            ],
            &rows
        ),
    )
}

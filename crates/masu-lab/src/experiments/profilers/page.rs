//! The tables, and what follows from them.

use super::instructions::Profiled;
use super::means::{self, Mean};
use super::programs::PYTHON;
use super::ways::{NOISE, SAMPLING};
use super::{Counted, FINE, Results, Row, SAMPLED, middle};
use crate::experiments::files::markdown;
use crate::stats::{Ratio, geometric_mean};

/// What is wanted: processor time with a profile against without it, MiB more at the peak, microseconds a sample.
const AIM_RATIO: f64 = 1.01;
const AIM_MIB: f64 = 2.0;
const AIM_US: f64 = 2.0;
/// What a cell has that nobody can know.
const NONE: &str = "–";

fn more_mib(row: &Row) -> f64 {
    row.more_kib / 1024.0
}

/// A profiler over the programs of the race.
struct Sum<'r> {
    rows: Vec<&'r Row>,
    cpu: Mean,
    wall: Mean,
    /// More memory, in the middle and at most.
    more: [f64; 2],
    /// Samples that were taken, and that were asked for, of all programs.
    samples: Option<[f64; 2]>,
}

impl Sum<'_> {
    fn of<'r>(results: &'r Results, profiler: &str) -> Option<Sum<'r>> {
        let rows: Vec<&Row> = results.rows.iter().filter(|row| row.profiler == profiler).collect();
        let race: Vec<&Row> = rows.iter().copied().filter(|row| row.program != PYTHON).collect();
        // Those of Python follow Python alone.
        let rows = if race.is_empty() { rows } else { race };
        let mean = |of: &dyn Fn(&Row) -> Ratio| {
            means::mean(&rows.iter().map(|row| of(row)).collect::<Vec<_>>())
        };
        let samples: Option<Vec<_>> = rows.iter().map(|row| row.samples).collect();
        let more: Vec<f64> = rows.iter().map(|row| more_mib(row)).collect();
        Some(Sum {
            cpu: mean(&|row| row.cpu)?,
            wall: mean(&|row| row.wall)?,
            more: [middle(more.iter().copied()), more.iter().copied().fold(f64::MIN, f64::max)],
            samples: samples.map(|all| {
                [all.iter().map(|it| it.taken).sum(), all.iter().map(|it| it.asked).sum()]
            }),
            rows,
        })
    }

    fn cells(&self) -> Vec<String> {
        let row = self.rows[0];
        let rounds = self.rows.iter().map(|row| row.rounds).max().unwrap_or_default();
        let mut cells = vec![row.profiler.clone(), row.base.clone(), self.rows.len().to_string()];
        cells.push(rounds.to_string());
        for mean in [self.cpu, self.wall] {
            cells.extend([ratio(mean.ratio.centre), interval(mean.ratio), ratio(mean.middle)]);
        }
        cells.extend(self.more.map(|more| format!("{more:+.1}")));
        cells.extend(self.samples.map_or([NONE.into(), NONE.into()], |both| both.map(count)));
        cells
    }
}

fn ratio(ratio: f64) -> String {
    format!("{ratio:.3}")
}

fn interval(of: Ratio) -> String {
    if of.high.is_finite() { format!("{:.3} to {:.3}", of.low, of.high) } else { NONE.into() }
}

fn count(samples: f64) -> String {
    if samples.is_finite() { format!("{samples:.0}") } else { NONE.into() }
}

fn percent(part: f64) -> String {
    format!("{:.2} %", 100.0 * part)
}

/// The profilers, in the order of their rows.
fn profilers(results: &Results) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for row in &results.rows {
        if !names.contains(&row.profiler.as_str()) {
            names.push(&row.profiler);
        }
    }
    names
}

fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    markdown(&header.iter().map(|&word| word.to_owned()).collect::<Vec<_>>(), rows)
}

/// What the peaks show of what is wanted.
fn memory(rows: &[&Row]) -> String {
    let names = |those: &dyn Fn([f64; 2]) -> bool| {
        let rows = rows.iter().filter(|row| those(row.more_range_kib.map(|kib| kib / 1024.0)));
        rows.map(|row| format!("`{}`", row.program)).collect::<Vec<_>>().join(", ")
    };
    let (over, unclear) =
        (names(&|[low, _]| low > AIM_MIB), names(&|[_, high]| high.is_nan() || high > AIM_MIB));
    match (over.is_empty(), unclear.is_empty()) {
        (_, true) => "no program takes more than that".into(),
        (true, _) => format!(
            "no program takes surely more than that; the peaks of {unclear} vary too much to tell"
        ),
        _ => format!("more than that is taken by {over}"),
    }
}

/// What the times show of what is wanted.
fn verdict(results: &Results) -> Option<String> {
    let (sampling, noise) = (Sum::of(results, SAMPLING)?, Sum::of(results, NOISE)?);
    let said = |of: Mean| format!("{:.3} ({})", of.ratio.centre, interval(of.ratio));
    let held = memory(&sampling.rows);
    let [taken, asked] = sampling.samples?;
    Some(format!(
        "For masu at most {AIM_RATIO} of the processor time and {AIM_MIB} MiB more are wanted. Sampling takes {} of the \
         processor time and {} of the elapsed time; masu against itself, {} and {}. That {} \
         {AIM_RATIO} for the processor time, and {} it for the elapsed time. Of memory, {held}. masu takes {} samples; at a fixed distance \
         it would take {}.\n\n",
        said(sampling.cpu),
        said(sampling.wall),
        said(noise.cpu),
        said(noise.wall),
        means::judged(sampling.cpu.ratio, AIM_RATIO),
        means::judged(sampling.wall.ratio, AIM_RATIO),
        count(taken),
        count(asked),
    ))
}

/// The section of the instructions; nothing if they were not counted.
fn instructions(counted: &[Counted]) -> String {
    if counted.is_empty() {
        return String::new();
    }
    let mean = |of: &dyn Fn(&Counted) -> Profiled| {
        let ratios: Vec<f64> = counted.iter().map(|it| 1.0 + it.more(of(it))).collect();
        percent(geometric_mean(&ratios).unwrap_or(f64::NAN) - 1.0)
    };
    let [once, every, paced] = [mean(&|it| it.once), mean(&|it| it.every), mean(&|it| it.paced)];
    let noise = counted.iter().map(Counted::noise).fold(0.0, f64::max);
    let row = |it: &Counted| {
        let mut cells = vec![it.program.clone(), format!("{:.1}", it.off[0] as f64 / 1e6)];
        cells.push(percent(it.more(it.once)));
        for profiled in [it.every, it.paced] {
            cells.extend([percent(it.more(profiled)), count(profiled.samples)]);
        }
        cells.push(count(it.of_a_sample()));
        cells
    };
    let rows: Vec<Vec<String>> = counted.iter().map(row).collect();
    format!(
        "## Instructions\n\n\
         A profile adds {paced} to the instructions of the programs with one thread, on average; without the pace, it \
         would add {every}. In both, {once} are what a profile takes once, however long the program runs: its start, \
         and its writing at the end, which the timed runs do without. Callgrind counts the instructions in user mode. \
         Nothing that runs beside them changes their number: two counts without a profile differ by at most {}. The \
         work is that of the timed runs. What the kernel does and what misses the caches are not counted.\n\n\
         Under callgrind a program runs some fifty times slower while the clock does not, so masu takes every sample \
         in 512 KiB: *every sample*. For *at the pace*, masu is asked for the larger distance that gives about as many \
         samples as in the timed runs. *A sample* is the number of instructions that each takes, without *once*.\n\n{}\n",
        percent(noise),
        table(
            &[
                "program",
                "without a profile, millions",
                "once",
                "every sample",
                "samples",
                "at the pace",
                "samples",
                "a sample"
            ],
            &rows
        ),
    )
}

/// A program's cells.
fn cells(row: &Row) -> Vec<String> {
    let distance = row.samples.map(|samples| count(samples.distance() / 1024.0));
    let samples = row.samples.map(|samples| [samples.taken, samples.asked].map(count));
    let mut cells = vec![
        row.program.clone(),
        row.profiler.clone(),
        row.base.clone(),
        format!("{}", row.work),
        format!("{:.3}", row.cpu_s),
    ];
    for of in [row.cpu, row.wall] {
        cells.extend([ratio(of.centre), interval(of)]);
    }
    let [low, high] = row.more_range_kib.map(|kib| kib / 1024.0);
    let range = if high.is_finite() { format!("{low:+.1} to {high:+.1}") } else { NONE.into() };
    cells.extend([
        format!("{:.1}", row.peak_kib / 1024.0),
        format!("{:+.1}", more_mib(row)),
        range,
    ]);
    cells.extend(samples.unwrap_or([NONE.into(), NONE.into()]));
    cells.push(distance.unwrap_or(NONE.into()));
    cells
}

/// The page.
pub fn of(results: &Results) -> String {
    let sums = profilers(results).into_iter().filter_map(|name| Sum::of(results, name));
    let sums: Vec<Vec<String>> = sums.map(|sum| sum.cells()).collect();
    let rows: Vec<Vec<String>> = results.rows.iter().map(cells).collect();
    let missing = match &results.missing[..] {
        [] => String::new(),
        missing => format!("Not here, so without figures: {}.\n\n", missing.join(", ")),
    };
    format!(
        "# What a heap profile costs\n\n\
         Measured {} by `cargo run --release -p masu-lab -- profilers`: {} rounds, scale {}. {}\n\n\
         {}\
         Each program of the race of fifteen runs under a profiler, and does the same work on the same allocator without \
         it. masu, jemalloc and gperftools' tcmalloc are asked for a sample in 512 KiB on average. jemalloc and tcmalloc \
         keep to that distance. masu does so only as long as a thread takes at most one sample in a millisecond; a thread \
         that allocates more is [sampled less often](../profiling.md#how-it-works). *Asked for* is how many samples that \
         distance gives in the work of each program; tcmalloc does not say how many it has taken. Below 64 KiB masu has \
         no pace, so `masu, a sample in 63 KiB` takes all samples.\n\n\
         tcmalloc's heap profiler, heaptrack and memray follow every call; they run two rounds, with less work where the \
         table says so. memray follows a program in Python. `masu, no profile` is masu against itself: the noise. \
         `longer` is six times the work. Programs whose memory grows with it, such as `frag` and `burst`, then vary by a \
         third by themselves.\n\n\
         Times are ratios to those without a profile, each with the interval that holds it with 95 % confidence. Of \
         several programs, they are the geometric mean, and *median* is the program in the middle. Memory is what a program takes \
         more at its peak: the median of the programs, and the most. A program that takes less than 0.1 s runs several \
         times in each round. Samples are counted in two runs beside the timed ones, since masu and jemalloc write them \
         down at the end.\n\n{}\n\
         A sample costs masu {:.2} µs, on average over {:.0} samples of one program, `{SAMPLED}`, one in {} KiB; {AIM_US} \
         µs are wanted. The unwinding rules of its few functions are cached for nearly all of them: the first samples of \
         a program cost more.\n\n{missing}{}\
         ## Each program\n\n{}",
        results.date,
        results.rounds,
        results.scale,
        results.machine,
        verdict(results).unwrap_or_default(),
        table(
            &[
                "profiler",
                "against",
                "programs",
                "rounds",
                "processor time",
                "95 %",
                "median",
                "elapsed time",
                "95 %",
                "median",
                "more, MiB",
                "at most, MiB",
                "samples",
                "asked for"
            ],
            &sums
        ),
        results.sample_us,
        results.samples,
        FINE >> 10,
        instructions(&results.instructions),
        table(
            &[
                "program",
                "profiler",
                "against",
                "work",
                "processor, s",
                "ratio",
                "95 %",
                "elapsed",
                "95 %",
                "peak, MiB",
                "more, MiB",
                "95 %",
                "samples",
                "asked for",
                "KiB a sample"
            ],
            &rows
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_takes_more_only_if_its_whole_interval_does() {
        let one = Ratio { centre: 1.0, low: 1.0, high: 1.0 };
        let row = |program: &str, range: [f64; 2]| Row {
            program: program.into(),
            profiler: String::new(),
            base: String::new(),
            work: 1.0,
            rounds: 16,
            cpu_s: 1.0,
            peak_kib: 1.0,
            more_kib: 0.0,
            more_range_kib: range.map(|mib| mib * 1024.0),
            cpu: one,
            wall: one,
            samples: None,
        };
        let said = |rows: &[Row]| memory(&rows.iter().collect::<Vec<_>>());
        let (little, noisy) = (row("little", [0.5, 1.9]), row("noisy", [-3.0, 2.5]));
        let (much, unknown) = (row("much", [2.1, 2.2]), row("unknown", [f64::NAN, f64::INFINITY]));
        assert_eq!(said(std::slice::from_ref(&little)), "no program takes more than that");
        assert!(said(&[noisy, little, unknown]).contains("peaks of `noisy`, `unknown` vary"));
        assert_eq!(said(&[row("noisy", [-3.0, 2.5]), much]), "more than that is taken by `much`");
    }
}

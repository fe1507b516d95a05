//! The tables of a race over several workloads, the losses, the failures.

use comfy_table::{Cell, CellAlignment, Color, Table};

use super::standing::{noise_text, spread_text};
use super::{Comparison, Metric, Place, Row, Style, Summary, list};
use crate::race::results::Results;
use crate::scale::{self, Check, Counted, Curve, Point, TOLERANCE};
use crate::stats::Verdict;

/// Everybody against the virtual best.
pub fn summary(results: &Results, comparisons: &[Comparison], style: Style) -> String {
    let summary = Summary::new(results, comparisons);
    let mut table = Table::new();
    let titles = summary.metrics.iter().map(|metric| metric.name());
    table.set_header(std::iter::once("ratio to the best of each row").chain(titles));
    for (arm, means) in &summary.rows {
        let cells = means.iter().map(|mean| match mean {
            Some(mean) => {
                let verdict = standing(mean.leads, mean.is_best);
                coloured(shown(mean.ratio, verdict), verdict, style)
            }
            None => right("-".into()),
        });
        table.add_row(std::iter::once(Cell::new(&results.arms[*arm].name)).chain(cells));
    }
    if let Some((copies, ratios)) = &summary.null {
        let name = Cell::new(format!("null: the system's against {copies} of its own"));
        let ratio = |ratio: &Option<f64>| ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"));
        table.add_row(std::iter::once(name).chain(ratios.iter().map(ratio).map(right)));
    }
    let noise = summary.noise.iter().map(|&noise| right(noise_text(noise, 1)));
    table.add_row(std::iter::once(Cell::new("noise of a row")).chain(noise));
    style.draw(&mut table);
    table.to_string() + "\n"
}

/// Everybody in one metric: the best's figure, and how many times as much each takes.
pub fn comparison(results: &Results, comparison: &Comparison, style: Style) -> String {
    let mut table = Table::new();
    let names = comparison.arms.iter().map(|&arm| results.arms[arm].name.as_str());
    table.set_header(["workload", "the best", "noise"].into_iter().chain(names));
    for row in &comparison.rows {
        table.add_row(cells(results, comparison, row, style));
    }
    let means = comparison.arms.iter().map(|&arm| match comparison.mean(arm) {
        Some(mean) => right(format!("{mean:.2}")),
        None => right("-".into()),
    });
    let label = |label: &str| [Cell::new(label), Cell::new(""), Cell::new("")].into_iter();
    table.add_row(label("geometric mean").chain(means));
    let rows = |&arm: &usize| comparison.rows.iter().filter(|row| row.place(arm).is_some()).count();
    let rows = comparison.arms.iter().map(|arm| right(rows(arm).to_string()));
    table.add_row(label("rows in it").chain(rows));
    style.draw(&mut table);
    table.to_string() + "\n"
}

fn cells(results: &Results, comparison: &Comparison, row: &Row, style: Style) -> Vec<Cell> {
    let measured = results.workloads.iter().find(|one| one.name == row.workload);
    let failed = |arm: usize| measured.is_some_and(|one| one.failure(arm).is_some());
    let best = row.standing.places.iter().find(|place| place.is_best);
    let best = best.map_or("-".into(), |best| figure(comparison.metric, best));
    let noise = noise_text(row.standing.noise, 0);
    let fixed = [Cell::new(&row.workload), right(best), right(noise)];
    let cells = comparison.arms.iter().map(|&arm| match row.place(arm) {
        Some(place) => {
            ratio(place).map_or(right("-".into()), |(text, verdict)| coloured(text, verdict, style))
        }
        None if failed(arm) => right("failed".into()),
        // As when the time is up, or where nobody counts.
        None => right("-".into()),
    });
    fixed.into_iter().chain(cells).collect()
}

/// A figure with how far it is certain.
pub fn figure(metric: Metric, place: &Place) -> String {
    metric.show(place.figure.centre) + &spread_text(place.figure)
}

/// The ratio to the best, and what it says: won by the best, tied by what is not to be told apart from
/// it. None if it was not compared.
pub fn ratio(place: &Place) -> Option<(String, Verdict)> {
    let (ratio, verdict) = (place.ratio()?, standing(place.leads, place.is_best));
    Some((shown(ratio, verdict), verdict))
}

fn standing(leads: bool, is_best: bool) -> Verdict {
    match (leads, is_best) {
        (true, _) => Verdict::Win,
        (false, true) => Verdict::Tie,
        (false, false) => Verdict::Loss,
    }
}

fn shown(ratio: f64, verdict: Verdict) -> String {
    let digits = if ratio >= 10.0 { 0 } else { 2 };
    let mark = if verdict == Verdict::Tie { "~" } else { "" };
    format!("{mark}{ratio:.digits$}")
}

/// What the signs mean, below a table.
pub const LEGEND: &str = "\
Each ratio compares with the best of the row: 1.00 is the best, more is worse. `~` marks what this race cannot tell \
apart from the best: the difference is within the noise, which is what two entries of \
the same allocator differ by (the smaller of two such differences), or within its own 95% interval. ± is such an interval \
too. The noise of a mean is that of a row divided by the root of the number of rows.";

fn coloured(text: String, verdict: Verdict, style: Style) -> Cell {
    let cell = right(text);
    match (style, verdict) {
        (Style::Terminal { colour: true }, Verdict::Win | Verdict::Tie) => cell.fg(Color::Green),
        _ => cell,
    }
}

pub(super) fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// How long single operations took, where workloads have them: a column for each allocator. They come
/// from a few runs, so nothing is said of who is best.
pub fn latencies(results: &Results, style: Style) -> String {
    const SHOWN: [(f64, &str); 4] =
        [(0.5, "50 %"), (0.99, "99 %"), (0.999, "99.9 %"), (1.0, "longest")];
    let mut table = Table::new();
    let names = results.shown().map(|arm| results.arms[arm].name.as_str());
    table.set_header(["workload", "operations", "within"].into_iter().chain(names));
    for measured in &results.workloads {
        let of = |arm: usize| measured.latencies.iter().find(|latency| latency.arm == arm);
        let Some(count) = measured.latencies.iter().map(|latency| latency.count).max() else {
            continue;
        };
        for (place, (wanted, name)) in SHOWN.into_iter().enumerate() {
            let at = |arm: usize| {
                let mut quantiles = of(arm)?.quantiles.iter();
                quantiles.find(|(quantile, _)| *quantile == wanted).map(|(_, ns)| *ns)
            };
            let (workload, count) = match place {
                0 => (measured.name.as_str(), count.to_string()),
                _ => ("", String::new()),
            };
            let figures = results.shown().map(|arm| match at(arm) {
                Some(ns) => right(duration(ns)),
                None => right("-".into()),
            });
            let first = [Cell::new(workload), right(count), Cell::new(name)];
            table.add_row(first.into_iter().chain(figures));
        }
    }
    style.draw(&mut table);
    match table.is_empty() {
        true => String::new(),
        false => format!("{}{table}\n", style.heading("Latency of single operations")),
    }
}

/// Nanoseconds for people.
pub fn duration(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        _ => format!("{:.1} ms", ns as f64 / 1e6),
    }
}

/// Instructions under callgrind, where they were counted.
pub fn instructions(results: &Results, style: Style) -> String {
    let counted = results.workloads.iter().filter(|measured| !measured.instructions.is_empty());
    let mut table = Table::new();
    let names = results.shown().map(|arm| results.arms[arm].name.as_str());
    table.set_header(std::iter::once("million instructions").chain(names));
    for measured in counted {
        let counts = results.shown().map(|arm| {
            let found = measured.instructions.iter().find(|one| one.arm == arm);
            let count = found.and_then(|one| one.count);
            right(count.map_or("-".into(), |count| format!("{:.1}", count as f64 / 1e6)))
        });
        table.add_row(std::iter::once(Cell::new(&measured.name)).chain(counts));
    }
    style.draw(&mut table);
    match table.is_empty() {
        true => String::new(),
        false => format!("{}{table}\n", style.heading("Instructions under callgrind")),
    }
}

/// What the scale model says, where it was asked.
pub fn scale(curves: &[Curve], style: Style) -> String {
    let Some(first) = curves.first() else { return String::new() };
    let mut table = Table::new();
    let speeds = first.points.iter().skip(1).map(|point| format!("{} cores", point.cores));
    let head = ["trace", "design", "stops at", "because of"].map(String::from);
    table.set_header(head.into_iter().chain(speeds));
    for curve in curves {
        let names = [curve.workload.as_str(), &curve.design].map(Cell::new);
        let (cores, line) = stop_words(curve);
        let speeds =
            curve.points.iter().skip(1).map(|point| right(format!("{:.1}", point.speedup)));
        table.add_row(names.into_iter().chain([right(cores), Cell::new(line)]).chain(speeds));
    }
    style.draw(&mut table);
    let title = style.heading("Beyond this machine: the scale model");
    let shared = if style == Style::Markdown { scale_counts(curves) } else { String::new() };
    format!("{title}{SCALE_LIMITS}\n\n{table}\n{shared}")
}

/// At which number of cores a curve stops to rise, and why. Of one that rises to its end, the line that is
/// busiest there.
fn stop_words(curve: &Curve) -> (String, String) {
    let Some(last) = curve.points.last() else { return Default::default() };
    match curve.stops() {
        Some((cores, line)) => (cores.to_string(), line.into()),
        None => {
            let busy = 100.0 * last.demand.min(1.0);
            (format!("over {}", last.cores), format!("({}: {busy:.0} % busy)", last.busiest))
        }
    }
}

/// What the threads of the first design share, by number of cores.
fn scale_counts(curves: &[Curve]) -> String {
    let Some(first) = curves.first() else { return String::new() };
    let mut table = Table::new();
    let cores = first.points.iter().skip(1).map(|point| format!("{} cores", point.cores));
    table.set_header(["trace", "figure"].map(String::from).into_iter().chain(cores));
    type Figure = fn(&Point) -> f64;
    let figures: [(&str, Figure); 8] = [
        ("locks taken", |point| point.locks * 1e3),
        ("of another core's", |point| point.hand_overs * 1e3),
        ("lines moved", |point| point.transfers * 1e3),
        ("written by two cores", |point| point.written * 1e3),
        ("atomic operations", |point| point.atomics * 1e3),
        ("blocks freed by another core", |point| point.remote_frees * 1e3),
        ("pages given back: memory grows", |point| point.discards * 1e3),
        ("at ticks, in a second, at most", |point| point.stale),
    ];
    for curve in curves.iter().filter(|curve| curve.design == first.design) {
        for (what, of) in figures {
            let values = curve.points.iter().skip(1).map(of).map(|value| match value {
                0.0 => "0".into(),
                0.0..0.01 => "< 0.01".into(),
                0.01..10.0 => format!("{value:.2}"),
                _ => format!("{value:.0}"),
            });
            table.add_row(
                [curve.workload.as_str(), what].map(Cell::new).into_iter().chain(values.map(right)),
            );
        }
    }
    Style::Markdown.draw(&mut table);
    let title = Style::Markdown.heading("What threads share, in 1,000 operations");
    format!("{title}With {}. {SCALE_INTERRUPTS}\n\n{table}\n", first.design)
}

/// What the last two figures mean.
const SCALE_INTERRUPTS: &str = "\
The last two rows are system calls that give pages back, each of which interrupts every core on which the \
process runs. At ticks there are at most so many in a second if what was free during half of the replay, \
some milliseconds, stays free for the 250 ms of a tick.";

/// What everybody who reads the curves has to know.
pub const SCALE_LIMITS: &str = "\
A model, not a measurement: recorded traces are replayed over simulated cores, and what moves between \
them is counted. It is the best that any interleaving could reach. It knows nothing of the kernel, of \
memory bandwidth, of the sizes of caches, of false sharing in the program, of distances between sockets, or of \
threads that wait for each other in the program. A design stops scaling at the number of cores at which one line \
that all share is always busy; where none is, the busiest one is named.";

/// The scale model against this machine.
pub fn scale_check(check: Option<&Check>, style: Style) -> String {
    let Some(check) = check else { return String::new() };
    let mut table = Table::new();
    table.set_header([
        "workload",
        "design",
        "measured with",
        "ns per call",
        "switches in 1000 calls",
        "instructions, two cores to one",
        "model",
        "measured",
        "",
    ]);
    for row in &check.rows {
        let measured = format!("{:.2} ({:.2} to {:.2})", row.measured, row.low, row.high);
        let verdict = row.verdict().words();
        let names = [&row.workload, &row.design, &row.allocator].map(Cell::new);
        let figures = [
            format!("{:.0}", row.call_ns),
            format!("{:.1}", row.switches),
            row.instructions.map_or("-".into(), |ratio| format!("{ratio:.2}")),
            format!("{:.2}", row.model),
            measured,
        ];
        table.add_row(names.into_iter().chain(figures.map(right)).chain([Cell::new(verdict)]));
    }
    style.draw(&mut table);
    let title = style.heading("From one core to two: the model against this machine");
    format!("{title}{}\n\n{table}\n", check_sentence(check))
}

/// What the simulated engine counted beside the real one.
pub fn scale_counted(counted: &[Counted], style: Style) -> String {
    let mut table = Table::new();
    table.set_header([
        "workload",
        "refills",
        "masu's",
        "fresh spans",
        "masu's",
        "adopted spans",
        "masu's",
        "claimed spans",
        "masu's",
    ]);
    for row in counted {
        let of = |counts: &scale::Counts| {
            [counts.refills, counts.fresh_spans, counts.adopted, counts.claimed]
        };
        let pairs = of(&row.model).into_iter().zip(of(&row.engine));
        let cells = pairs.flat_map(|(model, engine)| [model, engine]);
        let cells = cells.map(|value| right(format!("{value:.2}")));
        table.add_row(std::iter::once(Cell::new(&row.workload)).chain(cells));
    }
    if table.is_empty() {
        return String::new();
    }
    style.draw(&mut table);
    let title =
        style.heading("What the simulated engine counts and what masu counts, in 1,000 calls");
    format!("{title}{SCALE_COUNTED}\n\n{table}\n")
}

/// Under which conditions.
const SCALE_COUNTED: &str = "\
The whole trace on two simulated cores, and the same workload on masu, on the cores there are. Where the \
two differ by much, the model leaves out something that matters to that workload.";

/// How the check came out.
pub fn check_sentence(check: &Check) -> String {
    use scale::Verdict::{Above, Below, Holds, Undecided, Unknown, Unlike};
    let percent = TOLERANCE * 100.0;
    let [holds, undecided, below, above, unlike, unknown] =
        [Holds, Undecided, Below, Above, Unlike, Unknown].map(|one| check.count(one));
    let judged = check.rows.len() - unknown;
    let unknown = match unknown {
        0 => String::new(),
        some => format!(" {some} more rows were measured too seldom to say."),
    };
    let unlike = match unlike {
        0 => String::new(),
        some => format!(
            " In {some} the allocator executes so many other instructions when threads take turns on one \
             core that they say nothing of the model."
        ),
    };
    format!(
        "With what moving a cache line takes here ({:.0} ns, one of many at once {:.0} ns), with what \
         a switch between threads takes ({:.1} µs), which only one core pays for, and with each program's \
         own time per call, the simulated speed-up from one core to two is within {percent:.0} % of \
         the measured one in {holds} of {} rows; in {undecided} it is not, but was measured too roughly to \
         tell them apart; the machine gets less in {below}, where something \
         keeps the cores waiting that is not simulated, and more in {above}, where the model is \
         wrong.{unlike}{unknown}",
        check.transfer_ns,
        check.overlapped_ns,
        check.switch_ns / 1e3,
        judged,
    )
}

/// Score and losses, the worst first.
pub fn losses(comparisons: &[Comparison]) -> String {
    let mut text = String::new();
    for comparison in comparisons.iter().filter(|comparison| !comparison.rows.is_empty()) {
        let (won, tied, lost) = comparison.score();
        let name = comparison.metric.name();
        text += &format!("- {name}: {won} won, {tied} undecided, {lost} lost\n");
        let mut losses: Vec<_> = comparison.losses().collect();
        losses.sort_by(|a, b| b.2.ratio.centre.total_cmp(&a.2.ratio.centre));
        for (row, peer, judged) in losses {
            let (centre, spread) = (judged.ratio.centre, spread_text(judged.ratio));
            text += &format!("  - {}: {centre:.2}{spread} times {peer}\n", row.workload);
        }
    }
    text
}

/// Who failed where.
pub fn failures(results: &Results) -> String {
    let mut text = String::new();
    for measured in &results.workloads {
        for arm in results.shown() {
            if let Some((round, failure)) = measured.failure(arm) {
                let (workload, name) = (&measured.name, &results.arms[arm].name);
                text += &format!("- {workload} on {name}, round {}: {failure}\n", round + 1);
            }
        }
    }
    match text.is_empty() {
        true => text,
        false => format!("\nFailures:\n\n{text}"),
    }
}

/// Whose output was not compared: on the system's allocator it is another one every time.
pub fn uncompared(results: &Results) -> String {
    let varies = results.workloads.iter().filter(|measured| measured.varies);
    let names: Vec<String> = varies.map(|measured| measured.name.clone()).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(
            "\nTheir output differs every time, so it was not compared: {}.\n",
            list(&names)
        ),
    }
}

#[cfg(test)]
mod tests;

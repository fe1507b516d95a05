//! What the page shows, as data: everything is computed here, the page only draws.

use serde::Serialize;

use crate::race::latency::Latency;
use crate::race::results::{Curve, Measured, Results};
use crate::report::standing::Standing;
use crate::report::text::{CHOICE, header_lines, only_command, partial};
use crate::report::{
    Comparison, Mean, Metric, Place, SCALE_LIMITS, Summary, check_sentence, headline, sentence,
};
use crate::scale::Curve as ScaleCurve;

/// Everything on the page.
#[derive(Serialize)]
pub struct View<'r> {
    title: String,
    /// Who wins, where a single program was measured.
    sentence: Option<String>,
    /// How the subject stands, where there were several.
    headline: String,
    /// Why this is not all, if it is not.
    partial: Option<&'static str>,
    header: Vec<String>,
    arms: Vec<Arm<'r>>,
    summary: Columns,
    metrics: Vec<Title>,
    workloads: Vec<Workload<'r>>,
    scale: &'r [ScaleCurve],
    /// What the model does not know, and how its check came out.
    scale_note: Vec<String>,
    /// The model against this machine, row by row.
    scale_check: Vec<Checked<'r>>,
}

/// One row of the model's check: speed-ups from one core to two.
#[derive(Serialize)]
struct Checked<'r> {
    workload: &'r str,
    allocator: &'r str,
    model: f64,
    measured: f64,
    low: f64,
    high: f64,
    verdict: &'static str,
}

#[derive(Serialize)]
struct Arm<'r> {
    /// Index into the results' arms.
    id: usize,
    name: &'r str,
    version: &'r str,
    subject: bool,
    system: bool,
}

#[derive(Serialize)]
struct Title {
    key: &'static str,
    name: &'static str,
    title: &'static str,
}

/// Geometric means of the ratios to the virtual best.
#[derive(Serialize)]
struct Columns {
    metrics: Vec<&'static str>,
    noise: Vec<Option<f64>>,
    /// By arm.
    rows: Vec<(usize, Vec<Option<Mean>>)>,
    /// The system's allocator against the best of several entries of itself.
    null: Option<(usize, Vec<Option<f64>>)>,
}

#[derive(Serialize)]
struct Workload<'r> {
    name: &'r str,
    about: &'r str,
    /// By metric.
    rows: Vec<Row>,
    curves: &'r [Curve],
    latencies: &'r [Latency],
    failures: Vec<(usize, String)>,
    varies: bool,
}

/// One workload in one metric.
#[derive(Serialize)]
struct Row {
    metric: &'static str,
    noise: Option<f64>,
    bars: Vec<Bar>,
}

#[derive(Serialize)]
struct Bar {
    arm: usize,
    value: f64,
    low: f64,
    high: f64,
    /// The value for people.
    shown: String,
    /// To the best of the row.
    ratio: Option<f64>,
    /// Whether it is the best, or nothing tells it from the best.
    is_best: bool,
    /// Whether it is the first of those.
    leads: bool,
}

impl<'r> View<'r> {
    /// Computes it.
    pub fn new(results: &'r Results) -> Self {
        let command = only_command(results);
        let title = match command {
            Some(measured) => measured.about.clone(),
            None => format!("{} against {}", results.arms[0].name, count(results)),
        };
        let comparisons = Metric::ALL.map(|metric| Comparison::new(results, metric));
        let summary = Summary::new(results, &comparisons);
        let of = |measured| Workload::new(results, measured, &comparisons);
        let workloads: Vec<Workload> = results.workloads.iter().map(of).collect();
        let seen = |metric: &Metric| {
            workloads.iter().any(|one| one.rows.iter().any(|row| row.metric == metric.key()))
        };
        let title_of = |metric: Metric| Title {
            key: metric.key(),
            name: metric.name(),
            title: metric.title(),
        };
        View {
            title,
            sentence: command.map(|measured| sentence(results, measured)),
            headline: headline(results, &comparisons),
            partial: partial(results),
            header: header_lines(results).into_iter().chain([CHOICE.into()]).collect(),
            arms: results.shown().map(|id| Arm::new(results, id)).collect(),
            summary: Columns {
                metrics: summary.metrics.iter().map(|metric| metric.key()).collect(),
                noise: summary.noise,
                rows: summary.rows,
                null: summary.null,
            },
            metrics: Metric::ALL.into_iter().filter(seen).map(title_of).collect(),
            workloads,
            scale: &results.scale,
            scale_note: std::iter::once(SCALE_LIMITS.to_string())
                .chain(results.scale_check.as_ref().map(check_sentence))
                .collect(),
            scale_check: results
                .scale_check
                .iter()
                .flat_map(|check| &check.rows)
                .map(|row| Checked {
                    workload: &row.workload,
                    allocator: &row.allocator,
                    model: row.model,
                    measured: row.measured,
                    low: row.low,
                    high: row.high,
                    verdict: row.verdict().words(),
                })
                .collect(),
        }
    }
}

fn count(results: &Results) -> String {
    let peers = results.shown().count() - 1;
    let workloads = results.workloads.len();
    format!("{peers} other allocator{}, {workloads} workload{}", plural(peers), plural(workloads))
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

impl<'r> Arm<'r> {
    fn new(results: &'r Results, id: usize) -> Self {
        let entrant = &results.arms[id];
        Arm {
            id,
            name: &entrant.name,
            version: &entrant.version,
            subject: id == 0,
            system: entrant.library.is_none(),
        }
    }
}

impl<'r> Workload<'r> {
    fn new(results: &'r Results, measured: &'r Measured, comparisons: &[Comparison]) -> Self {
        let standing = |one: &Comparison| {
            let standing = one.rows.iter().find(|row| row.workload == measured.name)?;
            row(one.metric, &standing.standing)
        };
        let failure = |arm| Some((arm, measured.failure(arm)?.1.to_string()));
        Workload {
            name: &measured.name,
            about: &measured.about,
            rows: comparisons.iter().filter_map(standing).collect(),
            curves: &measured.curves,
            latencies: &measured.latencies,
            failures: results.shown().filter_map(failure).collect(),
            varies: measured.varies,
        }
    }
}

fn row(metric: Metric, standing: &Standing) -> Option<Row> {
    let bar = |place: &Place| {
        let figure = place.figure;
        // A single round has no interval.
        let known = figure.spread().is_some();
        let end = |end: f64| if known { end } else { figure.centre };
        Bar {
            arm: place.arm,
            value: figure.centre,
            low: end(figure.low),
            high: end(figure.high),
            shown: metric.show(figure.centre),
            ratio: place.ratio(),
            is_best: place.is_best,
            leads: place.leads,
        }
    };
    let bars: Vec<Bar> = standing.places.iter().map(bar).collect();
    (!bars.is_empty()).then_some(Row { metric: metric.key(), noise: standing.noise, bars })
}

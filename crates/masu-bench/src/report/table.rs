//! A race as text: one table a metric, the losses, the failures.

use comfy_table::{Cell, CellAlignment, Color, Table, presets};

use super::{Comparison, Judged, Metric, Row};
use crate::race::results::Results;
use crate::stats::Verdict;

/// For whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Colours and box lines.
    Terminal,
    /// A document.
    Markdown,
}

/// Rounds from which on the resampled intervals mean what they say.
const ENOUGH: usize = 7;

/// The whole report.
pub fn render(results: &Results, style: Style) -> String {
    let mut text = header(results, style);
    let comparisons = Metric::ALL.map(|metric| Comparison::new(results, metric));
    for comparison in comparisons.iter().filter(|comparison| !comparison.rows.is_empty()) {
        text += &heading(comparison.metric.title(), style);
        text += &table(comparison, style);
    }
    text += &heading("Against the best of the others", style);
    text += &summary(&comparisons);
    text += &failures(results);
    text
}

fn heading(title: &str, style: Style) -> String {
    match style {
        Style::Terminal => format!("\n{title}\n"),
        Style::Markdown => format!("\n## {title}\n\n"),
    }
}

fn header(results: &Results, style: Style) -> String {
    let machine = &results.machine;
    let subject = &results.arms[0];
    let versions: Vec<String> = results
        .arms
        .iter()
        .filter(|arm| !arm.null)
        .map(|arm| format!("{} {}", arm.name, arm.version))
        .collect();
    let settings = match results.settings.is_empty() {
        true => "defaults".to_string(),
        false => results.settings.join(" "),
    };
    let mut lines = vec![
        format!("Measured {} with {}.", results.date, versions.join(", ")),
        format!(
            "{}, {} processors, {} GiB, Linux {}, {}, huge pages: {}, load before: {}.",
            machine.processor,
            machine.processors,
            (machine.memory_mib + 512) / 1024,
            machine.kernel,
            machine.system,
            machine.huge_pages,
            machine.load,
        ),
        format!(
            "{} interleaved rounds, seed {}, scale {}, {}'s settings: {settings}.",
            results.rounds, results.seed, results.scale, subject.name
        ),
        format!(
            "Figures are {}'s medians; the other columns are its ratio to each allocator, below 1 is better. \
             `~` marks a difference within the noise, which is what two entries of the same allocator differ by; \
             `!` marks a loss. The best allocator of a row is chosen on odd rounds and compared on even ones.",
            subject.name
        ),
    ];
    if results.rounds < ENOUGH {
        lines.push(format!(
            "Fewer than {ENOUGH} rounds: a first look. The intervals are too narrow to be trusted."
        ));
    }
    if style == Style::Markdown {
        lines.insert(0, "# The race".into());
    }
    lines.join(if style == Style::Markdown { "\n\n" } else { "\n" }) + "\n"
}

fn table(comparison: &Comparison, style: Style) -> String {
    let mut table = Table::new();
    let fixed = ["workload", comparison.subject.as_str(), "noise"];
    let peers = comparison.peers.iter().map(String::as_str);
    table.set_header(fixed.into_iter().chain(peers).chain(["best of the others"]));
    for row in &comparison.rows {
        table.add_row(cells(comparison, row, style));
    }
    let columns = comparison.peers.len() + 1;
    let means = (0..columns).map(|column| match comparison.mean(column) {
        Some(mean) => right(format!("{mean:.2}")),
        None => right("-".into()),
    });
    let label = [Cell::new("geometric mean"), Cell::new(""), Cell::new("")];
    table.add_row(label.into_iter().chain(means));
    table.load_style(match style {
        Style::Terminal => presets::UTF8_FULL_CONDENSED,
        Style::Markdown => presets::ASCII_MARKDOWN,
    });
    table.to_string() + "\n"
}

fn cells(comparison: &Comparison, row: &Row, style: Style) -> Vec<Cell> {
    let mine = row.mine.map_or("failed".into(), |value| comparison.metric.show(value));
    let noise = format!("{:.0} %", row.noise * 100.0);
    let mut cells = vec![Cell::new(&row.workload), right(mine), right(noise)];
    for cell in &row.cells {
        cells.push(match cell {
            Some(judged) => coloured(shown(judged), judged, style),
            None => right("-".into()),
        });
    }
    cells.push(match &row.best {
        Some((peer, judged)) => coloured(format!("{} {peer}", shown(judged)), judged, style),
        None => right("-".into()),
    });
    cells
}

fn shown(judged: &Judged) -> String {
    let ratio = judged.ratio.centre;
    let digits = if ratio >= 10.0 { 0 } else { 2 };
    match judged.verdict {
        Verdict::Win => format!("{ratio:.digits$}"),
        Verdict::Tie => format!("~{ratio:.digits$}"),
        Verdict::Loss => format!("{ratio:.digits$}!"),
    }
}

fn coloured(text: String, judged: &Judged, style: Style) -> Cell {
    let cell = right(text);
    match (style, judged.verdict) {
        (Style::Terminal, Verdict::Win) => cell.fg(Color::Green),
        (Style::Terminal, Verdict::Loss) => cell.fg(Color::Red),
        _ => cell,
    }
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// Score and losses, the worst first.
fn summary(comparisons: &[Comparison]) -> String {
    let mut text = String::new();
    for comparison in comparisons.iter().filter(|comparison| !comparison.rows.is_empty()) {
        let (won, tied, lost) = comparison.score();
        let name = comparison.metric.name();
        text += &format!("- {name}: {won} won, {tied} tied, {lost} lost\n");
        let mut losses: Vec<_> = comparison.losses().collect();
        losses.sort_by(|a, b| b.2.ratio.centre.total_cmp(&a.2.ratio.centre));
        for (row, peer, judged) in losses {
            let Judged { ratio, .. } = judged;
            let workload = &row.workload;
            text += &format!(
                "  - {workload}: {:.2} times {peer} ({:.2} to {:.2})\n",
                ratio.centre, ratio.low, ratio.high
            );
        }
    }
    text
}

fn failures(results: &Results) -> String {
    let mut text = String::new();
    for measured in &results.workloads {
        for (arm, entrant) in results.arms.iter().enumerate() {
            if let Some((round, failure)) = measured.failure(arm) {
                let (workload, name) = (&measured.name, &entrant.name);
                text +=
                    &format!("- {workload} failed on {name} in round {}: {failure}\n", round + 1);
            }
        }
    }
    match text.is_empty() {
        true => text,
        false => format!("\nFailures:\n\n{text}"),
    }
}

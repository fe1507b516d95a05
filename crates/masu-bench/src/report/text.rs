//! A race as text.

use comfy_table::{ContentArrangement, Table, presets};

use super::summary::METRICS;
pub use super::table::{SCALE_LIMITS, check_sentence, scale, scale_check, scale_counted};
use super::{Comparison, Metric, command, each, headline, table};
use crate::race::results::{Measured, Results, Role, Work};

/// For whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Box lines, and colours if the terminal shows them.
    Terminal {
        /// Whether it does.
        colour: bool,
    },
    /// A document.
    Markdown,
}

impl Style {
    /// Draws the lines of a table.
    pub fn draw(self, table: &mut Table) {
        match self {
            // In a terminal that is too narrow, cells break between their figures.
            Style::Terminal { .. } => table
                .load_style(presets::UTF8_FULL_CONDENSED)
                .set_content_arrangement(ContentArrangement::Dynamic),
            Style::Markdown => table.load_style(presets::ASCII_MARKDOWN),
        };
    }

    /// A paragraph, broken into lines where nothing else does that.
    pub fn prose(self, text: &str) -> String {
        match self {
            Style::Terminal { .. } => wrapped(text),
            Style::Markdown => text.into(),
        }
    }

    /// The heading of a section.
    pub fn heading(self, title: &str) -> String {
        match self {
            Style::Terminal { .. } => format!("\n{title}\n"),
            Style::Markdown => format!("\n## {title}\n\n"),
        }
    }
}

/// Columns of a paragraph in a terminal.
const WIDTH: usize = 100;

fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a first one");
        match line.chars().count() + 1 + word.chars().count() {
            _ if line.is_empty() => line.push_str(word),
            width if width <= WIDTH => *line += &format!(" {word}"),
            _ => lines.push(word.into()),
        }
    }
    lines.join("\n")
}

/// The whole report.
pub fn render(results: &Results, style: Style) -> String {
    let text = report(results, style);
    match style {
        Style::Markdown if results.workloads.len() > MANY => compact(&text, true),
        _ => text,
    }
}

/// Takes out of a document's tables the blanks that align them: a third of a long document. In tables of `figures` all
/// columns but the first are then aligned on the right.
pub fn compact(markdown: &str, figures: bool) -> String {
    /// For a bar that is text of a cell.
    const BAR: &str = "\u{1}";
    let cells = |line: &str| -> Option<String> {
        let row = line.strip_prefix('|')?.strip_suffix('|')?;
        let is_rule = row.bytes().all(|byte| matches!(byte, b'-' | b'|' | b':' | b' '));
        let cell = |(column, cell): (usize, &str)| match cell.trim() {
            rule if is_rule && (figures && column > 0 || rule.ends_with(':')) => "---:".to_owned(),
            _ if is_rule => "---".to_owned(),
            text => text.to_owned(),
        };
        let row = row.replace("\\|", BAR);
        let cells: Vec<_> = row.split('|').enumerate().map(cell).collect();
        Some(format!("| {} |", cells.join(" | ")).replace(BAR, "\\|"))
    };
    let lines = markdown.lines().map(|line| cells(line).unwrap_or_else(|| line.to_owned()) + "\n");
    lines.collect()
}

fn report(results: &Results, style: Style) -> String {
    let mut text = header(results, style);
    if let Some(measured) = only_command(results) {
        return text + "\n" + &command::render(results, measured, style);
    }
    let metrics = metrics(results, style);
    let comparisons: Vec<Comparison> =
        metrics.iter().map(|&metric| Comparison::new(results, metric)).collect();
    text += &style.heading("Everybody against the virtual best");
    text += &table::summary(results, &comparisons, style);
    text += &match headline(results, &comparisons) {
        said if said.is_empty() => said,
        said => format!("\n{}\n", style.prose(&said)),
    };
    for comparison in comparisons.iter().filter(|comparison| !comparison.rows.is_empty()) {
        text += &style.heading(comparison.metric.title());
        text += &table::comparison(results, comparison, style);
    }
    text += &table::latencies(results, style);
    text += &table::instructions(results, style);
    text += &scale(&results.scale, style);
    text += &scale_check(results.scale_check.as_ref(), style);
    let subject = &results.arms[0].name;
    text += &style.heading(&format!("{subject} against each of the others"));
    text += &each::table(results, &comparisons, style);
    text += &style.heading("Against the best of the others");
    text += &table::losses(&comparisons);
    text += &table::failures(results);
    text += &table::uncompared(results);
    if metrics.len() < Metric::ALL.len() {
        text += "\nThe other figures are in the page, the document and the raw results.\n";
    }
    text
}

/// Workloads above which a terminal shows only what most people look for, and a document is compact.
const MANY: usize = 12;

/// What there is a table of.
fn metrics(results: &Results, style: Style) -> Vec<Metric> {
    match style {
        Style::Terminal { .. } if results.workloads.len() > MANY => METRICS.to_vec(),
        _ => Metric::ALL.to_vec(),
    }
}

/// The command, if a single one was raced and no workload.
pub fn only_command(results: &Results) -> Option<&Measured> {
    match results.workloads.as_slice() {
        [measured] if measured.work.is_none() => Some(measured),
        _ => None,
    }
}

/// The seed and how much of their work the workloads did; nothing where there is none.
fn work(results: &Results) -> String {
    let all: Vec<Work> = results.workloads.iter().filter_map(|one| one.work).collect();
    match all.as_slice() {
        [] => String::new(),
        [first, rest @ ..] if rest.iter().all(|one| one.scale == first.scale) => {
            format!(", seed {}, scale {}", first.seed, first.scale)
        }
        [first, ..] => {
            let scales = || all.iter().map(|one| one.scale);
            let (least, most) = (scales().fold(f64::MAX, f64::min), scales().fold(0.0, f64::max));
            format!(", seed {}, each workload at its own scale, {least} to {most}", first.seed)
        }
    }
}

/// Rounds from which on the intervals of a whole suite are narrow enough to say much.
const ENOUGH: usize = 7;

/// What the race was, in lines.
pub fn header_lines(results: &Results) -> Vec<String> {
    let subject = &results.arms[0].name;
    let versions: Vec<String> = results
        .shown()
        .map(|arm| format!("{} {}", results.arms[arm].name, results.arms[arm].version))
        .collect();
    let settings = match results.settings.is_empty() {
        true => "defaults".to_string(),
        false => results.settings.join(" "),
    };
    let mut lines = vec![
        format!("Measured {} with {}.", results.date, versions.join(", ")),
        format!("{}.", results.machine),
        format!(
            "{} in {}{}, {subject}'s settings: {settings}.",
            rounds(results),
            seconds(results.seconds),
            work(results)
        ),
    ];
    lines.extend(proof(results));
    lines.extend(partial(results).map(String::from));
    for aside in results.arms.iter().filter(|arm| arm.role == Role::Aside) {
        lines.push(format!(
            "{} is shown but not ranked: more than the allocator differs there.",
            aside.name
        ));
    }
    for absent in &results.absent {
        lines.push(format!("{} does not take part: {}.", absent.name, absent.reason));
    }
    if results.rounds < ENOUGH && only_command(results).is_none() {
        lines.push(format!("Fewer than {ENOUGH} rounds show only large differences."));
    }
    lines
}

/// Why this is not all that was asked for, if it is not.
pub fn partial(results: &Results) -> Option<&'static str> {
    match (results.out_of_time, results.complete) {
        (true, _) => {
            Some("The time was up before every allocator had run: these are partial results.")
        }
        (false, false) => Some("Interrupted: these are partial results."),
        (false, true) => None,
    }
}

/// How many rounds there were, of the workload with the fewest and of that with the most.
fn rounds(results: &Results) -> String {
    let of = |measured: &Measured| measured.runs.iter().map(|run| run.round + 1).max();
    let all = || results.workloads.iter().filter_map(of);
    match (all().min(), all().max()) {
        (Some(least), Some(most)) if least < most => {
            format!("{least} to {most} interleaved rounds")
        }
        _ if results.rounds == 1 => "1 round".into(),
        _ => format!("{} interleaved rounds", results.rounds),
    }
}

/// How long it took; tenths say something only of what was over soon.
fn seconds(all: f64) -> String {
    format!("{all:.0$} s", usize::from(all < 10.0))
}

/// In how many runs the allocator was seen at work; none if there were no runs.
fn proof(results: &Results) -> Option<String> {
    let runs = || results.workloads.iter().flat_map(|measured| &measured.runs);
    let good = runs().filter_map(|run| run.outcome.sample());
    let (all, proven) =
        good.fold((0, 0), |(all, proven), sample| (all + 1, proven + usize::from(sample.proven)));
    match (proven, all) {
        (_, 0) => None,
        _ if proven == all => {
            Some(format!("In all {all} runs the kernel's mappings showed the intended allocator."))
        }
        _ => Some(format!(
            "In {proven} of {all} runs the kernel's mappings showed the intended allocator; \
             the others ended too soon to be checked."
        )),
    }
}

/// Why the best is not simply the least figure.
pub const CHOICE: &str = "\
The best of a row is chosen in one half of the rounds and compared with in the other half, and the reverse: the \
best of several noisy figures looks better than it is. A ratio a little below 1 is level with the best: the two halves \
contradict each other.";

fn header(results: &Results, style: Style) -> String {
    let mut lines = header_lines(results);
    if only_command(results).is_none() {
        lines.push(table::LEGEND.into());
        lines.push(CHOICE.into());
    }
    if results.arms.iter().all(|arm| arm.role != Role::Twin) {
        lines.push("No allocator took part twice, so the noise is unknown.".into());
    }
    match style {
        Style::Terminal { .. } => lines.iter().map(|line| wrapped(line) + "\n").collect(),
        Style::Markdown => {
            let title = match results.workloads.len() {
                1 => "The race".into(),
                many => format!("The race of {many} workloads"),
            };
            format!("# {title}\n\n{}\n", lines.join("\n\n"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_documents_tables_have_no_padding() {
        let padded =
            "a  b\n\n| name  |  time |\n|-------|-------|\n| masu  | ~1.00 |\n| other |       |\n";
        let slim = "a  b\n\n| name | time |\n| --- | ---: |\n| masu | ~1.00 |\n| other |  |\n";
        assert_eq!(compact(padded, true), slim);
        assert_eq!(
            compact("| a   | b  |\n|-----|---:|\n| x\\|y | 1 |", false),
            "| a | b |\n| --- | ---: |\n| x\\|y | 1 |\n"
        );
    }
}

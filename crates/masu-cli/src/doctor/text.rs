//! The answer for people: the sentence that matters, then every problem with its remedy, then the
//! rest.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};

use super::finding::{Finding, Severity};
use super::report::Report;
use crate::columns::wrap;
use crate::printable::printable;

/// Indentation of sentences: a mark, and the longest area.
const MARGIN: usize = 2 + 2 + 12;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// How much of a report is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// All of it.
    All,
    /// The report on a further process, without the parts about the machine.
    Further,
}

/// Formats it for a terminal of `width` columns, with colours, which the caller may strip.
pub fn render(report: &Report, width: usize, amount: Amount) -> String {
    let column = width.saturating_sub(MARGIN).max(24);
    let further = amount == Amount::Further;
    let between = if further { "\n" } else { "" };
    let mut text = format!("{between}{BOLD}{}{BOLD:#}\n", report.headline);
    let machine = |finding: &&Finding| matches!(finding.area(), "kernel" | "memory");
    let shown = report.findings.iter().filter(|finding| !(further && machine(finding)));
    let (sound, others): (Vec<_>, Vec<_>) =
        shown.partition(|finding| finding.severity == Severity::Ok);

    let mut area = "";
    for (i, finding) in others.into_iter().enumerate() {
        text.push_str(if i == 0 { "\n" } else { "" });
        let shown = if finding.area() == area { "" } else { finding.area() };
        area = finding.area();
        paragraph(finding.severity, shown, &finding.sentence, column, &mut text);
        let (_, style) = mark(finding.severity);
        let fix = finding.fix.iter().flat_map(|fix| wrap(&plain(fix), column - 2));
        for (i, line) in fix.enumerate() {
            let arrow = if i == 0 { "→" } else { " " };
            let _ = writeln!(text, "{:MARGIN$}{style}{arrow}{style:#} {line}", "");
        }
    }
    // Findings without a problem need no line of their own.
    for (i, part) in sound.chunk_by(|a, b| a.area() == b.area()).enumerate() {
        text.push_str(if i == 0 { "\n" } else { "" });
        let sentences: Vec<_> = part.iter().map(|finding| finding.sentence.as_str()).collect();
        paragraph(Severity::Ok, part[0].area(), &sentences.join(" "), column, &mut text);
    }
    text
}

/// Returns text without what controls a terminal: the names of another process's files are in it.
fn plain(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

fn mark(severity: Severity) -> (char, Style) {
    match severity {
        Severity::Ok => ('✓', AnsiColor::Green.on_default()),
        Severity::Note => ('·', AnsiColor::Cyan.on_default()),
        Severity::Warning => ('!', AnsiColor::Yellow.on_default().bold()),
        Severity::Problem => ('✗', AnsiColor::Red.on_default().bold()),
    }
}

/// Formats the mark, the area and the text about it.
fn paragraph(severity: Severity, area: &str, said: &str, column: usize, text: &mut String) {
    let (mark, style) = mark(severity);
    let mut lines = wrap(&plain(said), column).into_iter();
    let first = lines.next().unwrap_or_default();
    let _ = writeln!(text, "  {style}{mark}{style:#} {DIM}{area:<12}{DIM:#}{first}");
    for line in lines {
        let _ = writeln!(text, "{:MARGIN$}{line}", "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_has_a_name_that_controls_the_terminal() {
        let mut text = String::new();
        paragraph(Severity::Note, "process", "/a\x1b[2J is mapped.\nSo it is.", 80, &mut text);
        assert!(text.contains("/a?[2J is mapped.\nSo it is.\n"), "{text}");
    }
}

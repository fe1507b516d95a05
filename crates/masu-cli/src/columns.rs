//! Text that fits the terminal: lines are broken between words.

use std::io::{IsTerminal, stdout};

/// Fewer columns than this are not believed.
const LEAST: usize = 20;

/// Returns the columns of the terminal on stdout; `None` if there is none.
fn of_stdout() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stdout()).ok().filter(|_| stdout().is_terminal());
    size.map(|size| size.ws_col.into()).filter(|&columns| columns != 0)
}

/// Returns the columns for text that is at most `most` wide, on the terminal or in a file.
pub fn at_most(most: usize) -> usize {
    of_stdout().unwrap_or(most).clamp(LEAST, most)
}

/// Returns `text` with the lines broken that the terminal on stdout would break within words. A file gets it as it is.
pub fn fit(text: &str) -> String {
    match of_stdout() {
        Some(columns) => fold(text, columns.max(LEAST)),
        None => text.to_owned(),
    }
}

/// Breaks the lines that are longer than `width`, between the columns of a table if they are of one. Their rest is
/// indented a little more.
fn fold(text: &str, width: usize) -> String {
    let mut folded = String::new();
    for line in text.split_inclusive('\n') {
        if columns(line) <= width {
            folded.push_str(line);
            continue;
        }
        let plain = anstream::adapter::strip_str(line).to_string();
        let blanks = plain.len() - plain.trim_start_matches(' ').len();
        let indent = (blanks + 2).min(width / 3);
        // The words of a line so far, each with the blanks before it.
        let mut words: Vec<String> = Vec::new();
        let mut rest = line;
        while !rest.is_empty() {
            let start = rest.len() - rest.trim_start_matches(' ').len();
            let end = rest[start..].find(' ').map_or(rest.len(), |end| start + end);
            words.push(rest[..end].to_owned());
            rest = &rest[end..];
            if words.len() == 1 || words.iter().map(|word| columns(word)).sum::<usize>() <= width {
                continue;
            }
            let is_cell = |word: &String| word.starts_with("  ");
            let last = words.iter().skip(1).rposition(is_cell).unwrap_or(words.len() - 2);
            let mut next = words.split_off(last + 1);
            next[0] = format!("{}{}", " ".repeat(indent), next[0].trim_start());
            folded.extend(words);
            folded.push('\n');
            words = next;
        }
        folded.extend(words);
    }
    folded
}

/// Returns the columns that text takes; colours take none.
fn columns(text: &str) -> usize {
    let parts = anstream::adapter::strip_str(text.trim_end_matches('\n'));
    parts.map(|part| part.chars().count()).sum()
}

/// Breaks `text` into lines of at most `width` columns; a longer word gets its own line.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Returns a paragraph of at most `width` columns, with later lines indented like the text behind `lead`.
pub fn paragraph(lead: &str, words: &str, width: usize) -> String {
    let indent = lead.chars().count();
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines = wrap(&words, width.saturating_sub(indent));
    format!("{lead}{}\n", lines.join(&format!("\n{}", " ".repeat(indent))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_whole_and_lines_short() {
        assert_eq!(wrap("a bb ccc dddddd e", 6), ["a bb", "ccc", "dddddd", "e"]);
        assert_eq!(wrap("longer than that", 3), ["longer", "than", "that"]);
        assert_eq!(wrap("a   b", 9), ["a   b"]);
        assert_eq!(paragraph("1. ", "one two\nthree", 11), "1. one two\n   three\n");
    }

    #[test]
    fn only_lines_that_are_too_long_are_broken() {
        assert_eq!(fold("short\n  as it was\n", 20), "short\n  as it was\n");
        let row = "  name               12 MiB  50 %\n";
        assert_eq!(fold(row, 24), "  name\n    12 MiB  50 %\n");
        assert_eq!(fold(&format!("\x1b[1m{row}"), 24), "\x1b[1m  name\n    12 MiB  50 %\n");
        // Colours take no columns; a word that is too long stays whole.
        assert_eq!(
            fold("\x1b[1mtwenty columns, bold\x1b[0m\n", 20),
            "\x1b[1mtwenty columns, bold\x1b[0m\n"
        );
        let long = "/a/path/that/is/longer/than/a/line";
        assert_eq!(fold(&format!("  in {long} here"), 20), format!("  in\n    {long}\n    here"));
    }
}

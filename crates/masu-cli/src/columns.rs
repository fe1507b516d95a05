//! Text that fits the terminal: lines are broken between words.

use std::io::{IsTerminal, stderr, stdout};
use std::os::fd::AsFd;

/// Fewer columns than this are not believed.
const LEAST: usize = 20;

/// Returns the columns of the terminal on a stream; `None` if there is none.
fn of(stream: &(impl AsFd + IsTerminal)) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok().filter(|_| stream.is_terminal());
    size.map(|size| size.ws_col.into()).filter(|&columns| columns != 0)
}

/// Returns the columns for text that is at most `most` wide, on the terminal or in a file.
pub fn at_most(most: usize) -> usize {
    of(&stdout()).unwrap_or(most).clamp(LEAST, most)
}

/// Returns `text` with the lines broken that the terminal on stdout would break within words. A file gets it as it is.
pub fn fit(text: &str) -> String {
    fit_on(&stdout(), text)
}

/// The same for help, whose paragraphs are broken anew where one of its lines does not fit.
pub fn fit_help(text: &str) -> String {
    let is_wide = |width| move |line| columns(line) > width;
    match of(&stdout()).map(|width| width.max(LEAST)) {
        Some(width) if text.lines().any(is_wide(width)) => fold(
            &join_paragraphs(text),
            width,
            |blanks| if blanks == 0 || blanks > 8 { 0 } else { 2 },
        ),
        _ => text.to_owned(),
    }
}

/// The same as [`fit`] for stderr.
pub fn fit_error(text: &str) -> String {
    fit_on(&stderr(), text)
}

fn fit_on(stream: &(impl AsFd + IsTerminal), text: &str) -> String {
    match of(stream) {
        Some(columns) => fold(text, columns.max(LEAST), |_| 2),
        None => text.to_owned(),
    }
}

/// Breaks the lines that are longer than `width`, between the columns of a table if they are of one. Their rest is
/// indented by so many columns `more`; if they are of a list of names and meanings, as far as the meaning.
fn fold(text: &str, width: usize, more: impl Fn(usize) -> usize) -> String {
    let mut folded = String::new();
    for line in text.split_inclusive('\n') {
        if columns(line) <= width {
            folded.push_str(line);
            continue;
        }
        let plain = anstream::adapter::strip_str(line).to_string();
        let blanks = plain.len() - plain.trim_start_matches(' ').len();
        let meaning = meaning(&plain).filter(|&column| column <= width / 2);
        let indent = meaning.unwrap_or((blanks + more(blanks)).min(width / 3));
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
            let is_cell = |word: &String| meaning.is_none() && word.starts_with("  ");
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

/// Returns the column in which the second of two cells begins; `None` if a line has more cells, or one.
fn meaning(line: &str) -> Option<usize> {
    let (name, rest) = line.trim_start_matches(' ').split_once("  ")?;
    let meaning = rest.trim_start_matches(' ');
    let column = columns(line) - columns(meaning);
    (!name.is_empty() && !meaning.contains("  ")).then_some(column)
}

/// Joins the lines of each paragraph.
fn join_paragraphs(text: &str) -> String {
    let mut joined = String::new();
    let mut is_inside = false;
    for line in text.lines() {
        let is_prose = !line.is_empty() && !line.starts_with(' ');
        if !joined.is_empty() {
            joined.push(if is_inside && is_prose { ' ' } else { '\n' });
        }
        joined.push_str(line);
        is_inside = is_prose && !line.ends_with(':');
    }
    joined + "\n"
}

/// Returns the columns that text takes; colours take none.
fn columns(text: &str) -> usize {
    let parts = anstream::adapter::strip_str(text.trim_end_matches('\n'));
    parts.map(|part| part.chars().count()).sum()
}

/// Breaks `text` into lines of at most `width` columns; a longer word, or command in backticks, gets its own line.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let are_paired = text.matches('`').count().is_multiple_of(2);
    for word in text.split(' ') {
        match words.last_mut() {
            // A command stays whole, so that it can be copied.
            Some(command) if are_paired && command.matches('`').count() % 2 == 1 => {
                command.push(' ');
                command.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
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
        assert_eq!(wrap("so `masu top` shows", 12), ["so", "`masu top`", "shows"]);
        assert_eq!(wrap("a ` in a name", 8), ["a ` in a", "name"]);
        assert_eq!(paragraph("1. ", "one two\nthree", 11), "1. one two\n   three\n");
    }

    #[test]
    fn only_lines_that_are_too_long_are_broken() {
        let fold = |text: &str, width| fold(text, width, |_| 2);
        assert_eq!(fold("short\n  as it was\n", 20), "short\n  as it was\n");
        let row = "  name               12 MiB  50 %\n";
        assert_eq!(fold(row, 24), "  name\n    12 MiB  50 %\n");
        assert_eq!(fold(&format!("\x1b[1m{row}"), 24), "\x1b[1m  name\n    12 MiB  50 %\n");
        // A list of names and meanings stays one.
        let option = "  --most <N>  Exit with 1 if it is more\n";
        assert_eq!(fold(option, 28), "  --most <N>  Exit with 1 if\n              it is more\n");
        assert_eq!(fold(option, 24), "  --most <N>\n    Exit with 1 if it is\n    more\n");
        // Colours take no columns; a word that is too long stays whole.
        assert_eq!(
            fold("\x1b[1mtwenty columns, bold\x1b[0m\n", 20),
            "\x1b[1mtwenty columns, bold\x1b[0m\n"
        );
        let long = "/a/path/that/is/longer/than/a/line";
        assert_eq!(fold(&format!("  in {long} here"), 20), format!("  in\n    {long}\n    here"));
    }

    #[test]
    fn a_paragraph_is_broken_anew_and_a_list_is_not() {
        let text = "One\ntwo.\n\nExit codes:\n  0 done\n  1 not done";
        assert_eq!(join_paragraphs(text), "One two.\n\nExit codes:\n  0 done\n  1 not done\n");
    }
}

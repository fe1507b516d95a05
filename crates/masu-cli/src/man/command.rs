//! Pages of the command and its verbs. `clap_mangen` writes clap's part, except that its synopsis would lack the
//! options' values; the help's closing blocks
//! ("Examples:", "Exit codes:") become sections with the usual names of manual pages.

use std::io;

use clap::{Arg, Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

use super::Page;
use crate::cli::Cli;

const MANUAL: &str = "masu";

pub fn pages() -> io::Result<Vec<Page>> {
    let mut command = Cli::command();
    command.build();
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let all: Vec<Command> = verbs.cloned().chain([command.clone()]).collect();
    let names: Vec<String> = all.iter().map(|command| name(command).to_owned()).collect();
    all.into_iter().map(|command| page(command, &names)).collect()
}

/// `masu-run` for the verb `run`.
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(command: Command, names: &[String]) -> io::Result<Page> {
    let own = name(&command).to_owned();
    let version = format!("masu {}", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).source(version).manual(MANUAL);
    let mut source = Vec::new();
    man.render_title(&mut source)?;
    man.render_name_section(&mut source)?;
    synopsis(&command, &man, &mut source)?;
    man.render_description_section(&mut source)?;
    man.render_options_section(&mut source)?;
    if command.get_subcommands().any(|verb| !verb.is_hide_set()) {
        man.render_subcommands_section(&mut source)?;
    }
    let mut rest = Roff::new();
    if let Some(closing) = command.get_after_long_help().or(command.get_after_help()) {
        blocks(&closing.to_string(), &mut rest);
    }
    see_also(names.iter().filter(|name| **name != own), &mut rest);
    rest.to_writer(&mut source)?;
    let source = String::from_utf8(source).map_err(io::Error::other)?;
    Ok(Page { file: format!("{own}.1"), source })
}

/// Writes the synopsis: the usage that the help shows, or each option with its value.
fn synopsis(command: &Command, man: &Man, source: &mut Vec<u8>) -> io::Result<()> {
    let has_verbs = command.get_subcommands().next().is_some();
    if has_verbs || command.get_overridden_usage().is_some() {
        return man.render_synopsis_section(source);
    }
    let mut line = vec![bold(command.get_bin_name().unwrap_or(command.get_name()))];
    let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
    let (last, options): (Vec<_>, Vec<_>) = shown.partition(|argument| argument.is_positional());
    for argument in options.into_iter().chain(last) {
        let (open, close) = if argument.is_required_set() { (" ", "") } else { (" [", "]") };
        line.push(roman(open));
        line.extend(form(argument));
        line.push(roman(close));
    }
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    roff.text(line);
    roff.to_writer(source)
}

/// Returns how an argument is written: `-p PID`, `--stats[=FILE]`, `COMMAND…`.
fn form(argument: &Arg) -> Vec<Inline> {
    let mut words = Vec::new();
    match (argument.get_short(), argument.get_long()) {
        (Some(short), Some(long)) => {
            words.extend([bold(format!("-{short}")), roman("|"), bold(format!("--{long}"))]);
        }
        (Some(short), None) => words.push(bold(format!("-{short}"))),
        (None, Some(long)) => words.push(bold(format!("--{long}"))),
        (None, None) => {}
    }
    let range = argument.get_num_args().unwrap_or_default();
    if !range.takes_values() {
        return words;
    }
    let names = argument.get_value_names().unwrap_or_default();
    let name = names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ");
    let many = range.max_values() > 1;
    let (open, close) = match (argument.is_positional(), range.min_values()) {
        (true, _) => ("", ""),
        (false, 0) if argument.is_require_equals_set() => ("[=", "]"),
        (false, 0) => (" [", "]"),
        (false, _) => (" ", ""),
    };
    words.extend([roman(open), italic(name), roman(if many { "…" } else { "" }), roman(close)]);
    words
}

/// Adds the blocks of `closing`, which blank lines separate: a block that begins with a title
/// becomes a section with its lines unchanged; the rest is text.
fn blocks(closing: &str, roff: &mut Roff) {
    let mut in_text = false;
    for block in closing.split("\n\n") {
        let (first, lines) = block.split_once('\n').unwrap_or((block, ""));
        if let Some(title) = first.strip_suffix(':') {
            let (title, note) = section(title);
            roff.control("SH", [title]);
            note.map(|note| roff.text([roman(note)]));
            roff.control("nf", []);
            for line in lines.lines() {
                roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
            }
            roff.control("fi", []);
            in_text = false;
        } else {
            let heading = if in_text { ("PP", None) } else { ("SH", Some("NOTES")) };
            roff.control(heading.0, heading.1);
            roff.text([roman(block.replace('\n', " "))]);
            in_text = true;
        }
    }
}

/// Returns the manual's name for the block titled `title`, and the rest of the title.
fn section(title: &str) -> (&str, Option<&str>) {
    match title {
        "Examples" => ("EXAMPLES", None),
        "Exit codes" => ("EXIT STATUS", None),
        _ => match title.split_once(" (") {
            Some(("Configuration keys", note)) => ("CONFIGURATION KEYS", note.strip_suffix(')')),
            Some(("Exit codes", note)) => ("EXIT STATUS", note.strip_suffix(')')),
            _ => (title, None),
        },
    }
}

fn see_also<'a>(names: impl Iterator<Item = &'a String>, roff: &mut Roff) {
    roff.control("SH", ["SEE ALSO"]);
    let pages = names.map(|name| (name.as_str(), "(1), "));
    let manual = [("libmasu", "(3), "), ("masu-conf", "(7)")];
    roff.text(
        pages
            .chain(manual)
            .flat_map(|(name, section)| [bold(name), roman(section)])
            .collect::<Vec<_>>(),
    );
}

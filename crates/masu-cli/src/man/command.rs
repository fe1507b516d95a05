//! Pages of the command and its verbs. `clap_mangen` writes clap's part; the help's closing blocks
//! ("Examples:", "Exit codes:") become sections with the usual names of manual pages.

use std::io;

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

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
    man.render_synopsis_section(&mut source)?;
    man.render_description_section(&mut source)?;
    man.render_options_section(&mut source)?;
    if command.get_subcommands().any(|verb| !verb.is_hide_set()) {
        man.render_subcommands_section(&mut source)?;
    }
    let mut rest = Roff::new();
    if let Some(closing) = command.get_after_help() {
        blocks(&closing.to_string(), &mut rest);
    }
    see_also(names.iter().filter(|name| **name != own), &mut rest);
    rest.to_writer(&mut source)?;
    let source = String::from_utf8(source).map_err(io::Error::other)?;
    Ok(Page { file: format!("{own}.1"), source })
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

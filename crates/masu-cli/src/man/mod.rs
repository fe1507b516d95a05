//! The manual pages, for packages to install and for `masu man`.
//!
//! - `command`: `masu(1)` and a page for each of its verbs, from the command line's definition.
//! - `manual`: `libmasu(3)` and `masu-conf(7)`, written by hand, with the engine's keys filled in.

mod command;
mod manual;

#[cfg(test)]
pub use manual::row;

use std::fs::{self, File};
use std::io::{self, IsTerminal, Seek, Write, stdout};
use std::path::Path;
use std::process::{Command, ExitStatus};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::failure::{Failure, REFUSED, USAGE};
use crate::standard;

/// One manual page.
struct Page {
    /// Its file's name, such as `masu-run.1`.
    file: String,
    /// Its source, for `man`.
    source: String,
}

impl Page {
    /// Returns the name by which it is requested.
    fn name(&self) -> &str {
        self.file.rsplit_once('.').map_or(&self.file, |(name, _section)| name)
    }
}

fn pages() -> Result<Vec<Page>, Failure> {
    let mut pages = command::pages().map_err(|error| Failure::output(&error))?;
    pages.extend(manual::pages());
    Ok(pages)
}

/// Writes every page into `directory`, which is created if it does not exist.
pub fn write(directory: &Path) -> Result<(), Failure> {
    let shown = directory.display();
    let failed = |error| Failure::new(REFUSED, format!("cannot write to `{shown}`: {error}"));
    fs::create_dir_all(directory).map_err(failed)?;
    for page in pages()? {
        fs::write(directory.join(&page.file), &page.source).map_err(failed)?;
    }
    Ok(())
}

/// Shows the page called `name`: `masu-run`, or `run` for short. A terminal gets it as `man` shows
/// it; a file or a pipe gets its source.
pub fn show(name: &str) -> Result<(), Failure> {
    let pages = pages()?;
    let long = format!("masu-{name}");
    let page = pages.iter().find(|page| page.name() == name || page.name() == long);
    let Some(page) = page else {
        let names: Vec<_> = pages.iter().map(Page::name).collect();
        return Err(Failure::new(USAGE, format!("there is no manual page `{name}`"))
            .remedy(format!("there are {}", names.join(", "))));
    };
    if stdout().is_terminal() {
        return rendered(page);
    }
    standard::print(&page.source)
}

/// Programs that show the source of a page on a terminal, best first; each reads standard input.
const VIEWERS: [&[&str]; 3] =
    [&["man", "-l", "-"], &["mandoc", "-a"], &["groff", "-man", "-Kutf8", "-Tutf8"]];

/// Shows `page` on the terminal.
fn rendered(page: &Page) -> Result<(), Failure> {
    for viewer in VIEWERS {
        match fed(viewer, &page.source) {
            Ok(status) if status.success() => return Ok(()),
            // Another man may not know `-l`.
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Failure::output(&error)),
        }
    }
    let (name, file) = (page.name(), &page.file);
    let help = match name.strip_prefix("masu-") {
        Some("conf") | None => "`masu run --help` lists the configuration".to_owned(),
        Some(verb) => format!("`masu {verb} --help` is a short version"),
    };
    Err(Failure::new(1, "no program here shows manual pages: neither man nor mandoc nor groff").remedy(
        format!("install one (apt-get install man-db), or take the source: masu man {name} > {file}\n{help}"),
    ))
}

/// Runs `viewer` on `source`, from a file in memory: a viewer that ends early would break a pipe, and that would end
/// this command.
fn fed(viewer: &[&str], source: &str) -> io::Result<ExitStatus> {
    let mut page = File::from(memfd_create("page", MemfdFlags::CLOEXEC)?);
    page.write_all(source.as_bytes())?;
    page.rewind()?;
    Command::new(viewer[0]).args(&viewer[1..]).stdin(page).status()
}

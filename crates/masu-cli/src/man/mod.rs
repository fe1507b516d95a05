//! The manual pages, for packages to install and for `masu man | man -l -`.
//!
//! - `command`: `masu(1)` and a page for each of its verbs, from what can be typed.
//! - `manual`: `libmasu(3)` and `masu-conf(7)`, written by hand, with the engine's keys filled in.

mod command;
mod manual;

use std::fs;
use std::io::{Write, stdout};
use std::path::Path;

use crate::failure::{Failure, USAGE};

/// One manual page.
struct Page {
    /// Its file's name, such as `masu-run.1`.
    file: String,
    /// Its source, for `man`.
    source: String,
}

impl Page {
    /// The name it is asked for by.
    fn name(&self) -> &str {
        self.file.rsplit_once('.').map_or(&self.file, |(name, _section)| name)
    }
}

fn pages() -> Result<Vec<Page>, Failure> {
    let mut pages = command::pages().map_err(|error| Failure::output(&error))?;
    pages.extend(manual::pages());
    Ok(pages)
}

/// Writes every page into `directory`, which is made if it does not exist.
pub fn write(directory: &Path) -> Result<(), Failure> {
    let shown = directory.display();
    let failed = |error| Failure::new(1, format!("cannot write to `{shown}`: {error}"));
    fs::create_dir_all(directory).map_err(failed)?;
    for page in pages()? {
        fs::write(directory.join(&page.file), &page.source).map_err(failed)?;
    }
    Ok(())
}

/// Prints the page called `name`: `masu-run`, or `run` for short.
pub fn print(name: &str) -> Result<(), Failure> {
    let pages = pages()?;
    let long = format!("masu-{name}");
    let page = pages.iter().find(|page| page.name() == name || page.name() == long);
    let Some(page) = page else {
        let names: Vec<_> = pages.iter().map(Page::name).collect();
        return Err(Failure::new(USAGE, format!("there is no manual page `{name}`"))
            .remedy(format!("there are {}", names.join(", "))));
    };
    let mut out = stdout().lock();
    out.write_all(page.source.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::output(&error))
}

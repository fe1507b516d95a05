//! Where an experiment leaves what it found.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use comfy_table::{Cell, CellAlignment, Table, presets};
use masu_bench::report::compact;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::paths;

/// Where raw figures go, below the workspace: megabytes that every run makes anew.
pub const RAW: &str = "results";

/// The directory of the reports.
#[derive(Debug, Clone, Args)]
pub struct Files {
    /// Write everything into this directory; by default tables and charts go to docs/benchmarks, raw figures
    /// to results, which is not part of the repository
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Files {
    /// The path of `name`, a part of a page; its directory is made if need be.
    pub fn path(&self, name: &str) -> Result<PathBuf> {
        self.below("docs/benchmarks", name)
    }

    /// The path of `name`, which a page can be made of again.
    pub fn raw(&self, name: &str) -> Result<PathBuf> {
        self.below(RAW, name)
    }

    fn below(&self, usual: &str, name: &str) -> Result<PathBuf> {
        let place = self.out.clone().unwrap_or_else(|| paths::workspace().join(usual));
        let path = place.join(name);
        make_parent(&path)?;
        Ok(path)
    }

    /// Those of what may be only a first look (`--quick`): unless somebody named a directory all of it goes below
    /// results, where it replaces no page and no figures that one is made of.
    pub fn first_look(&self, is_one: bool) -> Self {
        let quick = || paths::workspace().join(RAW).join("quick");
        Files { out: self.out.clone().or_else(|| is_one.then(quick)) }
    }

    /// Whether somebody named a directory.
    pub fn are_elsewhere(&self) -> bool {
        self.out.is_some()
    }

    /// Writes a text of a page.
    pub fn text(&self, name: &str, text: &str) -> Result<()> {
        write(&self.path(name)?, text)
    }

    /// Writes raw figures as text.
    pub fn raw_text(&self, name: &str, text: &str) -> Result<()> {
        write(&self.raw(name)?, text)
    }

    /// Writes raw figures.
    pub fn json(&self, name: &str, value: &impl Serialize) -> Result<()> {
        self.raw_text(name, &(serde_json::to_string_pretty(value)? + "\n"))
    }

    /// Reads raw figures that were written before.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        let path = self.raw(name)?;
        let text = fs::read_to_string(&path)
            .with_context(|| format!("nothing was measured yet: cannot read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("in {}", path.display()))
    }
}

/// Makes the directory of a file, if need be.
fn make_parent(path: &Path) -> Result<()> {
    let parent = path.parent().context("a file has a directory")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))
}

/// Writes a file that somebody named, in a directory that is made if need be; a document without the blanks that align
/// its tables.
pub fn write(path: &Path, text: &str) -> Result<()> {
    make_parent(path)?;
    let is_page = path.extension().is_some_and(|end| end == "md");
    let text = if is_page { Cow::from(compact(text, false)) } else { Cow::from(text) };
    fs::write(path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

/// A Markdown table of a header and rows of text; all columns but the first are figures.
pub fn markdown(header: &[String], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(header);
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, text)| match column {
            0 => Cell::new(text),
            _ => Cell::new(text).set_alignment(CellAlignment::Right),
        });
        table.add_row(cells);
    }
    table.to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_look_replaces_no_page() {
        let usual = Files { out: None };
        assert_eq!(usual.first_look(false).out, None);
        assert_eq!(usual.first_look(true).out, Some(paths::workspace().join("results/quick")));
        let named = Files { out: Some("/a".into()) };
        assert_eq!(named.first_look(true).out, named.out);
    }
}

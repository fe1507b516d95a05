//! Where an experiment leaves what it found.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::paths;

/// The directory of the reports.
#[derive(Debug, Clone, Args)]
pub struct Files {
    /// Write tables, raw figures and charts into this directory; by default docs/benchmarks
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Files {
    /// The path of `name` in the directory, which is made if need be.
    pub fn path(&self, name: &str) -> Result<PathBuf> {
        let place = self.out.clone().unwrap_or_else(|| paths::workspace().join("docs/benchmarks"));
        let path = place.join(name);
        let parent = path.parent().context("a file has a directory")?;
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        Ok(path)
    }

    /// Whether somebody named a directory.
    pub fn are_elsewhere(&self) -> bool {
        self.out.is_some()
    }

    /// Writes a text.
    pub fn text(&self, name: &str, text: &str) -> Result<()> {
        let path = self.path(name)?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Writes figures.
    pub fn json(&self, name: &str, value: &impl Serialize) -> Result<()> {
        self.text(name, &(serde_json::to_string_pretty(value)? + "\n"))
    }

    /// Reads figures that were written before.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        let path = self.path(name)?;
        let text = fs::read_to_string(&path)
            .with_context(|| format!("nothing was measured yet: cannot read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("in {}", path.display()))
    }
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

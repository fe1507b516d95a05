//! The table of instruction counts, for the terminal, for Markdown and as JSON.

use std::collections::BTreeMap;

use comfy_table::{Cell, CellAlignment, Color, presets};
use serde::{Serialize, Serializer};

use masu_workloads::pairs::Shape;

use crate::arm::Arm;

const TITLE: &str = "# Instructions per malloc and free pair";
const INTRODUCTION: &str = "Every instruction of the process is counted by callgrind, what the \
    allocator calls in libc and the dynamic linker included. The difference between a long and a \
    short run cancels start-up; the loop around the calls is subtracted. The lowest count of a \
    row is bold. Fewer instructions are not always less time: an atomic one can cost as much as \
    twenty others.";

/// Instructions per pair, one row a cell of size and shape, one column an allocator.
#[derive(Debug, Serialize)]
pub struct Table {
    date: String,
    columns: Vec<Column>,
    rows: Vec<Row>,
    failures: BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
struct Column {
    name: String,
    version: String,
}

#[derive(Debug, Serialize)]
struct Row {
    #[serde(serialize_with = "by_name")]
    shape: Shape,
    size: usize,
    /// Absent where the allocator could not run.
    instructions: Vec<Option<f64>>,
}

fn by_name<S: Serializer>(shape: &Shape, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(shape.name())
}

impl Row {
    fn label(&self) -> String {
        format!("{} B, {}", self.size, self.shape.label())
    }

    /// The lowest count, to a tenth, which is all that is shown.
    fn lowest(&self) -> f64 {
        self.instructions.iter().flatten().copied().map(tenths).fold(f64::INFINITY, f64::min)
    }
}

fn tenths(count: f64) -> f64 {
    (count * 10.0).round() / 10.0
}

impl Table {
    pub(super) fn new(arms: &[Arm]) -> Self {
        let columns = arms
            .iter()
            .map(|arm| Column { name: arm.name.clone(), version: arm.version.clone() })
            .collect();
        let date = crate::race::now();
        Table { date, columns, rows: Vec::new(), failures: BTreeMap::new() }
    }

    pub(super) fn push(&mut self, shape: Shape, size: usize, instructions: Vec<Option<f64>>) {
        self.rows.push(Row { shape, size, instructions });
    }

    pub(super) fn fail(&mut self, name: &str, reason: String) {
        self.failures.insert(name.into(), reason);
    }

    pub(super) fn failed(&self, name: &str) -> bool {
        self.failures.contains_key(name)
    }

    /// For a terminal: the lowest count of a row is green.
    pub fn terminal(&self) -> String {
        let mut table = self.filled(|text, lowest| match lowest {
            true => Cell::new(text).fg(Color::Green),
            false => Cell::new(text),
        });
        table.load_style(presets::UTF8_FULL_CONDENSED);
        table.to_string() + &self.reasons()
    }

    /// For a document: with what it is, the lowest count of a row in bold.
    pub fn markdown(&self) -> String {
        let mut table = self.filled(|text, lowest| match lowest {
            true => Cell::new(format!("**{text}**")),
            false => Cell::new(text),
        });
        table.load_style(presets::ASCII_MARKDOWN);
        format!("{TITLE}\n\n{INTRODUCTION} Counted {}.\n\n{table}{}\n", self.date, self.reasons())
    }

    /// Why a column has gaps.
    fn reasons(&self) -> String {
        let line =
            |(name, reason): (&String, &String)| format!("\n\n{name} was not counted: {reason}");
        self.failures.iter().map(line).collect()
    }

    fn filled(&self, cell: impl Fn(String, bool) -> Cell) -> comfy_table::Table {
        let mut table = comfy_table::Table::new();
        let header =
            self.columns.iter().map(|column| format!("{} {}", column.name, column.version));
        table.set_header(std::iter::once("malloc + free".to_string()).chain(header));
        for row in &self.rows {
            let lowest = row.lowest();
            let counts = row.instructions.iter().map(|count| {
                let cell = match count {
                    Some(count) => cell(format!("{count:.1}"), tenths(*count) <= lowest),
                    None => Cell::new("-"),
                };
                cell.set_alignment(CellAlignment::Right)
            });
            table.add_row(std::iter::once(Cell::new(row.label())).chain(counts));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(name: &str) -> Arm {
        Arm { name: name.into(), version: "1".into(), ..Arm::glibc() }
    }

    #[test]
    fn the_lowest_of_a_row_is_marked_and_equals_share_it() {
        let mut table = Table::new(&[arm("a"), arm("b"), arm("c")]);
        table.push(Shape::Lifo, 64, vec![Some(30.04), Some(30.0), Some(41.26)]);
        let text = table.markdown();
        assert!(text.contains("**30.0**"), "{text}");
        assert_eq!(text.matches("**").count(), 4, "{text}");
        assert!(text.contains("41.3"), "{text}");
    }

    #[test]
    fn a_failed_column_has_a_gap_and_a_reason() {
        let mut table = Table::new(&[arm("a"), arm("b")]);
        table.fail("b", "signal: 6".into());
        table.push(Shape::Pair, 16, vec![Some(20.0), None]);
        let text = table.markdown();
        assert!(text.contains("b was not counted: signal: 6"), "{text}");
        assert!(text.contains(" - "), "{text}");
    }
}

//! The list as a table of text.

use std::fmt::Write;

use anstyle::Style;

use super::list::{List, Row};
use crate::bytes::Bytes;
use crate::printable::printable;

const BOLD: Style = Style::new().bold();

/// The titles of the columns.
pub const TITLES: [&str; 8] =
    ["pid", "program", "resident", "live", "free", "dirty", "allocates", "trend"];
/// What a trend is drawn with.
const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What the columns need: the longest figures of their kinds.
pub const WIDTHS: [u16; TITLES.len()] = [7, 15, 9, 10, 10, 9, 12, 10];
/// Some of them.
const NAME: usize = 1;
pub const TREND: usize = 7;
/// What a narrow terminal lacks, first of all what is free: then trend, allocates, dirty and live.
const DROPPED: [usize; 5] = [4, TREND, 6, 5, 3];
/// Bars of a trend at most.
const BARS: u16 = 40;

/// The columns that fit into `room`, and their widths.
pub fn columns(room: u16) -> Vec<(usize, u16)> {
    let need = |shown: &[usize]| shown.iter().map(|&column| WIDTHS[column] + 1).sum::<u16>() - 1;
    let mut shown: Vec<usize> = (0..WIDTHS.len()).collect();
    for dropped in DROPPED {
        if need(&shown) > room {
            shown.retain(|&column| column != dropped);
        }
    }
    let (lacks, spare) = (need(&shown).saturating_sub(room), room.saturating_sub(need(&shown)));
    let width = |column| match column {
        // Names are cut before figures are.
        NAME => WIDTHS[NAME].saturating_sub(lacks),
        TREND => WIDTHS[TREND] + spare.min(BARS + 1),
        _ => WIDTHS[column],
    };
    shown.into_iter().map(|column| (column, width(column))).collect()
}

/// Returns the table, in at most `room` columns as long as these hold the resident memory.
pub fn render(list: &List, room: u16) -> String {
    let shown = columns(room);
    let line = |cells: &[String]| {
        let cells = shown.iter().map(|&(column, width)| {
            let width = usize::from(width.min(WIDTHS[column]));
            let cell = &cells[column];
            if column == NAME {
                format!("{cell:<width$.width$}")
            } else {
                format!("{cell:>width$}")
            }
        });
        cells.collect::<Vec<_>>().join(" ")
    };
    let mut text = format!("{BOLD}{}{BOLD:#}\n", line(&TITLES.map(str::to_owned)));
    for row in &list.rows {
        let all: Vec<_> = cells(row).into_iter().chain([grown_by(row.grown)]).collect();
        text.push_str(&line(&all));
        text.push('\n');
    }
    text.push_str(&note(list));
    text
}

/// Returns the note below it.
pub fn note(list: &List) -> String {
    let mut text = String::new();
    if list.rows.is_empty() {
        text.push_str("no readable process runs on masu; `masu run -- COMMAND` starts one\n");
    }
    text + &left_out(list)
}

/// Returns which processes are not in it, and why.
pub fn left_out(list: &List) -> String {
    let mut text = String::new();
    if list.refused > 0 {
        let _ = writeln!(
            text,
            "not shown: {} that may not be read; {}",
            list.refused,
            match rustix::process::geteuid().is_root() {
                true => masu_inspect::error::root(),
                false => "sudo masu top shows all".into(),
            }
        );
    }
    if list.late > 0 {
        let _ = writeln!(text, "not shown: {} that take too long to read", list.late);
    }
    if list.unknown > 0 {
        let _ = writeln!(
            text,
            "not shown: {} on a masu of another version; `masu explain PID` says which",
            list.unknown
        );
    }
    text
}

/// Returns all columns except the last.
pub fn cells(row: &Row) -> [String; 7] {
    let bytes = |n: u64| Bytes(n).to_string();
    let rate = row.rate.map_or_else(|| "…".into(), |rate| format!("{}/s", bytes(rate)));
    let name = printable(&row.name).chars().take(15).collect();
    let [resident, live, free, dirty] = [row.resident, row.live, row.free, row.dirty].map(bytes);
    [row.pid.to_string(), name, resident, live, free, dirty, rate]
}

/// Formats the growth.
pub fn grown_by(grown: i64) -> String {
    let amount = Bytes(grown.unsigned_abs());
    match grown {
        0 => "=".into(),
        1.. => format!("+{amount}"),
        _ => format!("-{amount}"),
    }
}

/// Returns the last measurements as a row of bars, `columns` wide.
#[cfg_attr(not(feature = "screen"), allow(dead_code, reason = "a table has no room for it"))]
pub fn bars(row: &Row, columns: usize) -> String {
    let skip = row.trend.len().saturating_sub(columns);
    let shown = || row.trend.iter().skip(skip).copied();
    let (low, high) = (shown().min().unwrap_or(0), shown().max().unwrap_or(0));
    // Changes of less than a hundredth are shown as level.
    let span = (high - low).max(high / 100).max(1);
    shown().map(|n| STEPS[((n - low) as u128 * 7 / u128::from(span)) as usize]).collect()
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;

    use super::*;
    use crate::see::top::list::Column;

    #[test]
    fn a_table_has_a_row_for_each_process() {
        let mut list = List::new(Column::Resident);
        assert!(render(&list, u16::MAX).contains("masu run -- COMMAND"));
        list.rows.push(Row {
            pid: 7,
            name: "a\x1b[31mb".into(),
            resident: 5 << 20,
            live: 3 << 20,
            free: 1 << 18,
            dirty: 1 << 20,
            given_back: 0,
            rate: Some(1 << 10),
            trend: [5 << 20, 6 << 20, 10 << 20].into(),
            grown: -(1 << 20),
        });
        list.late = 3;
        let text = render(&list, u16::MAX);
        assert!(text.ends_with("not shown: 3 that take too long to read\n"), "{text}");
        let line: Vec<_> = text.lines().nth(1).expect("a row").split_whitespace().collect();
        // Names cannot send control codes to the terminal.
        assert_eq!(line.join(" "), "7 a?[31mb 5 MiB 3 MiB 256 KiB 1 MiB 1 KiB/s -1 MiB");
        // What does not fit is left out, as on the screen: no row is broken.
        for room in [24, 40, 60, 80, 89] {
            let text = render(&list, room);
            let rows: Vec<_> = text.lines().take(2).map(|row| strip_str(row).to_string()).collect();
            assert!(rows.iter().all(|row| row.chars().count() <= room.into()), "{text}");
            assert!(rows[0].contains("resident") && rows[1].contains("5 MiB"), "{text}");
            assert_eq!(rows[0].contains("trend"), room >= 80, "{text}");
        }
        assert_eq!(bars(&list.rows[0], 10), "▁▂█");
        assert_eq!(bars(&list.rows[0], 2).chars().count(), 2);
    }
}

//! The processes as a table: one row for each program and allocator, the largest first.

use std::collections::BTreeMap;
use std::fmt::Write;

use anstyle::{AnsiColor, Style};

use super::{All, Entry};
use crate::allocators::file_name;
use crate::bytes::Bytes;
use crate::doctor::serving::How;
use crate::printable::printable;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GREEN: Style = AnsiColor::Green.on_default();
const RED: Style = AnsiColor::Red.on_default().bold();

/// Columns of the program's name, of the allocator and of the memory.
const NAME: usize = 20;
const ALLOCATOR: usize = 22;
const MEMORY: usize = 9;

/// What the processes of a row share.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    name: &'a str,
    allocator: String,
    besides: Vec<String>,
    /// Whether masu serves them, and whether it should.
    masu: bool,
    missed: bool,
}

struct Row<'a> {
    key: Key<'a>,
    /// If it is known.
    bytes: Option<u64>,
    ids: Vec<u32>,
}

/// Formats it for a terminal of `width` columns.
pub fn render(all: &All, width: usize) -> String {
    let mut text = format!("{BOLD}{}{BOLD:#}\n\n", headline(all));
    let _ = writeln!(
        text,
        "{DIM}    {:NAME$} {:ALLOCATOR$} {:>MEMORY$}  PROCESSES{DIM:#}",
        "PROGRAM", "ALLOCATOR", "PSS"
    );
    let rows = rows(all);
    for row in &rows {
        let (mark, style) = match &row.key {
            Key { masu: true, .. } => ('✓', GREEN),
            Key { missed: true, .. } => ('✗', RED),
            _ => (' ', Style::new()),
        };
        let ids = ids(&row.ids, width.saturating_sub(NAME + ALLOCATOR + MEMORY + 8));
        let memory = row.bytes.map_or_else(|| "?".to_owned(), |bytes| Bytes(bytes).to_string());
        let (name, allocator) = (cut(row.key.name, NAME), cut(&row.key.allocator, ALLOCATOR));
        let _ = writeln!(
            text,
            "  {style}{mark}{style:#} {name:NAME$} {allocator:ALLOCATOR$} {memory:>MEMORY$}  {ids}"
        );
        for besides in &row.key.besides {
            let besides = printable(&format!("and {besides}"));
            let besides = cut(&besides, width.saturating_sub(NAME + 5));
            let _ = writeln!(text, "    {:NAME$} {DIM}{besides}{DIM:#}", "");
        }
    }
    notes(all, &rows, &mut text);
    text
}

fn headline(all: &All) -> String {
    let count = |masu: bool| all.processes.iter().filter(|process| process.masu == masu).count();
    let (on, off) = (count(true), count(false));
    let total = on + off;
    let processes = if total == 1 { "process" } else { "processes" };
    match on {
        0 => format!("None of {total} {processes} runs on masu."),
        _ if off == 0 => format!("masu serves all of {total} {processes}."),
        _ => format!("masu serves {on} of {total} {processes}."),
    }
}

fn rows(all: &All) -> Vec<Row<'_>> {
    let mut rows: BTreeMap<Key, (Option<u64>, Vec<u32>)> = BTreeMap::new();
    for process in &all.processes {
        let row = rows.entry(key(process)).or_default();
        if let Some(memory) = &process.memory {
            row.0 = Some(row.0.unwrap_or(0) + memory.pss);
        }
        row.1.push(process.id);
    }
    let row = |(key, (bytes, ids))| Row { key, bytes, ids };
    let mut rows: Vec<_> = rows.into_iter().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.bytes));
    rows
}

fn key(process: &Entry) -> Key<'_> {
    let malloc = process.malloc.as_ref().map(|serving| match serving.how {
        How::Preloaded => format!("{} (preloaded)", serving.allocator),
        How::Linked => format!("{} (linked)", serving.allocator),
        How::Inside => format!("{} (inside)", serving.allocator),
        How::Libc => serving.allocator.clone(),
    });
    let malloc = malloc.unwrap_or_else(|| "unknown".to_owned());
    let rust = process.rust && !malloc.starts_with("masu");
    let mut inside: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (path, name) in &process.others {
        inside.entry(file_name(path)).or_default().push(name);
    }
    let mut besides: Vec<_> =
        inside.iter().map(|(file, names)| format!("{} in {file}", names.join(", "))).collect();
    if rust {
        besides.insert(0, format!("{malloc}, for what is not Rust"));
    }
    Key {
        name: &process.name,
        allocator: if rust { "masu (Rust's)".to_owned() } else { malloc },
        besides,
        masu: process.masu,
        missed: process.asked && !process.masu,
    }
}

/// Returns the number, and those ids that fit in `width` columns.
fn ids(ids: &[u32], width: usize) -> String {
    if let [one] = ids {
        return one.to_string();
    }
    let mut text = format!("{}:", ids.len());
    for (i, id) in ids.iter().enumerate() {
        let id = format!(" {id}");
        // Room for the ellipsis.
        let rest = if i + 1 < ids.len() { 2 } else { 0 };
        if text.len() + id.len() + rest > width {
            text.push_str(" …");
            break;
        }
        text.push_str(&id);
    }
    text
}

/// Cuts `text` to at most `width` columns.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Adds what the table does not say.
fn notes(all: &All, rows: &[Row], text: &mut String) {
    let missed = rows.iter().filter(|row| row.key.missed).flat_map(|row| &row.ids);
    let missed: Vec<_> = missed.map(u32::to_string).collect();
    if !missed.is_empty() {
        let _ = writeln!(
            text,
            "\n  {RED}✗{RED:#} LD_PRELOAD names masu there, but masu does not serve."
        );
        let _ = writeln!(text, "    {RED}→{RED:#} masu doctor -p {}", missed.join(" "));
    }
    let mut users: BTreeMap<&str, usize> = BTreeMap::new();
    for process in &all.unread {
        *users.entry(&process.user).or_default() += 1;
    }
    if !users.is_empty() {
        let mut users: Vec<_> = users.into_iter().collect();
        users.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        let users: Vec<_> =
            users.iter().map(|(user, count)| format!("{count} of {user}")).collect();
        let _ = writeln!(text, "\n  · Not read: {}.", users.join(", "));
        if !rustix::process::geteuid().is_root() {
            let _ = writeln!(text, "    → sudo masu doctor --all");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::serving::Serving;

    #[test]
    fn as_many_ids_as_fit() {
        assert_eq!(ids(&[7], 20), "7");
        assert_eq!(ids(&[7, 8], 20), "2: 7 8");
        assert_eq!(ids(&[1000, 1001, 1002], 11), "3: 1000 …");
        assert_eq!(ids(&[1000, 1001, 1002], 17), "3: 1000 1001 1002");
    }

    #[test]
    fn a_terminal_of_80_columns() {
        let entry = |id: u32| Entry {
            id,
            name: "a-program-with-a-long-name".to_owned(),
            binary: None,
            user: "www".to_owned(),
            malloc: Some(Serving {
                allocator: "hardened_malloc".to_owned(),
                how: How::Preloaded,
                file: "/lib/libh.so".into(),
            }),
            rust: false,
            others: vec![(format!("/lib/{}.so", "long".repeat(30)).into(), "jemalloc".to_owned())],
            masu: false,
            asked: false,
            memory: None,
            unit: None,
        };
        let all = All {
            schema: super::super::SCHEMA,
            version: super::super::VERSION,
            processes: (4_000_000..4_000_020).map(entry).collect(),
            unread: Vec::new(),
        };
        let text = anstream::adapter::strip_str(&render(&all, 80)).to_string();
        let longest = text.lines().map(|line| line.chars().count()).max();
        assert_eq!(longest, Some(80), "{text}");
    }

    #[test]
    fn what_is_too_long_ends_in_an_ellipsis() {
        assert_eq!(cut("python3", 7), "python3");
        assert_eq!(cut("python3.11", 7), "python…");
    }
}

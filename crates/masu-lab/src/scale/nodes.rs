//! What threads get from other nodes of a simulated machine, for each trace: a table of the bytes, one of the blocks and
//! one of the cache lines.

use comfy_table::{Cell, CellAlignment, Table};
use masu_bench::report::Style;

use super::model::design::{Design, Variant};
use super::model::machine::COSTS;
use super::model::nodes::{Layout, Spread};
use super::model::trace::Trace;
use super::model::{Far, replay_on};

/// The numbers of cores: where all threads have shards of their own, where two have one, and where their number is no
/// power of two.
const CORES: [u32; 4] = [8, 32, 96, 256];

/// A trace under a design, by number of cores.
pub struct Row {
    workload: String,
    design: String,
    spread: Spread,
    far: Vec<Far>,
}

/// The designs: the engine as it is, as it would be if all nodes were one to it, and the others.
fn designs() -> [(Design, String); 4] {
    let alike = Variant { nodes: false, ..Variant::default() };
    [
        (Design::Tried(alike), "masu, nodes alike".into()),
        (Design::Masu, "masu".into()),
        (Design::Arena, Design::Arena.name()),
        (Design::Page, Design::Page.name()),
    ]
}

/// Replays a trace on a machine with so many nodes.
pub fn rows(trace: &Trace, nodes: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for spread in Spread::ALL {
        for (design, name) in designs() {
            let layout = Layout { nodes, spread };
            let far = |&cores: &u32| replay_on(trace, design, cores, COSTS, layout).far;
            let far = CORES.iter().map(far).collect();
            rows.push(Row { workload: trace.workload.clone(), design: name, spread, far });
        }
    }
    rows
}

/// What a table shows.
struct Figure {
    title: &'static str,
    of: fn(&Far) -> f64,
    /// Whether it shows what is not masu's.
    others: bool,
}

const FIGURES: [Figure; 3] = [
    Figure {
        title: "Bytes allocated on another node's pages, of 100",
        of: |far| far.bytes * 100.0,
        others: true,
    },
    Figure {
        title: "Allocations with such bytes, in 1,000 operations",
        of: |far| far.blocks * 1e3,
        others: false,
    },
    Figure {
        title: "Cache lines from another node, in 1,000 operations",
        of: |far| far.lines * 1e3,
        others: false,
    },
];

/// The tables.
pub fn render(rows: &[Row], nodes: usize, style: Style) -> String {
    let table = |figure: &Figure| {
        let mut table = Table::new();
        let cores = CORES.iter().map(|cores| format!("{cores} cores"));
        let head = ["trace", "threads", "design"].map(String::from);
        table.set_header(head.into_iter().chain(cores));
        for row in rows.iter().filter(|row| figure.others || row.design.starts_with("masu")) {
            let names = [&row.workload, row.spread.words(), &row.design].map(Cell::new);
            let values = row.far.iter().map(|far| shown((figure.of)(far)));
            table.add_row(names.into_iter().chain(values));
        }
        style.draw(&mut table);
        format!("{}{table}\n", style.heading(figure.title))
    };
    let tables: String = FIGURES.iter().map(table).collect();
    format!("{}{}\n{tables}", style.heading(&format!("On {nodes} nodes")), style.prose(LIMITS))
}

fn shown(value: f64) -> Cell {
    let text = match value {
        0.0 => "0".into(),
        0.0..0.1 => "< 0.1".into(),
        0.1..10.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    };
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// What readers have to know.
const LIMITS: &str = "\
A model, not a measurement. A page lies on the node of the core that touched it first. Threads are *together* if \
those of one copy of the trace are on one node, *anywhere* if each is on any, and *moved* if in addition each went to \
the next node just before counting began. *Nodes alike* is the engine if it knew of no nodes.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_have_all_rows_and_only_the_first_has_other_designs() {
        let far = Far { bytes: 0.25, blocks: 0.00001, lines: 0.0 };
        let row = |design: &str| Row {
            workload: "w".into(),
            design: design.into(),
            spread: Spread::Anywhere,
            far: vec![far; CORES.len()],
        };
        let text = render(&[row("masu"), row("a lock per arena")], 2, Style::Markdown);
        assert_eq!(text.matches("| anywhere | masu").count(), 3, "{text}");
        assert_eq!(text.matches("| anywhere | a lock per arena").count(), 1, "{text}");
        assert!(["25 |", "< 0.1 |", " 0 |"].iter().all(|figure| text.contains(figure)), "{text}");
    }
}

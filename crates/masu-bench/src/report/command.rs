//! One command under every allocator: a table with a row for each, and who wins.

use comfy_table::{Attribute, Cell, CellAlignment, Color, Table};

use super::standing::{Place, Standing, noise_text};
use super::{Metric, Style, sentence, table};
use crate::race::results::{Measured, Results};
use crate::stats::Verdict;

const METRICS: [Metric; 6] = [
    Metric::Wall,
    Metric::Cpu,
    Metric::Instructions,
    Metric::Peak,
    Metric::Faults,
    Metric::Switches,
];

/// What the signs mean, below the table.
const LEGEND: &str = "\
In brackets: the ratio to the best of the column; 1.00 is the best, more is worse. `~` marks \
what cannot be told apart from the best: the difference is within the noise, which is what two entries \
of the same allocator differ by, or within its own 95% interval. ± is such an interval too.";

/// The table and the sentence.
pub fn render(results: &Results, measured: &Measured, style: Style) -> String {
    let standings: Vec<(Metric, Standing)> = METRICS
        .into_iter()
        .map(|metric| (metric, Standing::new(results, measured, metric)))
        .filter(|(_, standing)| !standing.places.is_empty())
        .collect();
    let mut table = Table::new();
    let titles = standings.iter().map(|(metric, _)| metric.name());
    table.set_header(std::iter::once("").chain(titles).map(|title| bold(Cell::new(title), style)));
    // The order of the rows is that of the first column of figures.
    let first = standings.first().map(|(_, standing)| standing.places.as_slice()).unwrap_or(&[]);
    for &Place { arm, .. } in first {
        let cells = standings.iter().map(|(metric, standing)| {
            let place = standing.places.iter().find(|place| place.arm == arm);
            place.map_or(Cell::new("-"), |place| cell(*metric, place, style))
        });
        let entrant = &results.arms[arm];
        let name = Cell::new(format!("{} {}", entrant.name, entrant.version));
        table.add_row(std::iter::once(name).chain(cells));
    }
    let noise = standings.iter().map(|(_, standing)| {
        let text = noise_text(standing.noise, 1);
        dim(Cell::new(text).set_alignment(CellAlignment::Right), style)
    });
    table.add_row(std::iter::once(dim(Cell::new("noise"), style)).chain(noise));
    style.draw(&mut table);
    let mut text = match first {
        [] => String::new(),
        _ => format!("{table}\n\n{}\n\n", style.prose(LEGEND)),
    };
    text += &format!("{}\n", style.prose(&sentence(results, measured)));
    text += &misbehaviour(results, measured);
    if measured.varies {
        text += "Its output differs every time, so it was not compared.\n";
    }
    text + &table::latencies(results, style) + &table::instructions(results, style)
}

/// The median and how far it is certain, and in brackets the ratio to the best of the column.
fn cell(metric: Metric, place: &Place, style: Style) -> Cell {
    let text = table::figure(metric, place);
    let (text, verdict) = match table::ratio(place) {
        Some((ratio, verdict)) => (format!("{text} ({ratio})"), verdict),
        None => (text, Verdict::Loss),
    };
    let cell = Cell::new(text).set_alignment(CellAlignment::Right);
    match (style, verdict) {
        (Style::Terminal { colour: true }, Verdict::Win | Verdict::Tie) => cell.fg(Color::Green),
        _ => cell,
    }
}

fn bold(cell: Cell, style: Style) -> Cell {
    match style {
        Style::Terminal { colour: true } => cell.add_attribute(Attribute::Bold),
        _ => cell,
    }
}

fn dim(cell: Cell, style: Style) -> Cell {
    match style {
        Style::Terminal { colour: true } => cell.add_attribute(Attribute::Dim),
        _ => cell,
    }
}

/// Who is out, and why.
fn misbehaviour(results: &Results, measured: &Measured) -> String {
    let line = |arm: usize| {
        let (_, failure) = measured.failure(arm)?;
        Some(format!("Out of the race: {} {failure}.\n", results.arms[arm].name))
    };
    results.shown().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::results::Role;
    use crate::testing;

    #[test]
    fn the_best_comes_first_and_who_failed_is_out() {
        let results = testing::results(&[
            ("masu", Role::Subject, &[f64::NAN; 6]),
            ("glibc", Role::Peer, &[2.0; 6]),
            ("other", Role::Peer, &[1.0; 6]),
            ("glibc", Role::Twin, &[2.0; 6]),
        ]);
        let text = render(&results, &results.workloads[0], Style::Markdown);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[2].starts_with("| other 1") && lines[2].contains("1.00 s ±0.0% (1.00)"),
            "{text}"
        );
        assert!(
            lines[3].starts_with("| glibc 1") && lines[3].contains("2.00 s ±0.0% (2.00)"),
            "{text}"
        );
        assert!(lines[4].starts_with("| noise") && lines[4].contains("±1.0%"), "{text}");
        assert!(text.contains("`~` marks what cannot be told apart"), "{text}");
        assert!(text.contains("Out of the race: masu stopped after 1 s."), "{text}");
        assert!(text.contains("other is the fastest: glibc takes 2.00 ± 0.00 times"), "{text}");
    }
}

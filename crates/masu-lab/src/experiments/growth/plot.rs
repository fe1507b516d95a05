//! Bars of a contest: a panel for each figure, a bar for each contestant, its spread as a line.

use std::path::Path;

use anyhow::Result;
use plotters::prelude::*;

use super::contest::{Contest, Results};
use super::report::{label, shown};
use crate::experiments::chart::failed;
use crate::stats::median;

const WIDTH: i32 = 720;
/// Where bars begin, behind the names.
const START: i32 = 230;
/// The longest bar.
const LONGEST: i32 = 380;
/// The height of a bar and of a panel's title.
const LINE: i32 = 20;

/// Draws the figures that a contest names.
pub fn bars(path: &Path, contest: &Contest, results: &Results) -> Result<()> {
    let panel = (results.len() as i32 + 2) * LINE;
    let height = panel * contest.plotted.len() as i32;
    let root = SVGBackend::new(path, (WIDTH as u32, height as u32)).into_drawing_area();
    root.fill(&WHITE).map_err(failed)?;
    let font = ("sans-serif", 13).into_font();
    for (number, name) in contest.plotted.iter().enumerate() {
        let top = number as i32 * panel;
        let text = |text: String, at: (i32, i32)| Text::new(text, at, font.clone());
        root.draw(&text(format!("{}: {name}", contest.title), (8, top + 6))).map_err(failed)?;
        let values = |entry: usize| -> Vec<f64> {
            let runs = results[entry].as_ref().map_or(&[][..], Vec::as_slice);
            runs.iter().filter_map(|run| run.get(name.as_str()).copied()).collect()
        };
        let most = (0..results.len()).flat_map(values).fold(0.0, f64::max);
        let length = |value: f64| START + (value / most.max(1e-9) * f64::from(LONGEST)) as i32;
        for entry in 0..results.len() {
            let y = top + (entry as i32 + 1) * LINE + 8;
            root.draw(&text(label(contest, entry), (8, y + 2))).map_err(failed)?;
            let values = values(entry);
            let Some(middle) = median(&values) else {
                root.draw(&text("failed".into(), (START, y + 2))).map_err(failed)?;
                continue;
            };
            let colour = if contest.is_masu(entry) { RED.mix(0.6) } else { BLUE.mix(0.4) };
            let bar = Rectangle::new([(START, y), (length(middle), y + LINE - 5)], colour.filled());
            root.draw(&bar).map_err(failed)?;
            let (low, high) = values
                .iter()
                .fold((f64::MAX, 0.0f64), |(low, high), v| (low.min(*v), high.max(*v)));
            let spread = vec![(length(low), y + 7), (length(high), y + 7)];
            root.draw(&PathElement::new(spread, BLACK.stroke_width(1))).map_err(failed)?;
            root.draw(&text(shown(middle), (length(high) + 6, y + 2))).map_err(failed)?;
        }
    }
    root.present().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::super::contest::{Contestant, Figures};
    use super::*;
    use crate::arm::Arm;

    #[test]
    fn every_contestant_has_a_bar_in_every_panel_or_is_said_to_have_failed() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("bars.svg");
        let work = |label| Contestant::work(label, &Arm::glibc(), ["pool".to_owned()]);
        let contest = Contest {
            name: "x".into(),
            title: "A title".into(),
            about: String::new(),
            plotted: vec!["first ms".into(), "peak MiB".into()],
            contestants: vec![work("one"), work("two")],
        };
        let run = Figures::from([("first ms".into(), 2.5), ("peak MiB".into(), 8.0)]);
        let results = vec![Ok(vec![run.clone(), run]), Err("no".into()), Ok(Vec::new())];
        bars(&path, &contest, &results).unwrap();
        let svg = std::fs::read_to_string(path).unwrap();
        for (text, times) in [("A title", 2), ("one (again)", 2), ("two", 2), ("failed", 4)] {
            assert_eq!(svg.matches(text).count(), times, "{text}");
        }
        for value in ["2.50", "8.00"] {
            assert!(svg.contains(value), "{value}");
        }
    }
}

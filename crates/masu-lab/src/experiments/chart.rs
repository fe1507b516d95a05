//! Charts of the experiments, as SVG.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

/// Several charts side by side.
pub struct Panel {
    /// Above the chart.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
}

/// One line.
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// How an axis is divided, and what it shows.
#[derive(Clone, Copy)]
pub enum Axis {
    /// In equal steps, from 0.
    Linear(&'static str),
    /// By powers.
    Log(&'static str),
}

impl Axis {
    fn label(self) -> &'static str {
        match self {
            Axis::Linear(label) | Axis::Log(label) => label,
        }
    }

    /// Where the axis begins and ends to hold all values, with some room.
    fn range(self, values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
        let (low, high) = values
            .fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
        match self {
            _ if !low.is_finite() || high <= 0.0 => 0.5..1.0,
            Axis::Linear(_) => 0.0..high * 1.1,
            Axis::Log(_) => low.max(high / 1e9) / 1.25..high * 1.25,
        }
    }
}

const WIDTH: u32 = 670;
const HEIGHT: u32 = 380;
/// Of which the legend's part is on the right.
const LEGEND: u32 = 180;

/// Colours that can be told apart, also by most who see few of them; a series beyond them begins anew
/// with a thinner line.
pub const COLOURS: [RGBColor; 11] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(90, 90, 90),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(128, 0, 32),
    RGBColor(110, 60, 160),
    RGBColor(120, 140, 0),
    RGBColor(0, 0, 0),
];

/// Most points of a line that are marked.
const MARKED: usize = 30;

/// Draws panels in rows of `columns`.
pub fn lines(path: &Path, panels: &[Panel], columns: usize) -> Result<()> {
    let columns = columns.min(panels.len()).max(1);
    let rows = panels.len().div_ceil(columns);
    let size = (WIDTH * columns as u32, HEIGHT * rows as u32);
    let root = SVGBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE).map_err(failed)?;
    for (area, panel) in root.split_evenly((rows, columns)).iter().zip(panels) {
        let points = || panel.series.iter().flat_map(|series| series.points.iter());
        let x = panel.x.range(points().map(|point| point.0));
        let y = panel.y.range(points().map(|point| point.1));
        match (panel.x, panel.y) {
            (Axis::Linear(_), Axis::Linear(_)) => one(area, panel, x, y)?,
            (Axis::Log(_), Axis::Linear(_)) => one(area, panel, x.log_scale(), y)?,
            (Axis::Linear(_), Axis::Log(_)) => one(area, panel, x, y.log_scale())?,
            (Axis::Log(_), Axis::Log(_)) => one(area, panel, x.log_scale(), y.log_scale())?,
        }
    }
    root.present().map_err(failed)?;
    drop(root);
    slim(path)
}

/// Draws a dot with its name at each place, in a field from 1 on both axes: less is better, and nothing is below 1.
/// The first one stands out.
pub fn dots(path: &Path, x: &str, y: &str, dots: &[(String, f64, f64)]) -> Result<()> {
    let most = |values: fn(&(String, f64, f64)) -> f64| dots.iter().map(values).fold(1.2, f64::max);
    let (right, top) =
        (1.0 + (most(|dot| dot.1) - 1.0) * 1.15, 1.0 + (most(|dot| dot.2) - 1.0) * 1.1);
    let root = SVGBackend::new(path, (WIDTH, HEIGHT)).into_drawing_area();
    root.fill(&WHITE).map_err(failed)?;
    let mut chart = ChartBuilder::on(&root)
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(1.0..right, 1.0..top)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .x_desc(x)
        .y_desc(y)
        .x_label_formatter(&|value| short(*value))
        .y_label_formatter(&|value| short(*value))
        .light_line_style(WHITE.mix(0.0))
        .draw()
        .map_err(failed)?;
    for (index, (name, x, y)) in dots.iter().enumerate() {
        let colour = if index == 0 { COLOURS[1] } else { COLOURS[4] };
        let size = if index == 0 { 7 } else { 5 };
        let dot = EmptyElement::at((*x, *y))
            + Circle::new((0, 0), size, colour.filled())
            + Text::new(name.clone(), (10, -6), ("sans-serif", 13));
        chart.draw_series(std::iter::once(dot)).map_err(failed)?;
    }
    root.present().map_err(failed)?;
    drop(chart);
    drop(root);
    slim(path)
}

/// Takes out of a drawing what goes without saying or cannot be seen: more than half of it.
fn slim(path: &Path) -> Result<()> {
    let svg = std::fs::read_to_string(path)?;
    Ok(std::fs::write(path, slimmed(&svg))?)
}

fn slimmed(svg: &str) -> String {
    let mut svg = svg.to_owned();
    for (said, meant) in SLIMMER {
        svg = svg.replace(said, meant);
    }
    let mut parts = svg.split(" points=\"");
    let mut slim = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (points, rest) = part.split_once('"').unwrap_or((part, ""));
        slim += &format!(" points=\"{}\"{rest}", thinned(points));
    }
    on_one_line(&joined(&slim))
}

/// Puts each text on the line of its element.
fn on_one_line(svg: &str) -> String {
    let mut slim = String::new();
    for line in svg.replace("\n</text>", "</text>").lines() {
        slim += line;
        if !line.starts_with("<text") || line.ends_with("</text>") {
            slim.push('\n');
        }
    }
    slim
}

/// Makes one path of lines of a grid or an axis that look the same and come one after the other, whatever is written
/// between them.
fn joined(svg: &str) -> String {
    let mut slim = String::new();
    let (mut look, mut path) = ("", String::new());
    let mut in_text = false;
    for line in svg.lines() {
        let straight = straight(line);
        in_text |= line.starts_with("<text");
        if !path.is_empty() && !in_text && straight.as_ref().is_none_or(|(its, _)| *its != look) {
            slim += &format!("<path {look} d=\"{path}\"/>\n");
            path.clear();
        }
        if let Some((its, drawn)) = straight {
            look = its;
            path += &drawn;
        } else {
            slim += line;
            slim.push('\n');
        }
        in_text &= line != "</text>";
    }
    slim
}

/// What a line looks like, and how it is drawn, if the element is one that is vertical or horizontal.
fn straight(element: &str) -> Option<(&str, String)> {
    let (look, points) = if let Some(line) = element.strip_prefix("<line ") {
        let (look, ends) = line.split_once(" x1=\"")?;
        (look, ends.split('"').step_by(2).take(4).collect::<Vec<_>>())
    } else {
        let line = element.strip_prefix("<polyline fill=\"none\" ")?;
        let (look, points) = line.split_once(" points=\"")?;
        (look, points.split_once('"')?.0.split([' ', ',']).collect())
    };
    let [x1, y1, x2, y2] = points[..] else { return None };
    let drawn = match (x1 == x2, y1 == y2) {
        (true, _) => format!("M{x1} {y1}V{y2}"),
        (_, true) => format!("M{x1} {y1}H{x2}"),
        _ => return None,
    };
    Some((look, drawn))
}

/// The points of a line in pixels, without those that it passes anyway. All of them if they cannot be read.
fn thinned(points: &str) -> String {
    let point = |point: &str| {
        let (x, y) = point.split_once(',')?;
        Some((x.parse().ok()?, y.parse().ok()?))
    };
    let Some(all) = points.split_whitespace().map(point).collect::<Option<Vec<_>>>() else {
        return points.to_owned();
    };
    let mut kept = Vec::new();
    kept.extend(all.first().copied());
    keep(&all, &mut kept);
    kept.iter().map(|(x, y)| format!("{x},{y}")).collect::<Vec<_>>().join(" ")
}

/// Pixels by which a line may pass beside a point that is left out.
const UNSEEN: f64 = 0.7;

/// Adds to `kept` what the line needs behind its first point (Ramer, Douglas and Peucker).
fn keep(line: &[(f64, f64)], kept: &mut Vec<(f64, f64)>) {
    let [first, between @ .., last] = line else { return };
    let (dx, dy) = (last.0 - first.0, last.1 - first.1);
    let beside = |point: &(f64, f64)| match (point.0 - first.0, point.1 - first.1) {
        (x, y) if dx == 0.0 && dy == 0.0 => x.hypot(y),
        (x, y) => (dx * y - dy * x).abs() / dx.hypot(dy),
    };
    let farthest =
        (0..between.len()).max_by(|&a, &b| beside(&between[a]).total_cmp(&beside(&between[b])));
    match farthest {
        Some(at) if beside(&between[at]) > UNSEEN => {
            keep(&line[..at + 2], kept);
            keep(&line[at + 1..], kept);
        }
        _ => kept.push(*last),
    }
}

/// What the drawing library says of every element, and what is enough.
const SLIMMER: [(&str, &str); 13] = [
    ("10.483870967741936", "10.5"),
    (" text-anchor=\"start\"", ""),
    (" fill=\"#000000\" transform", " transform"),
    ("9.67741935483871", "9.7"),
    ("12.903225806451614", "13"),
    (" font-size=\"9.7\"", ""),
    (" opacity=\"1\"", ""),
    (" font-family=\"sans-serif\"", ""),
    (
        "xmlns=\"http://www.w3.org/2000/svg\">",
        "xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" font-size=\"9.7\">",
    ),
    (" stroke=\"none\" stroke-width=\"1\"/>", "/>"),
    (" stroke=\"none\"/>", "/>"),
    (" fill=\"#000000\">", ">"),
    (" stroke-width=\"1\"", ""),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn one<X, Y>(area: &Area, panel: &Panel, x: X, y: Y) -> Result<()>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let wide = area.dim_in_pixel().0.saturating_sub(LEGEND);
    let (left, right) = area.split_horizontally(wide);
    let mut chart = ChartBuilder::on(&left)
        .caption(&panel.title, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(x, y)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .x_desc(panel.x.label())
        .y_desc(panel.y.label())
        .x_label_formatter(&|value| short(*value))
        .y_label_formatter(&|value| short(*value))
        .light_line_style(WHITE.mix(0.0))
        .draw()
        .map_err(failed)?;
    for (index, series) in panel.series.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let style = colour.stroke_width(if index < COLOURS.len() { 2 } else { 1 });
        let points = series.points.iter().copied();
        chart.draw_series(LineSeries::new(points.clone(), style)).map_err(failed)?;
        // Of many points the line says enough.
        if series.points.len() <= MARKED {
            chart
                .draw_series(points.map(|point| Circle::new(point, 2, colour.filled())))
                .map_err(failed)?;
        }
        let y = 44 + 18 * index as i32;
        right.draw(&PathElement::new([(0, y), (18, y)], style)).map_err(failed)?;
        let name = Text::new(series.name.as_str(), (24, y - 6), ("sans-serif", 12));
        right.draw(&name).map_err(failed)?;
    }
    Ok(())
}

/// A number on an axis: no digits that say nothing.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The drawing library's errors borrow what was drawn.
pub fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("cannot draw: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_is_drawn_and_named_in_a_chart_of_any_axes() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("chart.svg");
        let series =
            |name: &str| Series { name: name.into(), points: vec![(1.0, 2.0), (8.0, 90.0)] };
        let panel = |x, y| Panel {
            title: "a title".into(),
            x,
            y,
            series: vec![series("first"), series("second")],
        };
        let (linear, log) = (Axis::Linear("x"), Axis::Log("y"));
        let panels = [panel(linear, linear), panel(log, log), panel(linear, log)];
        lines(&path, &panels, 2).unwrap();
        let svg = std::fs::read_to_string(path).unwrap();
        assert!(svg.matches("<polyline").count() >= 6);
        for text in ["a title", "first", "second"] {
            assert_eq!(svg.matches(text).count(), 3, "{text}");
        }
    }

    #[test]
    fn every_dot_is_drawn_and_named() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("dots.svg");
        let all = [("first".into(), 1.0, 1.1), ("second".into(), 2.4, 17.0)];
        dots(&path, "time", "memory", &all).unwrap();
        let svg = std::fs::read_to_string(path).unwrap();
        assert_eq!(svg.matches("<circle").count(), 2);
        for text in ["time", "memory", "first", "second"] {
            assert_eq!(svg.matches(text).count(), 1, "{text}");
        }
    }

    #[test]
    fn a_line_keeps_the_points_that_shape_it() {
        let line = "0,0 1,0 2,0 9,0 10,50 11,0 20,0 20,0 ";
        assert_eq!(thinned(line), "0,0 9,0 10,50 11,0 20,0");
        assert_eq!(thinned("0,0 10,10 0,0"), "0,0 10,10 0,0", "back to where it began");
        assert_eq!(thinned("5,5"), "5,5");
        assert_eq!(thinned("no points"), "no points");
    }

    #[test]
    fn lines_of_a_grid_are_one_path() {
        let grid = r#"<line stroke="red" x1="1" y1="2" x2="1" y2="9"/>
<text>
<polyline
</text>
<line stroke="red" x1="1" y1="2" x2="5" y2="2"/>
<polyline fill="none" stroke="blue" points="3,4 3,6"/>
<polyline fill="none" stroke="blue" points="3,4 4,6"/>
"#;
        let slim = r#"<text>
<polyline
</text>
<path stroke="red" d="M1 2V9M1 2H5"/>
<path stroke="blue" d="M3 4V6"/>
<polyline fill="none" stroke="blue" points="3,4 4,6"/>
"#;
        assert_eq!(joined(grid), slim);
        assert_eq!(joined(slim), slim);
        assert_eq!(
            on_one_line("<text x=\"1\">\n0.5\n</text>\n<path/>\n"),
            "<text x=\"1\">0.5</text>\n<path/>\n"
        );
    }

    #[test]
    fn a_chart_without_values_is_drawn_empty() {
        let place = tempfile::tempdir().unwrap();
        let panel = Panel {
            title: String::new(),
            x: Axis::Log("x"),
            y: Axis::Log("y"),
            series: Vec::new(),
        };
        lines(&place.path().join("chart.svg"), &[panel], 1).unwrap();
    }
}

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

const WIDTH: u32 = 560;
const HEIGHT: u32 = 380;

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
    root.present().map_err(failed)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn one<X, Y>(area: &Area, panel: &Panel, x: X, y: Y) -> Result<()>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(area)
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
        .light_line_style(WHITE.mix(0.0))
        .draw()
        .map_err(failed)?;
    for (index, series) in panel.series.iter().enumerate() {
        let colour = Palette99::pick(index).to_rgba();
        let points = series.points.iter().copied();
        chart
            .draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))
            .map_err(failed)?
            .label(&series.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
        chart
            .draw_series(points.map(|point| Circle::new(point, 2, colour.filled())))
            .map_err(failed)?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.7))
        .label_font(("sans-serif", 11))
        .draw()
        .map_err(failed)
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

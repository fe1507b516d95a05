//! The article's set of figures: lines over all sizes, maps of one allocator each, the ratio of box
//! to slab, and three cells in detail; for the whole and for the first batch.

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::cells::SIZES;
use super::output::{Cell, Spread};
use super::patterns::Pattern;
use super::{COLUMNS, Results};
use crate::experiments::chart::{self, Axis, Panel, Series, failed};
use crate::experiments::files::Files;

/// A measure: file name, axis, and where it is in a cell.
type Measure = (&'static str, &'static str, fn(&Cell) -> Spread);

const MEASURES: [Measure; 2] = [
    ("total", "ms for 1000 batches", |cell| cell.total_ms),
    ("latency", "µs for the first batch", |cell| cell.latency_us),
];

/// The columns that are drawn: all but the repeated one and those for comparison only.
fn drawn() -> impl Iterator<Item = &'static str> {
    COLUMNS
        .iter()
        .map(|column| column.name)
        .filter(|name| !name.contains("_on_") && !name.ends_with("_again"))
}

/// Draws them all.
pub fn draw(results: &Results, cells: &[Cell], files: &Files) -> Result<()> {
    for (name, unit, of) in MEASURES {
        let path = |what: &str| files.raw(&format!("memalloc-bench/{name}_{what}.svg"));
        // The page shows the whole of each pattern.
        let shown = |what: &str| match name {
            "total" => files.path(&format!("memalloc-bench/{name}_{what}.svg")),
            _ => path(what),
        };
        let panels = Pattern::ALL.map(|pattern| panel(cells, pattern, unit, of));
        chart::lines(&path("all_patterns")?, &panels, 2)?;
        for (pattern, panel) in Pattern::ALL.iter().zip(panels) {
            chart::lines(&shown(pattern.name())?, &[panel], 1)?;
        }
        chart::lines(&path("box_slab_ratio")?, &ratios(cells, of), 2)?;
        for column in drawn() {
            map(&path(&format!("map_{column}"))?, cells, column, unit, of)?;
        }
        let details = [(Pattern::Immediate, 64), (Pattern::Lifo, 256), (Pattern::Random, 1024)];
        for (pattern, size) in details {
            let file = path(&format!("box_plot_{}_{size}", pattern.name()))?;
            boxes(&file, results, pattern, size, unit, name == "latency")?;
        }
    }
    Ok(())
}

fn value(
    cells: &[Cell],
    column: &str,
    pattern: Pattern,
    size: usize,
    of: fn(&Cell) -> Spread,
) -> Option<f64> {
    let cell = cells.iter().find(|cell| {
        (cell.allocator, cell.pattern, cell.size_bytes) == (column, pattern.name(), size)
    })?;
    Some(of(cell).median)
}

fn panel(cells: &[Cell], pattern: Pattern, unit: &'static str, of: fn(&Cell) -> Spread) -> Panel {
    let series = drawn().map(|name| Series {
        name: name.into(),
        points: SIZES
            .iter()
            .filter_map(|&size| Some((size as f64, value(cells, name, pattern, size, of)?)))
            .collect(),
    });
    Panel {
        title: pattern.name().into(),
        x: Axis::Log("bytes"),
        y: Axis::Log(unit),
        series: series.collect(),
    }
}

/// Box over warm slab, the system's and masu's; 1 is drawn as a line.
fn ratios(cells: &[Cell], of: fn(&Cell) -> Spread) -> Vec<Panel> {
    let pairs = [
        ("box / slab_warm", "box", "slab_warm"),
        ("masu_box / masu_slab_warm", "masu_box", "masu_slab_warm"),
        ("box / masu_box", "box", "masu_box"),
    ];
    let panels = Pattern::ALL.map(|pattern| {
        let ratio = |(name, above, below): (&str, &str, &str)| Series {
            name: name.into(),
            points: SIZES
                .iter()
                .filter_map(|&size| {
                    let above = value(cells, above, pattern, size, of)?;
                    Some((size as f64, above / value(cells, below, pattern, size, of)?))
                })
                .collect(),
        };
        let one = Series { name: "1".into(), points: vec![(8.0, 1.0), (4096.0, 1.0)] };
        Panel {
            title: format!("{}: ratios, above 1 the second is faster", pattern.name()),
            x: Axis::Log("bytes"),
            y: Axis::Log("ratio"),
            series: pairs.into_iter().map(ratio).chain([one]).collect(),
        }
    });
    panels.into()
}

/// A map of one column: patterns by sizes, the darker the slower.
fn map(
    path: &std::path::Path,
    cells: &[Cell],
    column: &str,
    unit: &str,
    of: fn(&Cell) -> Spread,
) -> Result<()> {
    let all = cells.iter().map(|cell| of(cell).median.max(1e-6).ln());
    let (low, high) = all.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    let root = SVGBackend::new(path, (1100, 240)).into_drawing_area();
    root.fill(&WHITE).map_err(failed)?;
    let (columns, rows) = (0..SIZES.len() - 1, 0..Pattern::ALL.len() - 1);
    let mut chart = ChartBuilder::on(&root)
        .caption(format!("{column}: {unit}, median"), ("sans-serif", 16))
        .margin(8)
        .x_label_area_size(40)
        .y_label_area_size(80)
        .build_cartesian_2d(columns.into_segmented(), rows.into_segmented())
        .map_err(failed)?;
    let named = |place: &SegmentValue<usize>, name: &dyn Fn(usize) -> String| match place {
        SegmentValue::CenterOf(place) => name(*place),
        _ => String::new(),
    };
    let size = |place: usize| SIZES.get(place).map_or(String::new(), usize::to_string);
    let pattern = |place: usize| Pattern::ALL.get(place).map_or("", |p| p.name()).to_owned();
    chart
        .configure_mesh()
        .disable_mesh()
        .x_desc("bytes")
        .x_labels(SIZES.len())
        .x_label_formatter(&|place| named(place, &size))
        .y_labels(Pattern::ALL.len())
        .y_label_formatter(&|place| named(place, &pattern))
        .draw()
        .map_err(failed)?;
    let style = ("sans-serif", 12).into_text_style(&root).pos(Pos::new(HPos::Center, VPos::Center));
    for (row, pattern) in Pattern::ALL.into_iter().enumerate() {
        for (place, size) in SIZES.into_iter().enumerate() {
            let Some(median) = value(cells, column, pattern, size, of) else { continue };
            let share = (median.max(1e-6).ln() - low) / (high - low).max(1e-9);
            let colour = HSLColor(0.6 * (1.0 - share), 0.55, 0.7);
            let corners = [
                (SegmentValue::Exact(place), SegmentValue::Exact(row)),
                (SegmentValue::Exact(place + 1), SegmentValue::Exact(row + 1)),
            ];
            chart.draw_series([Rectangle::new(corners, colour.filled())]).map_err(failed)?;
            let text = if median < 10.0 { format!("{median:.2}") } else { format!("{median:.0}") };
            let middle = (SegmentValue::CenterOf(place), SegmentValue::CenterOf(row));
            chart.draw_series([Text::new(text, middle, style.clone())]).map_err(failed)?;
        }
    }
    root.present().map_err(failed)
}

/// Every column's spread in one cell.
fn boxes(
    path: &std::path::Path,
    results: &Results,
    pattern: Pattern,
    size: usize,
    unit: &str,
    latency: bool,
) -> Result<()> {
    let names: Vec<&str> = drawn().collect();
    let values = |name: &str| -> Vec<f64> {
        let records = results.records.iter().filter(|record| {
            COLUMNS[record.column].name == name && (record.pattern, record.size) == (pattern, size)
        });
        records
            .map(|record| match latency {
                true => record.latency_ns as f64 / 1e3,
                false => record.total_ns as f64 / 1e6,
            })
            .collect()
    };
    let quartiles: Vec<(usize, Quartiles)> = names
        .iter()
        .map(|name| values(name))
        .enumerate()
        .filter(|(_, values)| !values.is_empty())
        .map(|(place, values)| (place, Quartiles::new(&values)))
        .collect();
    let top = quartiles.iter().map(|(_, spread)| spread.values()[4]).fold(0.0f32, f32::max);
    let root = SVGBackend::new(path, (1000, 360)).into_drawing_area();
    root.fill(&WHITE).map_err(failed)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(format!("{}, {size} B: {unit}", pattern.name()), ("sans-serif", 16))
        .margin(8)
        .x_label_area_size(30)
        .y_label_area_size(60)
        .build_cartesian_2d((0..names.len() - 1).into_segmented(), 0.0..top * 1.1)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(names.len())
        .x_label_formatter(&|place| match place {
            SegmentValue::CenterOf(place) => names.get(*place).map_or("", |name| name).into(),
            _ => String::new(),
        })
        .draw()
        .map_err(failed)?;
    let plots = quartiles.iter().map(|(place, spread)| {
        Boxplot::new_vertical(SegmentValue::CenterOf(*place), spread).width(24)
    });
    chart.draw_series(plots).map_err(failed)?;
    root.present().map_err(failed)
}

//! Curves as areas of block characters, one below the other, with one scale for all and one time axis.
//!
//! Two areas in one picture would need colours to tell them apart, and a file or a pipe has none.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};

use crate::KIB_PER_MIB;
use crate::curve::Curve;

/// The width of all charts, including the numbers beside them.
pub const WIDTH: usize = 80;
/// Lines of one chart.
pub const HEIGHT: usize = 7;
/// The numbers on the left, and the line after them.
const MARGIN: usize = 9;
/// Maximum number of marks on a time axis.
pub const MARKS: usize = 8;
/// Columns for each mark's label, including the space after it.
const LABEL: usize = 8;
/// A cell filled from below, in eighths.
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The colours of the curves, in rotation.
const COLOURS: [AnsiColor; 2] = [AnsiColor::Yellow, AnsiColor::Green];

const BOLD: Style = Style::new().bold();

/// Draws each curve under its name, with colours: remove them if the output is not a terminal.
pub fn draw(curves: &[(&str, &Curve)]) -> String {
    draw_within(curves, WIDTH, HEIGHT)
}

/// Draws them `width` columns wide, with each chart `height` lines high.
pub fn draw_within(curves: &[(&str, &Curve)], width: usize, height: usize) -> String {
    let top = scale(curves.iter().map(|(_, curve)| curve.peak()).max().unwrap_or(0));
    let end = curves.iter().map(|(_, curve)| curve.end()).fold(0.0, f64::max).max(0.1);
    let columns = width.max(2 * MARGIN) - MARGIN;
    let mut text = String::new();
    for ((name, curve), colour) in curves.iter().zip(COLOURS.iter().cycle()) {
        let style = colour.on_default();
        let _ = writeln!(text, "{:MARGIN$}{BOLD}{name}{BOLD:#}", "");
        let parts = curve.parts(columns, end);
        for row in (0..height).rev() {
            let label = match row {
                _ if row + 1 == height => format!("{top} MiB"),
                _ if row == 0 => "0".into(),
                _ => String::new(),
            };
            let area: String = parts.iter().map(|&kib| cell(kib, row, top, height)).collect();
            let _ = writeln!(text, "{label:>8} {style}{}{style:#}", area.trim_end());
        }
    }
    text.push_str(&axis(end, columns));
    text
}

/// Returns the smallest of some round numbers of MiB that a peak fits below.
pub fn scale(peak_kib: u64) -> u64 {
    let mib = (peak_kib as f64 / KIB_PER_MIB).max(1.0);
    let power = 10f64.powf(mib.log10().floor());
    let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let step = steps.into_iter().find(|step| step * power >= mib).unwrap_or(10.0);
    (step * power).ceil() as u64
}

/// Returns the part of a column of `kib` that lies in a row, counted from below.
fn cell(kib: u64, row: usize, top: u64, height: usize) -> char {
    let eighths = kib as f64 / KIB_PER_MIB / top as f64 * (height * 8) as f64;
    // Any amount above zero is visible.
    let eighths = if kib > 0 { eighths.round().max(1.0) } else { 0.0 } as usize;
    EIGHTHS[eighths.saturating_sub(row * 8).min(8)]
}

/// Returns the seconds between two marks of an axis that has room for `marks`.
pub fn every(end: f64, marks: usize) -> f64 {
    let marks = marks as f64;
    let every = [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0];
    every.into_iter().find(|every| end / every <= marks).unwrap_or(end / marks)
}

/// Draws the seconds below the charts.
fn axis(end: f64, columns: usize) -> String {
    let every = every(end, (columns / LABEL).clamp(1, MARKS));
    let (mut line, mut second) = (" ".repeat(MARGIN), 0.0);
    while second <= end {
        let place = MARGIN + (second / end * (columns - 1) as f64).round() as usize;
        let label = if second == 0.0 { "0 s".into() } else { format!("{second:.0} s") };
        if place + label.len() > MARGIN + columns {
            break;
        }
        while line.len() < place {
            line.push(' ');
        }
        line.push_str(&label);
        second += every;
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        let mut plain = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('\x1b') {
            plain.push_str(before);
            rest = after.split_once('m').expect("a colour").1;
        }
        plain + rest
    }

    #[test]
    fn scales_are_round_and_large_enough() {
        for (mib, top) in
            [(0, 1), (1, 1), (2, 2), (7, 8), (100, 100), (101, 120), (950, 1000), (1001, 1200)]
        {
            assert_eq!(scale(mib * 1024), top, "{mib}");
        }
    }

    #[test]
    fn an_area_is_as_high_as_its_value() {
        let column = |mib: u64| -> String {
            (0..HEIGHT).map(|row| cell(mib * 1024, row, 56, HEIGHT)).collect()
        };
        assert_eq!(column(0), "       ");
        assert_eq!(column(1), "▁      ");
        assert_eq!(column(12), "█▄     ");
        assert_eq!(column(56), "███████");
        // A small amount is still visible.
        assert_eq!(cell(4, 0, 56, HEIGHT), '▁');
    }

    #[test]
    fn curves_share_scale_and_time() {
        let high = Curve((0..=400).map(|i| (f64::from(i) / 100.0, 100 << 10)).collect());
        let short = Curve((0..=200).map(|i| (f64::from(i) / 100.0, 50 << 10)).collect());
        let text = plain(&draw(&[("high", &high), ("short", &short)]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2 * (HEIGHT + 1) + 1);
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH), "{text}");
        // Even where the area is full.
        assert_eq!([lines[0].trim(), lines[8].trim()], ["high", "short"], "{text}");
        assert!(lines[1].starts_with(" 100 MiB █████"), "{text}");
        assert_eq!(lines[7].matches('█').count(), WIDTH - MARGIN);
        assert_eq!(lines[15].matches('█').count(), (WIDTH - MARGIN) / 2 + 1);
        assert!(!lines[11].contains('█') && lines[12].contains('▄'), "{text}");
        let wide = plain(&draw_within(&[("high", &high)], 200, 3));
        assert_eq!(wide.lines().map(|line| line.chars().count()).max(), Some(200), "{wide}");
        assert_eq!(wide.lines().count(), 5);
        let narrow = plain(&draw_within(&[("high", &high)], 40, 3));
        assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
        assert!(lines[16].trim_start().starts_with("0 s") && lines[16].contains("3 s"), "{text}");
    }
}

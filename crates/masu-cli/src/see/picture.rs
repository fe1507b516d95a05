//! Memory over time, as charts and sentences.

use std::fmt::Write;

use anstyle::Style;
use masu_watch::chart;
use masu_watch::curve::Curve;

use super::sampler::{Peak, Sample};
use crate::bytes::Bytes;

const BOLD: Style = Style::new().bold();
/// Number of rows shown of memory that went back: the last ones.
const ROWS: usize = 8;
/// Memory that goes back within this many seconds of other memory belongs to the same event.
const APART: f64 = 1.0;
/// Memory that goes back between two measurements belongs to no event if it is less than the maximum divided by this:
/// in a busy program some goes back all the time.
const TRICKLE: u64 = 50;
/// Less than this, in KiB, is never an event.
const LEAST: u64 = 256;

/// The room for a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Columns.
    pub columns: usize,
    /// Lines of each chart.
    pub chart: usize,
    /// Number of lines about memory that went back: the last ones.
    pub events: usize,
}

impl Frame {
    /// The space in a file.
    pub const FILE: Frame = Frame { columns: chart::WIDTH, chart: chart::HEIGHT, events: ROWS };

    /// The space on a terminal: the picture must fit as a whole, or it could not be redrawn in
    /// place.
    pub fn of_terminal(columns: u16, rows: u16) -> Frame {
        // Above and between are four lines, the names are two, the axis is one, and the cursor is on the last.
        let room = usize::from(rows).saturating_sub(8);
        let events = room.saturating_sub(2 * chart::HEIGHT).clamp(usize::from(room > 2), ROWS);
        let chart = room.saturating_sub(events) / 2;
        Frame { columns: usize::from(columns).clamp(30, 200), chart: chart.clamp(1, 12), events }
    }
}

/// Memory that went back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    /// The times of its start and its end.
    pub from: f64,
    /// See `from`.
    pub to: f64,
    /// In KiB.
    pub kib: u64,
}

/// Returns a curve of one figure of the samples.
pub fn curve(samples: &[Sample], of: impl Fn(&Sample) -> u64) -> Curve {
    Curve(samples.iter().map(|sample| (sample.second, of(sample))).collect())
}

/// Returns when memory went back.
pub fn events(samples: &[Sample]) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let given = |pair: &[Sample]| pair[1].back.saturating_sub(pair[0].back);
    let most = samples.windows(2).map(given).max().unwrap_or(0);
    for pair in samples.windows(2) {
        let kib = Some(given(pair)).filter(|&kib| kib >= most / TRICKLE).unwrap_or(0);
        let (from, to) = (pair[0].second, pair[1].second);
        match events.last_mut() {
            _ if kib == 0 => {}
            Some(event) if from - event.to < APART => {
                event.to = to;
                event.kib += kib;
            }
            _ => events.push(Event { from, to, kib }),
        }
    }
    events.retain(|event| event.kib >= LEAST);
    events
}

/// The peak, as words.
pub fn most(peak: Peak) -> String {
    let kib = Bytes(peak.kib * 1024);
    if peak.is_all { format!("{kib} at its peak") } else { format!("{kib} highest seen") }
}

/// The charts and what is to be said of them.
pub fn draw(name: &str, process: u32, samples: &[Sample], peak: Peak, frame: Frame) -> String {
    let Some(last) = samples.last() else {
        return format!("{name} ended before it could be read\n");
    };
    let resident = curve(samples, |sample| sample.resident);
    let free = curve(samples, |sample| sample.free);
    let head = format!(
        "process {process} ({name}): {} resident, {}",
        Bytes(last.resident * 1024),
        most(peak)
    );
    let head: String = head.chars().take(frame.columns).collect();
    let mut text = format!("{BOLD}{head}{BOLD:#}\n\n");
    let curves = [("resident", &resident), ("free, not yet returned", &free)];
    text.push_str(&chart::draw_within(&curves, frame.columns, frame.chart));
    let events = events(samples);
    let sum = Bytes(last.back * 1024);
    if events.is_empty() {
        text.push_str(&match last.back {
            0 => "\nNothing went back.\n".to_owned(),
            _ => format!("\nLittle went back ({sum}).\n"),
        });
        return text;
    }
    let _ = writeln!(text, "\n{BOLD}{sum} went back{BOLD:#}");
    for event in &events[events.len().saturating_sub(frame.events)..] {
        let _ = writeln!(
            text,
            "  {:>8.1} s to {:>6.1} s {:>12}",
            event.from,
            event.to,
            Bytes(event.kib * 1024).to_string()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_back_is_said_if_it_is_nothing_or_little() {
        let sample = |back| Sample { second: 1.0, resident: 9, free: 2, back };
        let text = |back| {
            let (peak, frame) =
                (Peak { kib: 9, is_all: true }, Frame { columns: 80, chart: 4, events: 1 });
            draw("x", 7, &[sample(back)], peak, frame)
        };
        assert!(text(0).ends_with("\nNothing went back.\n"));
        assert!(text(12).ends_with("\nLittle went back (12 KiB).\n"));
    }

    #[test]
    fn a_picture_fits_its_terminal() {
        // Two megabytes go back every two seconds.
        let samples: Vec<_> = (0..40u32)
            .map(|n| Sample {
                second: f64::from(2 * n),
                resident: 9_000,
                free: 2_000,
                back: u64::from(n) * 2048,
            })
            .collect();
        for (columns, rows) in [(80, 24), (200, 50), (200, 60), (40, 12), (80, 10)] {
            let frame = Frame::of_terminal(columns, rows);
            let text = draw("a-long-name-of-15", 4_194_304, &samples, Peak::default(), frame);
            let text = anstream::adapter::strip_str(&text).to_string();
            assert!(text.lines().count() < usize::from(rows), "{columns}x{rows}:\n{text}");
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(usize::from(columns)), "{columns}x{rows}:\n{text}");
        }
        assert_eq!(Frame::of_terminal(200, 60), Frame { columns: 200, chart: 12, events: ROWS });
    }

    #[test]
    fn what_goes_back_in_a_row_is_one_event() {
        let sample = |second, back| Sample { second, resident: 10_000, free: 10, back };
        let samples = [
            (0.0, 0),
            (0.5, 0),
            (1.0, 2000),
            (1.5, 4000),
            (2.0, 4000),
            (9.0, 4000),
            (9.5, 4100),
            (20.0, 4100),
            (20.5, 9100),
        ];
        let samples = samples.map(|(second, back)| sample(second, back));
        let [first, second] = events(&samples)[..] else { panic!("two events") };
        assert_eq!(first, Event { from: 0.5, to: 1.5, kib: 4000 });
        assert_eq!(second, Event { from: 20.0, to: 20.5, kib: 5000 });
        // A trickle between two events does not join them.
        let trickling: Vec<_> = (0..40u32)
            .map(|n| sample(f64::from(n), u64::from(n) * 10 + if n < 20 { 0 } else { 9000 }))
            .collect();
        assert_eq!(events(&trickling), [Event { from: 19.0, to: 20.0, kib: 9010 }]);
        let draw = |samples: &[Sample], is_all| {
            draw("x", 7, samples, Peak { kib: 20_480, is_all }, Frame::FILE)
        };
        let text = draw(&samples, true);
        assert!(text.contains("process 7 (x): 9.77 MiB resident, 20 MiB at its peak"), "{text}");
        assert!(text.contains("3.91 MiB"), "{text}");
        assert!(draw(&samples, false).contains("resident, 20 MiB highest seen"));
        assert!(draw(&[], true).contains("ended"));
    }
}

//! Memory over time as a self-contained HTML page or picture.

use std::fmt::Write;

use masu_watch::chart;

use super::picture;
use super::sampler::{Peak, Sample};
use crate::bytes::Bytes;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 360.0;
/// Room for the numbers.
const LEFT: f64 = 80.0;
const BOTTOM: f64 = 40.0;
/// Number of points of a curve.
const POINTS: usize = 900;

/// The page.
pub fn render(name: &str, process: u32, samples: &[Sample], peak: Peak) -> String {
    let title = escape(&format!("Memory of {name} (process {process})"));
    let rows: String = picture::events(samples)
        .iter()
        .map(|event| {
            let bytes = Bytes(event.kib * 1024);
            format!(
                "<tr><td>{:.1} s</td><td>{:.1} s</td><td>{bytes}</td></tr>\n",
                event.from, event.to
            )
        })
        .collect();
    let (peak, back) = (picture::most(peak), back(samples));
    format!(
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>{title}</title>\
         <style>{STYLE}{COLOURS}</style></head>\n\
         <body><h1>{title}</h1>\n\
         <p><span class='key resident'></span> resident, {peak}\n\
         <span class='key free'></span> free in masu, to go back\n\
         <span class='key back'></span> went back: {back}</p>\n\
         <svg viewBox='0 0 {WIDTH} {HEIGHT}' role='img' aria-label='{title}'>\n{}</svg>\n\
         <table><tr><th>from</th><th>to</th><th>went back</th></tr>\n{rows}</table>\n\
         <p>masu {}</p></body></html>\n",
        areas(samples),
        env!("CARGO_PKG_VERSION"),
    )
}

/// The chart alone, as a picture.
pub fn svg(name: &str, samples: &[Sample], peak: Peak) -> String {
    let title = escape(&format!("Memory of {name}, as masu watch shows it"));
    let (peak, back) = (picture::most(peak), back(samples));
    let words = [
        ("resident", format!("resident, {peak}")),
        ("free", "free in masu, to go back".into()),
        ("back", format!("went back: {back}")),
    ];
    let legend: String = (0..)
        .zip(words)
        .map(|(place, (class, words))| {
            let x = LEFT + f64::from(place) * 300.0;
            format!(
                "<rect x='{x}' y='-26' width='12' height='12' class='{class}'/>\
                 <text x='{}' y='-15'>{words}</text>\n",
                x + 18.0
            )
        })
        .collect();
    // Room for the words above, and for the last second at the side.
    let view = format!("0 -36 {} {}", WIDTH + 8.0, HEIGHT + 36.0);
    format!(
        "<svg xmlns='http://www.w3.org/2000/svg' class='memory' viewBox='{view}' role='img' aria-label='{title}' \
         font-family='system-ui,sans-serif' font-size='14'>\n<title>{title}</title>\n\
         <style>.memory text{{fill:#777}}{COLOURS}</style>\n{legend}{}</svg>\n",
        areas(samples)
    )
}

/// What went back.
fn back(samples: &[Sample]) -> Bytes {
    Bytes(samples.last().map_or(0, |last| last.back) * 1024)
}

/// Returns the content of the picture.
fn areas(samples: &[Sample]) -> String {
    let resident = picture::curve(samples, |sample| sample.resident);
    let free = picture::curve(samples, |sample| sample.free);
    // A round number of MiB, in four parts.
    let top = (chart::scale(resident.peak()) * 1024) as f64;
    let (end, every) = (resident.end().max(0.1), chart::every(resident.end(), chart::MARKS));
    let x = |second: f64| LEFT + second / end * (WIDTH - LEFT);
    let y = |kib: f64| (HEIGHT - BOTTOM) * (1.0 - kib / top);
    let mut svg = String::new();
    for step in 0..=4 {
        let kib = top * f64::from(step) / 4.0;
        let label = Bytes(kib as u64 * 1024);
        let _ = writeln!(
            svg,
            "<line x1='{LEFT}' x2='{WIDTH}' y1='{0:.1}' y2='{0:.1}' class='grid'/>\
             <text x='{1}' y='{2:.1}' text-anchor='end'>{label}</text>",
            y(kib),
            LEFT - 8.0,
            y(kib).max(10.0) + 4.0,
        );
    }
    for mark in (0..=8).map(|mark| f64::from(mark) * every).take_while(|&mark| mark <= end * 0.97) {
        let _ = writeln!(
            svg,
            "<text x='{:.1}' y='{}' text-anchor='middle'>{mark:.0} s</text>",
            x(mark),
            HEIGHT - BOTTOM + 20.0,
        );
    }
    for event in picture::events(samples) {
        let width = (x(event.to) - x(event.from)).max(1.0);
        let _ = writeln!(
            svg,
            "<rect x='{:.1}' y='0' width='{width:.1}' height='{}' class='back'><title>{} went back</title></rect>",
            x(event.from),
            HEIGHT - BOTTOM,
            Bytes(event.kib * 1024),
        );
    }
    for (curve, class) in [(&resident, "resident"), (&free, "free")] {
        let mut points = format!("{LEFT},{:.1}", y(0.0));
        for (place, kib) in curve.parts(POINTS, end).into_iter().enumerate() {
            let second = end * place as f64 / POINTS as f64;
            let _ = write!(points, " {:.1},{:.1}", x(second), y(kib as f64));
        }
        let _ = writeln!(svg, "<polygon class='{class}' points='{points} {WIDTH},{:.1}'/>", y(0.0));
    }
    svg
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;\
color:#222;background:#fff}svg{width:100%;font-size:12px}svg text{fill:#777}\
.key{display:inline-block;width:.9em;height:.9em;margin-left:1em}\
td,th{padding:0 1.5em 0 0;text-align:right}@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}\
.grid{stroke-opacity:.3}}";

/// Colours of the areas.
const COLOURS: &str = ".grid{stroke:#999;stroke-opacity:.4}\
.resident{fill:#e0a100;background:#e0a100;fill-opacity:.55}.free{fill:#2a8f3c;background:#2a8f3c;fill-opacity:.8}\
.back{fill:#3b6fd4;background:#3b6fd4;fill-opacity:.18}";

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_shows_curves_and_what_went_back() {
        let samples: Vec<_> = (0..100)
            .map(|i| Sample {
                second: f64::from(i) / 10.0,
                resident: 10_000,
                free: 500,
                back: if i > 50 { 4096 } else { 0 },
            })
            .collect();
        let peak = Peak { kib: 12_288, is_all: true };
        let page = render("<a>", 7, &samples, peak);
        assert!(
            page.contains("Memory of &lt;a&gt; (process 7)") && !page.contains("<a>"),
            "{page}"
        );
        assert_eq!(page.matches("<polygon").count(), 2);
        assert!(page.contains("<td>5.0 s</td><td>5.1 s</td><td>4 MiB</td>"), "{page}");
        // Nothing is fetched from elsewhere.
        assert!(!page.contains("http"), "{page}");
        let picture = svg("<a>", &samples, peak);
        assert!(picture.starts_with("<svg xmlns=") && picture.ends_with("</svg>\n"), "{picture}");
        assert!(picture.contains("resident, 12 MiB at its peak"), "{picture}");
        assert!(picture.contains("went back: 4 MiB") && !picture.contains("<a>"), "{picture}");
        assert_eq!(picture.matches("<polygon").count(), 2);
    }
}

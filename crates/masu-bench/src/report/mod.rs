//! Reports: what the raw results of a race mean.
//!
//! ```text
//! metric    what is compared
//! standing  everybody in one workload, against the best of them
//! sentence  who wins one workload, in words
//! compare   all workloads in one metric, row by row
//! summary   everybody against the virtual best, over all workloads
//! each      the subject against each of the others, over all workloads
//! text      all of that for a terminal or as Markdown (table, command)
//! html      all of that, and curves, in one page
//! ```
//!
//! Every ratio says how many times as much an allocator takes as the best of its row: 1 is the best,
//! more is worse. What cannot be told apart from the best is marked as such everywhere, by the one
//! rule of [`crate::stats`].

mod command;
pub mod compare;
mod each;
pub mod html;
mod metric;
mod sentence;
pub(crate) mod standing;
mod summary;
mod table;
pub(crate) mod text;

pub use compare::{Comparison, Row};
pub use metric::Metric;
pub use sentence::sentence;
pub use standing::{Judged, Place, Standing};
pub use summary::{Mean, Summary, headline};
pub use text::{
    SCALE_LIMITS, Style, check_sentence, compact, render, scale, scale_check, scale_counted,
};

/// The geometric mean of ratios.
fn geometric(ratios: impl Iterator<Item = Judged>) -> Option<f64> {
    crate::stats::geometric_mean(&ratios.map(|judged| judged.ratio.centre).collect::<Vec<_>>())
}

/// `a, b and c`.
fn list(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

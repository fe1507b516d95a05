//! Experiments that others have made, made again with masu among the allocators.
//!
//! Each is one command that measures, checks what it measured, and writes its tables, raw figures
//! and charts by itself.

pub mod aging;
pub mod build_cost;
pub mod chart;
pub mod child;
pub mod files;
pub mod growth;
pub mod heaps;
pub mod identity;
pub mod memalloc;
pub mod object_pool;
pub mod profilers;
pub mod programs;
pub mod python;
pub mod rust_programs;
pub mod xquo;

/// The median of what was measured at least once; not a number otherwise.
fn middle(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let numbers: Vec<f64> = numbers.into_iter().collect();
    masu_bench::stats::median(&numbers).unwrap_or(f64::NAN)
}

//! Experiments that others have made, made again with masu among the allocators.
//!
//! Each is one command that measures, checks what it measured, and writes its tables, raw figures
//! and charts by itself.

pub mod chart;
pub mod child;
pub mod files;
pub mod programs;
pub mod xquo;

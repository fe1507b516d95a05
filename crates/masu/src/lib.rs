#![no_std]
//! masu for Rust programs.

mod global;

pub use global::Masu;

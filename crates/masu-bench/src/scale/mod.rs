//! The scale model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the model says of one design under one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Curve {
    /// The workload whose trace was replayed.
    pub workload: String,
    /// The allocator's design.
    pub design: String,
    /// By number of cores.
    pub points: Vec<Point>,
}

/// The model's figures for one number of cores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Simulated cores.
    pub cores: u32,
    /// Cache lines that moved from one core to another, per operation.
    pub transfers: f64,
    /// Locks taken that another core held last, per operation.
    pub hand_overs: f64,
    /// Blocks freed by another core than had them allocated, per operation.
    pub remote_frees: f64,
    /// Operations per second of all cores together, as a multiple of one core's.
    pub speedup: f64,
}

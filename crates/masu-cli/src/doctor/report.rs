//! The whole answer, in the form for programs.

use schemars::JsonSchema;
use serde::Serialize;

use super::finding::{Finding, Severity};
use super::ground::Ground;
use super::process::Process;
use super::target::Program;

/// The name of the format.
pub const SCHEMA: &str = "masu-doctor";
/// Bumped whenever a field changes its meaning.
pub const VERSION: u32 = 1;

/// What `masu doctor` found.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Report {
    /// `masu-doctor`.
    pub schema: &'static str,
    /// Bumped whenever a field changes its meaning.
    pub version: u32,
    /// Whether masu takes effect in the program or process; null if none was named.
    pub effect: Option<bool>,
    /// The answer in one sentence.
    pub headline: String,
    /// The worst of the findings.
    pub worst: Severity,
    /// The library that would be preloaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// The program that was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<Program>,
    /// The process that was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
    /// What it stands on.
    pub ground: Ground,
    /// All that was looked at, the worst first.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Returns the JSON, with a newline at its end.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data") + "\n"
    }
}

/// Returns the JSON schema of [`Report`].
pub fn schema() -> String {
    let schema = schemars::schema_for!(Report);
    serde_json::to_string_pretty(&schema).expect("plain data") + "\n"
}

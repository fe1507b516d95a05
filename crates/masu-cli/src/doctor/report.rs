//! The whole answer, in the form for programs.

use serde::Serialize;

use super::finding::{Finding, Severity};
use super::ground::Ground;
use super::process::Process;
use super::target::Program;

/// The name of the format.
pub const SCHEMA: &str = "masu-doctor";
/// The version of the format. It grows whenever a field changes its meaning.
pub const VERSION: u32 = 1;

/// The answer of `masu doctor`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// The name of the format: `masu-doctor`.
    pub schema: &'static str,
    /// The version of the format. It grows whenever a field changes its meaning.
    pub version: u32,
    /// Whether masu takes effect in the program or process; null if none was named.
    pub effect: Option<bool>,
    /// The answer in one sentence.
    pub headline: String,
    /// The highest severity of all findings.
    pub worst: Severity,
    /// The library that `masu run` would preload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// The program that was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<Program>,
    /// The process that was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
    /// The machine and the container.
    pub ground: Ground,
    /// All findings, the worst first.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Returns the JSON, with a newline at its end.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data") + "\n"
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_committed_schema_is_that_of_the_type() {
        crate::schemas::check::<super::Report>("doctor", crate::schemas::DOCTOR);
    }
}

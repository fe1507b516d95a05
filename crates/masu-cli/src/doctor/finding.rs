//! One thing that was looked at, what was found, and what to do about it.

use serde::Serialize;

use crate::failure::Failure;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Everything is as it should be.
    Ok,
    /// A fact worth knowing that does no harm.
    Note,
    /// masu takes effect, but less well than it could.
    Warning,
    /// masu takes no effect, or its environment will fail.
    Problem,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// The check: an area and a name, such as `memory.overcommit`. These names stay the same
    /// across versions.
    pub id: &'static str,
    /// The severity of a finding.
    pub severity: Severity,
    /// The result, in one sentence.
    pub sentence: String,
    /// The command or setting that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Finding {
    fn new(id: &'static str, severity: Severity, sentence: impl Into<String>) -> Self {
        Self { id, severity, sentence: sentence.into(), fix: None }
    }

    /// The state is as it should be.
    pub fn ok(id: &'static str, sentence: impl Into<String>) -> Self {
        Self::new(id, Severity::Ok, sentence)
    }

    /// It is worth knowing.
    pub fn note(id: &'static str, sentence: impl Into<String>) -> Self {
        Self::new(id, Severity::Note, sentence)
    }

    /// It is less good than it could be.
    pub fn warning(id: &'static str, sentence: impl Into<String>) -> Self {
        Self::new(id, Severity::Warning, sentence)
    }

    /// masu has no effect, or its environment will fail.
    pub fn problem(id: &'static str, sentence: impl Into<String>) -> Self {
        Self::new(id, Severity::Problem, sentence)
    }

    /// Turns a failure of what `masu run` would do into a problem.
    pub fn failure(id: &'static str, failure: Failure) -> Self {
        let (problem, remedy) = failure.into_parts();
        // A list that follows it is the remedy here.
        let finding = Self::problem(id, format!("{}.", problem.trim_end_matches(':')));
        remedy.into_iter().fold(finding, |finding, remedy| finding.fix(remedy.replace('\n', " ")))
    }

    /// Adds the remedy.
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Returns the part of the system it is about.
    pub fn area(&self) -> &'static str {
        self.id.split_once('.').map_or(self.id, |(area, _)| area)
    }
}

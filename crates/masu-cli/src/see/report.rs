//! The account as JSON.

use masu_inspect::Account;
use schemars::JsonSchema;
use serde::Serialize;

use super::advice::Advice;

/// What `masu explain` says.
#[derive(Serialize, JsonSchema)]
struct Report<'a> {
    /// `masu-explain`.
    schema: &'static str,
    /// Bumped whenever a field changes its meaning.
    version: u32,
    /// The account.
    #[serde(flatten)]
    account: &'a Account,
    /// What is worth knowing, the most expensive first.
    advice: &'a [Advice],
}

/// The JSON, with a line break at its end.
pub fn json(account: &Account, advice: &[Advice]) -> String {
    let report = Report { schema: "masu-explain", version: 1, account, advice };
    serde_json::to_string_pretty(&report).expect("plain data") + "\n"
}

/// The JSON schema of it.
pub fn schema() -> String {
    let schema = schemars::schema_for!(Report);
    serde_json::to_string_pretty(&schema).expect("plain data") + "\n"
}

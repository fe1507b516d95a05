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

/// Returns the JSON, with a newline at its end.
pub fn json(account: &Account, advice: &[Advice]) -> String {
    pretty(&Report { schema: "masu-explain", version: 1, account, advice })
}

/// Returns the JSON schema of it.
pub fn schema() -> String {
    pretty(&schemars::schema_for!(Report))
}

/// Formats a value as JSON, with a newline at its end.
pub fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("plain data") + "\n"
}

//! The account as JSON.

use masu_inspect::Account;
use schemars::JsonSchema;
use serde::Serialize;

use super::advice::Advice;

/// The answer of `masu explain`.
#[derive(Serialize, JsonSchema)]
struct Report<'a> {
    /// The name of the format: `masu-explain`.
    schema: &'static str,
    /// The version of the format. It grows whenever a field changes its meaning.
    version: u32,
    /// The memory of a process.
    #[serde(flatten)]
    account: &'a Account,
    /// Advice, the most expensive finding first.
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

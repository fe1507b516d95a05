//! The account as JSON.

use masu_inspect::Account;
use serde::Serialize;

use super::advice::Advice;

/// The answer of `masu explain`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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

/// Formats a value as JSON, with a newline at its end.
pub fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("plain data") + "\n"
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_committed_schema_is_that_of_the_type() {
        crate::schemas::check::<super::Report>("explain", crate::schemas::EXPLAIN);
    }
}

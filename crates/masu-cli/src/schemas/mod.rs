//! The JSON schemas of the answers, as committed: the tests generate them from the types, so that the command need not.

/// Of `masu doctor`.
pub const DOCTOR: &str = include_str!("doctor.json");
/// Of `masu doctor --all`.
pub const DOCTOR_ALL: &str = include_str!("doctor-all.json");
/// Of `masu explain`.
pub const EXPLAIN: &str = include_str!("explain.json");
/// Of `masu explain --core`.
pub const EXPLAIN_CORE: &str = include_str!("explain-core.json");

/// Compares a committed schema with the one of the type `T`, or writes it anew.
#[cfg(test)]
pub fn check<T: schemars::JsonSchema>(name: &str, committed: &str) {
    let now = serde_json::to_string_pretty(&schemars::schema_for!(T)).unwrap() + "\n";
    if std::env::var_os("MASU_BLESS").is_some() {
        let place = concat!(env!("CARGO_MANIFEST_DIR"), "/src/schemas");
        std::fs::write(format!("{place}/{name}.json"), now).unwrap();
    } else {
        assert!(committed == now, "the schema {name} has changed: MASU_BLESS=1 writes it");
    }
}

//! `masu run --stats`: what the options mean to the library, and the JSON that it writes.

mod common;

use std::fs;

use common::{Fixture, masu, stdout};
use serde_json::Value;

/// The environment variables that `options` of `masu run` set for the statistics.
fn variables(fixture: &Fixture, options: &[&str]) -> String {
    let mut command = fixture.run();
    command.env("MASU_STATS_FILE", "/from/the/environment").args(options);
    let output = command.args(["sh", "-c", "env | grep ^MASU_S | sort"]).output().unwrap();
    assert!(output.status.success(), "{}", fixture.stderr(&output));
    stdout(&output)
}

#[test]
fn options_win_over_the_environment() {
    let fixture = Fixture::new();
    for (options, show, file) in [
        (&["--stats"][..], "text", "stderr"),
        (&["--stats", "--json"], "json", "stderr"),
        (&["--stats=a b,c"], "text", "a b,c"),
        (&["--json", "--stats=stderr"], "json", "./stderr"),
    ] {
        let expected = format!("MASU_SHOW_STATS={show}\nMASU_STATS_FILE={file}\n");
        assert_eq!(variables(&fixture, options), expected, "{options:?}");
    }
    assert_eq!(variables(&fixture, &[]), "MASU_STATS_FILE=/from/the/environment\n");
}

#[test]
fn a_file_is_begun_anew_and_has_the_number_of_the_program() {
    let fixture = Fixture::new();
    fs::write(fixture.path("old"), "of yesterday").unwrap();
    variables(&fixture, &["--stats=old"]);
    assert_eq!(fs::read_to_string(fixture.path("old")).unwrap(), "");

    let output = fixture.run().args(["--stats=%%.%p", "sh", "-c", "echo $$"]).output().unwrap();
    let made = fixture.path(&format!("%.{}", stdout(&output).trim()));
    assert_eq!(fs::read_to_string(made).unwrap(), "");
}

#[test]
fn what_cannot_be_meant_is_told_before_the_program_starts() {
    let fixture = Fixture::new();
    let said = fixture.refused(fixture.run().args(["--stats=no/such/place", "echo"]), 2);
    assert!(
        said.starts_with("masu: --stats: `no/such/place` cannot be written: No such"),
        "{said}"
    );
    let said = fixture.refused(masu().args(["run", "--json", "echo"]), 2);
    assert!(said.contains("--stats"), "{said}");
}

#[test]
fn the_json_is_what_the_schema_says() {
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/statistics.schema.json");
    let schema: Value = serde_json::from_str(&fs::read_to_string(schema).unwrap()).unwrap();
    let mut line = Vec::new();
    let mut sink = |bytes: &[u8]| line.extend_from_slice(bytes);
    let mut text = masu_core::text::Text::new(&mut sink);
    masu_core::print_stats_json(4711, b"a \"b\\\n\xff", &mut text);
    drop(text);
    assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1);
    let mut value: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!((&value["pid"], &value["program"]), (&4711.into(), &"a \"b\\??".into()));
    assert_eq!(value["masu"], env!("CARGO_PKG_VERSION"));

    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(validator.is_valid(&value), "{value}");
    let names =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(
        names(&value["statistics"]),
        names(&schema["properties"]["statistics"]["properties"])
    );
    value["statistics"].as_object_mut().unwrap().remove("resident");
    assert!(!validator.is_valid(&value));
}

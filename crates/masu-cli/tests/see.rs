//! Commands that read other processes, as far as they need no library: mistakes, schemas, processes without masu.

mod common;

use std::fs;
use std::process::{Command, Stdio};

use common::{masu, stdout};

fn refused(arguments: &[&str]) -> String {
    let output = masu().args(arguments).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    said
}

#[test]
fn the_schemas_are_the_committed_ones() {
    for (name, arguments) in
        [("explain", &["--schema"][..]), ("explain-core", &["--core", "FILE", "--schema"])]
    {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
        let output = masu().arg("explain").args(arguments).output().unwrap();
        let written = fs::read_to_string(format!("{docs}/{name}.schema.json")).unwrap();
        assert!(stdout(&output) == written, "another schema than {name}");
        let schema = serde_json::from_str(&written).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        assert!(!validator.is_valid(&serde_json::json!({ "schema": format!("masu-{name}") })));
    }
}

#[test]
fn a_process_without_masu_is_said_to_be_one() {
    let me = std::process::id().to_string();
    for arguments in [
        &["explain", &*me][..],
        &["explain", "-p", &me],
        &["stats", &me],
        &["stats", "-p", &me],
        &["purge", &me],
        &["purge", "-p", &me],
        &["watch", "-p", &me],
    ] {
        let said = refused(arguments);
        assert!(said.starts_with(&format!("masu: process {me} does not run on masu\n")), "{said}");
        assert!(said.contains("masu run -- COMMAND"), "{said}");
    }
    for arguments in
        [&["explain", "4194305"][..], &["stats", "-p", "4194305"], &["watch", "-p", "4194305"]]
    {
        assert!(
            refused(arguments).starts_with("masu: there is no process 4194305\n"),
            "{arguments:?}"
        );
    }
    for verb in ["explain", "stats", "purge"] {
        for arguments in [&[verb][..], &[verb, "-p"]] {
            let said = refused(arguments);
            assert!(said.starts_with("masu: ") && !said.contains("Usage"), "{said}");
            assert!(said.contains(&format!("masu {verb} PID\n")), "{said}");
            assert!(said.contains("`masu top` lists those on masu"), "{said}");
        }
        assert!(refused(&[verb, "1", "-p", "1"]).contains("cannot be used with"));
    }
    // As `pidof` names them.
    for verb in ["explain", "stats", "purge", "watch", "prof"] {
        let said = refused(&[verb, "-p", "11", "22"]);
        assert!(said.contains("takes one process, not both 11 and 22\n"), "{said}");
    }
    assert!(refused(&["explain", "11", "22"]).contains("not both 11 and 22\n"));
    assert!(refused(&["watch"]).contains("masu watch -p PID"));
    assert!(refused(&["purge", "-p", "1", "--wait", "soon"]).contains("write 500ms"));
}

#[test]
fn top_without_a_terminal_is_a_table() {
    let output = masu().args(["top", "--every", "10ms"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).trim_start().starts_with("pid program"), "{}", stdout(&output));
    let output = masu().args(["top", "--json", "--every", "10ms"]).output().unwrap();
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(rows.is_array(), "{rows}");
}

#[test]
fn top_on_a_dumb_terminal_is_a_table() {
    // A machine without `script` has no terminal for this test.
    let command =
        format!("timeout --foreground 60 {} top --every 10ms", env!("CARGO_BIN_EXE_masu"));
    let mut script = Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).env("TERM", "dumb");
    let Ok(output) = script.stdin(Stdio::null()).output() else { return };
    let table = stdout(&output);
    assert!(output.status.success() && table.contains("pid program"), "{table}");
    assert!(!table.contains("\x1b[?"), "{table:?}");
}

#[test]
fn words_stay_whole_on_a_narrow_terminal() {
    let masu = env!("CARGO_BIN_EXE_masu");
    for (arguments, line) in [
        ("translate MALLOC_CONF=narenas:2", "comes from one pool, and"),
        ("doctor --all", "PROGRAM"),
        ("top --once --every 10ms", "pid program"),
    ] {
        let command = format!("stty cols 40 && {masu} {arguments}");
        let mut script = Command::new("script");
        script.args(["-qec", &command, "/dev/null"]).env("NO_COLOR", "1").stdin(Stdio::null());
        // A machine without `script` has no terminal for this test.
        let Ok(output) = script.output() else { return };
        let shown = String::from_utf8_lossy(&output.stdout).replace('\r', "");
        assert!(shown.contains(line), "{shown}");
        // Only a name or a path may be longer.
        let fits = |line: &str| line.chars().count() <= 40 || !line.trim().contains(' ');
        assert!(shown.lines().all(fits), "{shown}");
    }
}

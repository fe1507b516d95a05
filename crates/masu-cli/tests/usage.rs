//! The command line: help, mistakes, completions, manual pages.

mod common;

use std::fs::{self, File};
use std::process::{Command, Stdio};

use common::{Fixture, masu, stdout};

fn answer(arguments: &[&str], code: i32) -> (String, String) {
    let output = masu().args(arguments).output().unwrap();
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{said}");
    (stdout(&output), said)
}

#[test]
fn help() {
    insta::assert_snapshot!("masu", answer(&["--help"], 0).0);
    insta::assert_snapshot!("masu-run", answer(&["run", "--help"], 0).0);
    insta::assert_snapshot!("masu-bench", answer(&["bench", "--help"], 0).0);
    assert_eq!(answer(&["--version"], 0).0, concat!("masu ", env!("CARGO_PKG_VERSION"), "\n"));
    let (out, said) = answer(&[], 2);
    assert_eq!(out, "");
    assert!(said.contains("Usage: masu <COMMAND>"), "{said}");
}

#[test]
fn mistyped_command_lines() {
    let said = answer(&["run"], 2).1;
    assert!(said.contains("<COMMAND>..."), "{said}");
    let said = answer(&["run", "--stat", "ls"], 2).1;
    assert!(said.contains("'--stats'"), "{said}");
    let said = answer(&["rum", "ls"], 2).1;
    assert!(said.contains("'run'"), "{said}");
}

#[test]
fn mistyped_options_name_the_nearest_key() {
    let said = |conf: &str| {
        let fixture = Fixture::new();
        fixture.refused(fixture.run().args(["--conf", conf, "--", "echo", "ran"]), 2)
    };
    insta::assert_snapshot!(said("dekay:2s"), @r"
    masu: --conf: unknown key dekay; did you mean decay?
      `masu run --help` lists the keys
    ");
    insta::assert_snapshot!(said("decay:soon,speed:high"), @r#"
    masu: --conf: decay: "soon" is not a time like 500ms, 2s or never
    masu: --conf: unknown key speed
      `masu run --help` lists the keys
    "#);
    insta::assert_snapshot!(said("decay"), @r#"
    masu: --conf: decay: "" is not a time like 500ms, 2s or never
      `masu run --help` lists the keys
    "#);
}

#[test]
fn completions_know_the_options() {
    for shell in ["bash", "zsh", "fish", "elvish"] {
        let script = answer(&["completions", shell], 0).0;
        assert!(script.contains("stats") && script.contains("conf"), "{shell}");
    }
    let bash = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn();
    let mut bash = bash.unwrap();
    let script = answer(&["completions", "bash"], 0).0;
    std::io::Write::write_all(&mut bash.stdin.take().unwrap(), script.as_bytes()).unwrap();
    assert!(bash.wait().unwrap().success());
}

#[test]
fn manual_pages_are_written() {
    let fixture = Fixture::new();
    let directory = fixture.path("");
    answer(&["man", directory.to_str().unwrap()], 0);
    let page = fs::read_to_string(fixture.path("masu-run.1")).unwrap();
    assert!(page.contains("Exit codes") && page.contains("decay:500ms"), "{page}");
    let page = fs::read_to_string(fixture.path("masu-bench.1")).unwrap();
    assert!(page.contains("Exit codes") && page.contains("larson"), "{page}");
    assert!(fs::read_to_string(fixture.path("masu.1")).unwrap().contains(".TH masu 1"));
}

#[test]
fn a_full_disk_is_an_error_and_a_closed_pipe_is_not() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_masu"));
    let output = command.args(["completions", "bash"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("masu: cannot write the output: "));

    let script = format!("{} completions bash | head -n 1", env!("CARGO_BIN_EXE_masu"));
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

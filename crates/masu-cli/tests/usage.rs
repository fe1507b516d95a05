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
    insta::assert_snapshot!("masu-doctor", answer(&["doctor", "--help"], 0).0);
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
fn mistyped_limits_and_policies() {
    let said = |options: &[&str]| {
        let fixture = Fixture::new();
        fixture.refused(fixture.run().args(options).args(["--", "echo", "ran"]), 2)
    };
    insta::assert_snapshot!(said(&["--limit", "512 apples"]), @r#"masu: --limit: "512 apples" is not a size like 512MiB or off"#);
    insta::assert_snapshot!(said(&["--soft-limit", "512MiB,decay:1s"]), @r#"masu: --soft-limit: "512MiB;decay:1s" is not auto, a size like 512MiB or off"#);
    insta::assert_snapshot!(said(&["--policy", "fast"]), @r#"masu: --policy: "fast" is not default, low-memory, throughput, container or realtime"#);
    insta::assert_snapshot!(said(&["--limit", ""]), @r#"masu: --limit: "" is not a size like 512MiB or off"#);
    insta::assert_snapshot!(said(&["--limit", "1GiB", "--soft-limit", "2GiB"]), @r"
    masu: --soft-limit 2GiB is above --limit 1GiB, which comes first then
      make the soft limit the smaller one
    ");
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
    let directory = fixture.path("share/man");
    answer(&["man", "--dir", directory.to_str().unwrap()], 0);
    let page = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
    let run = page("masu-run.1");
    assert!(run.contains(".SH \"EXIT STATUS\"") && run.contains("decay:500ms"), "{run}");
    let bench = page("masu-bench.1");
    assert!(bench.contains(".SH EXAMPLES") && bench.contains("larson"), "{bench}");
    assert!(page("masu.1").contains(".TH masu 1"));
    for name in ["libmasu.3", "masu-conf.7"] {
        let page = page(name);
        assert!(page.contains("MASU_CONF") && page.contains("MASU_SHOW_STATS"), "{page}");
        assert!(!page.contains("@KEYS@") && !page.contains("@VERSION@"), "{name} has a mark left");
    }
    assert!(page("masu-conf.7").contains("MASU_RETAIN_FULL"));
    // What goes to stdout is the same page.
    assert_eq!(answer(&["man", "run"], 0).0, run);
    assert_eq!(answer(&["man", "masu-run"], 0).0, run);
    assert!(answer(&["man", "rum"], 2).1.contains("there are masu-run, "));
}

/// groff says what is wrong with a page.
#[test]
fn manual_pages_are_sound() {
    let fixture = Fixture::new();
    let directory = fixture.path("man");
    answer(&["man", "--dir", directory.to_str().unwrap()], 0);
    for page in fs::read_dir(directory).unwrap() {
        let page = page.unwrap().path();
        let groff =
            Command::new("groff").args(["-man", "-Kutf8", "-Tutf8", "-ww"]).arg(&page).output();
        // A machine without groff can only look at the text.
        let Ok(output) = groff else { return };
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.is_empty(), "{}: {said}", page.display());
        assert!(output.stdout.len() > 500, "{}", page.display());
    }
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

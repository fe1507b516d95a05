//! The two programs from outside. Since these tests are here, Cargo builds both programs whenever
//! it builds the workspace's tests, and the runner's tests find them.

use std::process::{Command, Output};

fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).env_remove("LD_PRELOAD").output().expect("it starts")
}

fn work(arguments: &[&str]) -> Output {
    run(env!("CARGO_BIN_EXE_masu-work"), arguments)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What follows `key` on a line of its own.
fn field(output: &Output, key: &str) -> Option<String> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let out = text(&output.stdout);
    out.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ').map(String::from))
}

#[test]
fn a_run_says_what_served_it_and_what_came_of_it() {
    let first = work(&["run", "churn", "7", "0.01"]);
    assert!(field(&first, "allocator").unwrap().contains("libc"), "{first:?}");
    assert_eq!(field(&first, "mapped").unwrap(), "yes");
    assert!(field(&first, "peak_kib").unwrap().parse::<u64>().unwrap() > 500);
    let checksum = field(&first, "checksum").unwrap();
    let same = |arguments: &[&str]| field(&work(arguments), "checksum").unwrap() == checksum;
    assert!(same(&["run", "churn", "7", "0.01"]));
    assert!(!same(&["run", "churn", "8", "0.01"]), "another seed is other work");
}

#[test]
fn a_traced_run_does_the_same_and_leaves_its_calls() {
    let file = std::env::temp_dir().join(format!("masu-trace-{}", std::process::id()));
    let mut traced = Command::new(env!("CARGO_BIN_EXE_masu-trace"));
    traced.args(["run", "churn", "7", "0.01"]).env("MASU_TRACE", &file).env_remove("LD_PRELOAD");
    let traced = traced.output().expect("it starts");
    let calls = std::fs::metadata(&file).map(|file| file.len() / 16);
    // Nothing depends on this removal.
    let _ = std::fs::remove_file(&file);
    assert!(calls.expect("a trace") > 1000);
    let plain = work(&["run", "churn", "7", "0.01"]);
    assert_eq!(field(&traced, "checksum"), field(&plain, "checksum"));
}

#[test]
fn what_it_cannot_do_ends_with_two_and_the_list() {
    for arguments in [&[][..], &["run", "nonsense", "1", "1"], &["run", "churn", "1", "much"]] {
        let output = work(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = text(&output.stderr);
        assert!(said.contains("usage: masu-work") && said.contains("larson"), "{said}");
    }
}

//! What the account says beside its sum: which threads hold memory, and what went back without leaving its span.

use std::process::Command;

use masu_tests::running::{Running, masu};
use masu_tests::{Compile, is_masu};

use super::explained;

/// Thread N of the program has allocated N MiB.
#[test]
fn threads_have_the_kernels_numbers_and_names() {
    if !is_masu() {
        return;
    }
    let program = Compile::c("c/named.c").flag("-pthread").build();
    let mut running = Running::start(&mut Command::new(program.path()));
    running.says("ready");
    let (id, account) = (running.id(), explained(running.id()));
    let threads = account["threads"].as_array().expect("threads");
    if cfg!(target_env = "musl") {
        assert!(threads.iter().all(|thread| thread["tid"].is_null()), "{account:#}");
        return;
    }
    for n in 1..=6 {
        let name = format!("worker-{n}");
        let mut named = threads.iter().filter(|thread| thread["name"] == *name);
        let (thread, other) = (named.next().expect("the thread"), named.next());
        assert_eq!((thread["allocated"].as_u64().expect("a number") >> 20, other), (n, None));
        let file = format!("/proc/{id}/task/{}/comm", thread["tid"]);
        assert_eq!(std::fs::read_to_string(file).expect("a thread"), format!("{name}\n"));
    }
    // The first thread has the process's number.
    assert!(threads.iter().any(|thread| thread["tid"] == id), "{account:#}");
}

/// The program keeps four pages of each span's sixteen.
#[test]
fn pages_that_went_back_from_spans_in_use_are_told_apart() {
    if !is_masu() {
        return;
    }
    let program = Compile::c("c/pages.c").flag("-pthread").build();
    let mut running = Running::start(&mut Command::new(program.path()));
    running.says("ready");
    let account = explained(running.id());
    let truth = 512 * 12 * 4096;
    let returned = account["returned_in_spans"].as_u64().expect("a number");
    assert!((truth / 100 * 97..=truth).contains(&returned), "{account:#}");
    // These are no part of the sum.
    assert!(account["sum"].as_u64() < Some(truth), "{account:#}");
    let text = masu(&["explain", &running.id().to_string()]).stdout;
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find(|line| line.contains("returned inside spans in use"));
    assert!(line.is_some_and(|line| line.contains("MiB") && !line.contains('%')), "{text}");
    assert!(text.find("  sum ") < text.find("returned inside spans"), "{text}");
}

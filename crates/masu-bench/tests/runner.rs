//! The runner with real processes: what is preloaded is what is measured.

use std::path::PathBuf;
use std::time::Duration;

use masu_bench::arm::Arm;
use masu_bench::race::results::Results;
use masu_bench::race::{self, Failure, Plan, job};
use masu_bench::report::{Style, render};
use masu_bench::work;
use masu_workloads as workloads;

const LIMIT: Duration = Duration::from_secs(60);

fn command(workload: &str) -> std::process::Command {
    work::build().expect("cargo builds masu-work");
    job::command(workload, 1, 0.01).expect("masu-work was built")
}

/// An object that can be preloaded but exports no allocator.
fn innocent_library() -> PathBuf {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    paths.find(|path| path.contains("libgcc_s")).expect("std links libgcc_s").into()
}

#[test]
fn a_workload_runs_on_the_system_allocator() {
    let checked = job::run(command("churn"), &Arm::glibc(), LIMIT).unwrap();
    assert_eq!(checked.result.len(), 16);
    assert!(checked.sample.minor_faults > 50);
    assert!(checked.sample.peak_kib > 1000);
}

#[test]
fn a_library_that_does_not_serve_malloc_is_refused() {
    let arm = Arm {
        name: "innocent".into(),
        version: String::new(),
        library: Some(innocent_library().canonicalize().unwrap()),
    };
    let failure = job::run(command("churn"), &arm, LIMIT).unwrap_err();
    assert!(matches!(failure, Failure::WrongAllocator(_)), "{failure}");
}

#[test]
fn a_run_that_takes_too_long_is_stopped() {
    work::build().unwrap();
    let forever = job::command("churn", 1, 1000.0).unwrap();
    let failure = job::run(forever, &Arm::glibc(), Duration::from_millis(300)).unwrap_err();
    assert_eq!(failure, Failure::Timeout(0.3));
}

#[test]
fn a_small_race_is_reported_and_survives_its_own_json() {
    work::build().unwrap();
    let plan = Plan {
        arms: vec![Arm::glibc()],
        workloads: vec![workloads::named("churn").unwrap()],
        rounds: 2,
        seed: 1,
        scale: 0.01,
        limit: LIMIT,
        twins: true,
        warm_mib: 8,
    };
    let mut steps = 0;
    let results = race::run(&plan, |_, _, _| steps += 1).unwrap();
    assert_eq!(steps, 2 * 3);
    let json = serde_json::to_string(&results).unwrap();
    let again: Results = serde_json::from_str(&json).unwrap();
    let text = render(&again, Style::Markdown);
    assert_eq!(text, render(&results, Style::Markdown));
    assert!(text.contains("| churn"), "{text}");
    assert!(!text.contains("Failures"), "{text}");
    assert!(text.contains("a first look"), "two rounds prove nothing: {text}");
}

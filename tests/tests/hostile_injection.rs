//! Every system call of the allocator fails once, at every place where it is made.
//!
//! `strace` makes the n-th call of a kind return an error, for n = 1, 2, … until the program makes
//! fewer. The program (`c/inject.c`) checks itself; here its end is compared with an undisturbed
//! run, to see whether the fault leaked memory.

mod common;

use std::sync::LazyLock;
use std::time::Duration;

use masu_tests::{Compile, Outcome, Program, Run, archive, long, preload};

/// The calls that manage memory, and the errors with which they may fail.
const FAULTS: [(&str, &[&str]); 5] = [
    ("mmap", &["ENOMEM", "EAGAIN"]),
    ("munmap", &["ENOMEM"]),
    ("mprotect", &["ENOMEM"]),
    ("madvise", &["EINVAL", "EAGAIN"]),
    ("mremap", &["ENOMEM", "EFAULT"]),
];

/// The calls that an allocator can do without.
const OPTIONAL: [&str; 6] =
    ["madvise", "mremap", "mincore", "membarrier", "sched_getaffinity", "prctl"];

/// A program, and the environment that only it, not its tracer, should see.
struct Target {
    program: &'static Program,
    environment: Vec<String>,
    /// In a static program there is no loader, so even the very first call may be hit.
    from_start: bool,
}

/// The library preloaded, under a configuration. The thread that gives memory back is off: it
/// would make calls at times of its own choosing.
fn preloaded(configuration: &str) -> Target {
    static PROGRAM: LazyLock<Program> = LazyLock::new(|| common::c_program("inject"));
    let configuration = format!("MASU_CONF=background_thread:off{configuration}");
    let environment = preload().into_iter().chain([configuration]).collect();
    Target { program: &PROGRAM, environment, from_start: false }
}

fn linked_in() -> Target {
    static PROGRAM: LazyLock<Program> = LazyLock::new(|| {
        let sources = Compile::c("c/check_main.c").file("c/inject.c").flag("-static");
        archive().into_iter().fold(sources, Compile::file).build()
    });
    let environment = vec!["MASU_CONF=background_thread:off".to_owned()];
    Target { program: &PROGRAM, environment, from_start: true }
}

/// What one traced run did.
struct Traced {
    outcome: Outcome,
    log: String,
}

fn trace(target: &Target, faults: &[String]) -> Traced {
    let directory = masu_tests::scratch();
    let log = directory.path().join("log");
    let calls = "trace=getppid,mmap,munmap,mprotect,madvise,mremap,mincore,membarrier,sched_getaffinity,prctl";
    let mut run = Run::new("strace").bare().args(["-f", "--seccomp-bpf", "-qq", "-e", calls, "-o"]);
    run = run.arg(&log).args(faults.iter().flat_map(|fault| ["-e", fault]));
    run = run.args(target.environment.iter().flat_map(|pair| ["-E", pair]));
    let outcome = run.arg(target.program.path()).timeout(Duration::from_secs(180)).run();
    let log = std::fs::read_to_string(&log).expect("strace wrote its log");
    Traced { outcome, log }
}

/// What the program says at its end.
#[derive(Debug)]
struct Report {
    refused: u64,
    /// The last rounds without a refusal: it ends after four, or after nine rounds of any kind.
    quiet: u64,
    in_use: u64,
    resident: u64,
}

fn report(outcome: &Outcome) -> Report {
    let line = outcome.stdout.lines().next().unwrap_or_default();
    let numbers: Vec<u64> =
        line.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
    assert_eq!(numbers.len(), 5, "{}", outcome.describe());
    Report { refused: numbers[0], quiet: numbers[1], in_use: numbers[2], resident: numbers[3] }
}

/// The calls of a kind by the main thread: how many before the marker, how many in all.
fn count(log: &str, call: &str) -> (usize, usize) {
    let main = log.split_whitespace().next().unwrap_or_default();
    let own = log.lines().filter(|line| line.starts_with(main));
    let (mut before, mut all, mut marked) = (0, 0, false);
    for line in own {
        let rest = line[main.len()..].trim_start();
        marked |= rest.starts_with("getppid(");
        if rest.strip_prefix(call).is_some_and(|rest| rest.starts_with('(')) {
            all += 1;
            before += usize::from(!marked);
        }
    }
    (before, all)
}

/// At most `most` of the places, spread evenly; all of them in the long mode.
fn choose(first: usize, last: usize, most: usize) -> Vec<usize> {
    let places = (last + 1).saturating_sub(first);
    let most = if long() { places } else { most.min(places) };
    (0..most).map(|i| first + i * places / most).collect()
}

/// Whatever failed, the program went on, soon with all that it asked for, and at its end it holds no more than without
/// the fault.
#[track_caller]
fn holds(calm: &Report, traced: &Traced, fault: &str) {
    assert!(traced.outcome.status.success(), "{fault}: {}", traced.outcome.describe());
    let after = report(&traced.outcome);
    assert_eq!(after.quiet, 4, "{fault}: malloc goes on failing: {}", traced.outcome.describe());
    assert!(
        after.in_use < calm.in_use + (1 << 20) && after.resident < calm.resident + (8 << 10),
        "{fault}: something was lost: {calm:?} -> {after:?}"
    );
}

fn fail_each(target: Target) {
    let target = &target;
    let calm = trace(target, &[]);
    assert!(calm.outcome.status.success(), "{}", calm.outcome.describe());
    let baseline = report(&calm.outcome);
    assert_eq!((baseline.refused, baseline.quiet), (0, 4), "{}", calm.outcome.describe());
    let mut hit = 0;
    for (call, errors) in FAULTS {
        let (before, all) = count(&calm.log, call);
        // The C library protects its own relocations at start, and rightly exits if it cannot.
        let own = !target.from_start || call == "mprotect";
        let first = if own { before + 1 } else { 1 };
        for error in errors {
            for place in choose(first, all, 6) {
                let fault = format!("inject={call}:error={error}:when={place}");
                let traced = trace(target, std::slice::from_ref(&fault));
                hit += usize::from(traced.log.contains("(INJECTED)"));
                holds(&baseline, &traced, &fault);
            }
        }
        // Every call from some place on fails; but the C library cannot start without any memory.
        let mut environment = target.environment.clone();
        environment.push("MASU_TEST_LASTING=1".to_owned());
        let lasting = Target { environment, ..*target };
        for place in choose(before + 1, all, 3) {
            let fault = format!("inject={call}:error={}:when={place}+", errors[0]);
            let traced = trace(&lasting, std::slice::from_ref(&fault));
            assert!(traced.outcome.status.success(), "{fault}: {}", traced.outcome.describe());
        }
    }
    assert!(hit >= 10, "only {hit} faults met a call");
}

#[test]
fn each_call_fails_once_after_start() {
    fail_each(preloaded(""));
}

#[test]
fn each_call_fails_once_from_the_very_first() {
    fail_each(linked_in());
}

/// Memory that is returned at once takes far more calls, many of them within `free`.
#[test]
fn each_call_fails_once_when_nothing_is_kept() {
    fail_each(preloaded(",decay:0"));
}

#[test]
fn optional_calls_may_be_missing_altogether() {
    let target = preloaded("");
    for error in ["ENOSYS", "EPERM"] {
        let each = OPTIONAL.map(|call| format!("inject={call}:error={error}"));
        let alone = each.iter().map(std::slice::from_ref);
        for faults in alone.chain([&each[..]]) {
            let traced = trace(&target, faults);
            assert!(traced.outcome.status.success(), "{faults:?}: {}", traced.outcome.describe());
            assert_eq!(report(&traced.outcome).refused, 0, "{faults:?}: malloc needs it after all");
        }
    }
}

#[test]
fn the_tracer_really_makes_calls_fail() {
    // The loader cannot even map the C library.
    let traced = trace(&preloaded(""), &["inject=mmap:error=ENOMEM:when=1+".to_owned()]);
    assert!(!traced.outcome.status.success() && traced.log.contains("(INJECTED)"));
}

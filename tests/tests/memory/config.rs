//! Every option has a visible effect: on resident memory, on threads, on counters, or on what is
//! written.

use std::thread;
use std::time::{Duration, Instant};

use crate::figures::{Bytes, MIB, Memory};
use crate::probe::{On, PATIENCE, Probe};
use crate::stats::Stats;

/// Start a scenario under one option, `key:value`.
fn start(scenario: &str, option: &str) -> Probe {
    let environment = [("MASU_CONF", option), ("MASU_SHOW_STATS", "1")];
    Probe::start(On::Library, scenario, &environment)
}

/// Anonymous memory this long after a scenario reached `freed` under an option, in MiB.
fn after(wait: Duration, scenario: &str, option: &str) -> u64 {
    // Otherwise all may go back at once, where other tests make memory short.
    let probe = freed(scenario, &format!("{option},cgroup:off"));
    thread::sleep(wait);
    let Memory { anon, .. } = probe.memory();
    println!("{scenario} under {option}: rss_anon={} after {wait:?}", Bytes(anon));
    probe.finish();
    anon / MIB
}

/// The same once it has settled.
fn settled(scenario: &str, option: &str) -> u64 {
    let probe = freed(scenario, option);
    let Memory { anon, .. } = probe.settled(SETTLED);
    println!("{scenario} under {option}: rss_anon={} at last", Bytes(anon));
    probe.finish();
    anon / MIB
}

/// A scenario that has reached `freed`.
fn freed(scenario: &str, option: &str) -> Probe {
    let mut probe = start(scenario, option);
    if scenario.starts_with("burst") {
        probe.pass("held");
    }
    if !scenario.starts_with("medium") {
        probe.pass("peak");
    }
    probe.at("freed");
    probe
}

const AT_ONCE: Duration = Duration::ZERO;
const SETTLED: Duration = Duration::from_secs(2);

/// 256 MiB in two threads, none of it held.
const BURST: &str = "burst --threads 2 --mib 256 --keep-mib 0";
/// What is left of it when memory was given back, and when it was kept, in MiB. The tests in
/// `returning` check how much exactly stays.
const LITTLE_LEFT: u64 = 32;
const MOST_LEFT: u64 = 200;

#[test]
fn decay_zero_gives_back_at_once() {
    assert!(after(AT_ONCE, BURST, "decay:0") <= LITTLE_LEFT);
}

#[test]
fn decay_never_keeps_everything() {
    assert!(after(SETTLED, BURST, "decay:never") >= MOST_LEFT);
    assert!(after(SETTLED, BURST, "decay:-1") >= MOST_LEFT);
}

#[test]
fn decay_is_the_time_memory_is_kept() {
    assert!(after(SETTLED, BURST, "decay:30000ms") >= MOST_LEFT);
    assert!(settled(BURST, "decay:1500ms") <= LITTLE_LEFT);
    assert!(settled(BURST, "decay:300ms") <= LITTLE_LEFT);
}

/// In a program with threads, stale memory below the budget starts no thread to return it.
#[test]
fn budget_decides_when_it_is_worth_a_thread() {
    let scenario = "burst --threads 2 --mib 48 --keep-mib 0";
    assert!(after(SETTLED, scenario, "budget:1GiB") >= 30);
    assert!(settled(scenario, "budget:1MiB") <= 15);
}

/// The most threads seen after the memory was freed, beyond those at the peak: for two seconds, and
/// until they have gone.
fn helpers(scenario: &str, option: &str) -> usize {
    let mut probe = start(scenario, option);
    probe.pass("held");
    probe.at("peak");
    let before = probe.threads();
    probe.go();
    probe.at("freed");
    let deadline = Instant::now() + SETTLED;
    let mut most = before;
    loop {
        let now = probe.threads();
        most = most.max(now);
        if Instant::now() > deadline && now == before {
            break;
        }
        // A busy machine may make it wait.
        let late = Instant::now() > deadline + PATIENCE;
        assert!(!late, "{scenario} under {option}: the helper stays");
        thread::sleep(Duration::from_millis(2));
    }
    probe.finish();
    most - before
}

#[test]
fn background_thread_is_one_and_leaves_when_the_debt_is_paid() {
    assert_eq!(helpers(BURST, "background_thread:auto"), 1);
    assert_eq!(helpers(BURST, "background_thread:on"), 1);
    assert_eq!(helpers(BURST, "background_thread:off"), 0);
}

/// A single-threaded program stays so, unless it leaves much memory behind or is told otherwise.
#[test]
fn background_thread_spares_small_single_threaded_programs() {
    let scenario = "burst --threads 0 --mib 48 --keep-mib 0";
    assert_eq!(helpers(scenario, "background_thread:auto"), 0);
    assert_eq!(helpers(scenario, "background_thread:on"), 1);
}

#[test]
fn background_thread_off_leaves_the_memory_of_an_idle_program() {
    // If the heap is larger, the threads themselves give the surplus back.
    let scenario = "burst --threads 2 --mib 96 --keep-mib 0";
    assert!(after(SETTLED, scenario, "background_thread:off") >= 75);
    assert!(settled(BURST, "background_thread:on") <= LITTLE_LEFT);
}

/// 32 threads, one after the other, use the same mebibyte of medium blocks, unless each caches it.
#[test]
fn run_cache_is_what_a_thread_keeps() {
    let without = after(AT_ONCE, "medium", "decay:never,run_cache:0");
    let with = after(AT_ONCE, "medium", "decay:never,run_cache:2MiB");
    assert!(without <= 4, "{without} MiB without caches");
    assert!(with >= 16, "{with} MiB with caches");
}

#[test]
fn huge_cache_bounds_what_is_kept() {
    let scenario = "huge --count 4 --mib 32";
    assert!(after(AT_ONCE, scenario, "decay:never,huge_cache:0") <= 4);
    let some = after(AT_ONCE, scenario, "decay:never,huge_cache:70MiB");
    assert!((60..=75).contains(&some), "{some} MiB");
    assert!(after(AT_ONCE, scenario, "decay:never,huge_cache:1GiB") >= 120);
}

/// A freed huge block serves the next request, unless none may be kept.
#[test]
fn huge_cache_saves_the_system_from_repeated_requests() {
    let reused = |option| {
        let mut probe = start("huge --count 4 --mib 8 --times 10", option);
        probe.pass("peak");
        probe.at("freed");
        Stats::parse(&probe.finish()).get("huge_reused")
    };
    assert_eq!(reused("huge_cache:0"), 0.0);
    assert!(reused("huge_cache:1GiB") >= 30.0);
}

/// Spans beyond those that a heap retains go to the thread that frees into them; its frees into
/// them are then local, not remote.
#[test]
fn retain_full_bounds_the_spans_others_must_send_back_to() {
    let remote = |option| {
        // A few spans in each of many classes.
        let mut probe = start("handoff --mib 16 --high 8192", option);
        probe.pass("peak");
        probe.at("freed");
        Stats::parse(&probe.finish()).get("remote_frees")
    };
    let (few, many) = (remote("retain_full:0"), remote("retain_full:1000000"));
    println!("remote frees: {few} where no full spans are retained, {many} where all are");
    assert!(few * 2.0 < many, "{few} against {many}");
}

/// 48 MiB in a program with one thread, none of it held.
const LONELY_BURST: &str = "burst --threads 0 --mib 48 --keep-mib 0";

#[test]
fn policies_that_save_memory_also_do_so_in_an_idle_program_with_one_thread() {
    assert!(after(SETTLED, LONELY_BURST, "policy:default") >= 30);
    for policy in ["low-memory", "container"] {
        assert!(settled(LONELY_BURST, &format!("policy:{policy}")) <= 8, "{policy}");
    }
}

#[test]
fn policy_throughput_keeps_memory_for_the_next_phase() {
    assert!(after(Duration::from_secs(3), BURST, "policy:throughput") >= MOST_LEFT);
    assert!(settled(BURST, "policy:throughput,decay:300ms,budget:1MiB") <= LITTLE_LEFT);
}

#[test]
fn policy_realtime_keeps_everything_and_starts_nobody() {
    assert!(after(SETTLED, BURST, "policy:realtime") >= MOST_LEFT);
    assert_eq!(helpers(BURST, "policy:realtime"), 0);
}

/// What a run writes to standard error in this environment.
fn errors(scenario: &str, mark: &str, environment: &[(&str, &str)]) -> String {
    let mut probe = Probe::start(On::Library, scenario, environment);
    if mark == "freed" {
        probe.pass("held");
        probe.pass("peak");
    }
    probe.at(mark);
    probe.finish()
}

const LITTLE: &str = "burst --threads 1 --mib 1 --keep-mib 1";

#[test]
fn nothing_is_written_unless_asked() {
    assert_eq!(errors(LITTLE, "freed", &[]), "");
}

#[test]
fn show_stats_prints_counters_at_exit() {
    let text = errors(LITTLE, "freed", &[("MASU_SHOW_STATS", "1")]);
    let stats = Stats::parse(&text);
    assert!(stats.get("threads") >= 1.0, "{text}");
    assert_eq!(errors(LITTLE, "freed", &[("MASU_SHOW_STATS", "0")]), "");
    assert!(errors(LITTLE, "freed", &[("MASU_CONF", "show_stats:1")]).contains("threads"));
}

#[test]
fn verbose_names_each_value_and_its_origin() {
    let environment = [
        ("MASU_VERBOSE", "1"),
        ("MASU_CONF", "decay:2s,budget:8MiB"),
        ("MASU_BUDGET", "16MiB"),
        ("MASU_HUGE_CACHE", ""),
    ];
    let text = errors(LITTLE, "freed", &environment);
    let line = |key: &str| {
        let mut lines = text.lines().map(|l| l.strip_prefix("masu:").unwrap_or(l).trim());
        let found = lines.find(|l| l.split_whitespace().next() == Some(key));
        found.unwrap_or_else(|| panic!("no `{key}` in\n{text}")).to_owned()
    };
    assert!(line("decay").contains("2s") && line("decay").contains("MASU_CONF"));
    assert!(line("budget").contains("16MiB") && line("budget").contains("MASU_BUDGET"));
    for key in ["background_thread", "run_cache", "huge_cache", "retain_full", "show_stats"] {
        assert!(line(key).contains("built-in"), "{}", line(key));
    }
}

#[test]
fn on_error_reports_a_bad_pointer_and_goes_on() {
    let text = errors("foreign", "alive", &[("MASU_ON_ERROR", "report")]);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.starts_with("masu: "), "{text}");
    let quiet = [("MASU_ON_ERROR", "report"), ("MASU_SHOW_ERRORS", "0")];
    assert_eq!(errors("foreign", "alive", &quiet), "");
    assert_eq!(errors("foreign", "alive", &[("MASU_ON_ERROR", "ignore")]), "");
}

#[test]
fn show_errors_tells_of_a_mistyped_key() {
    let text = errors(LITTLE, "freed", &[("MASU_CONF", "decoy:1s")]);
    assert!(text.contains("decoy") && text.contains("did you mean decay"), "{text}");
    assert_eq!(errors(LITTLE, "freed", &[("MASU_CONF", "decoy:1s,show_errors:off")]), "");
}

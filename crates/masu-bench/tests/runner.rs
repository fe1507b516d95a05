//! The runner with real processes: it measures what is preloaded, and leaves out what misbehaves.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{command, fake_allocator, library, script};
use masu_bench::arm::Arm;
use masu_bench::race::results::{Results, Role, schema};
use masu_bench::race::{self, Failure, Foreign, Plan, Task};
use masu_bench::report::{Style, html, render, sentence};
use masu_bench::work;

const LIMIT: Duration = Duration::from_secs(60);

/// A short race of tasks between glibc and the `others`.
fn plan(others: Vec<Arm>, tasks: Vec<Task>) -> Plan {
    work::ready().expect("cargo builds masu-work");
    let arms = others.into_iter().chain([Arm::glibc()]).collect();
    Plan { rounds: 2, limit: LIMIT, warm_mib: 8, ..Plan::new(arms, tasks) }
}

fn race(plan: &Plan) -> Results {
    race::run(plan, |_| ()).expect("it can be run")
}

fn workload(name: &str, scale: f64) -> Task {
    Task::workload(masu_workloads::named(name).expect("there is one"), 1, scale)
}

#[test]
fn workloads_run_and_everything_about_them_is_reported() {
    let mut told = Vec::new();
    let plan = Plan { copies: 2, ..plan(Vec::new(), vec![workload("churn", 0.01)]) };
    let results = race::run(&plan, |step| told.push((step.done, step.total))).unwrap();
    // One observed run; in each round glibc, its twin and two copies, and the first two of these again to be counted.
    assert_eq!(told, (0..13).map(|done| (done, 13)).collect::<Vec<_>>());
    assert!(results.complete && results.rounds == 2);
    let roles: Vec<Role> = results.arms.iter().map(|arm| arm.role).collect();
    assert_eq!(roles, [Role::Subject, Role::Twin, Role::Copy, Role::Copy]);
    let measured = &results.workloads[0];
    for (_, sample) in (0..4).flat_map(|arm| measured.samples(arm)) {
        assert!(sample.minor_faults > 50 && sample.peak_kib > 1000 && sample.proven, "{sample:?}");
    }
    assert_eq!(measured.runs.len(), 8);
    let text = render(&results, Style::Markdown);
    assert!(text.contains("| churn"), "{text}");
    assert!(!text.contains("Failures"), "{text}");
    assert!(text.contains("show only large differences"), "two rounds prove nothing: {text}");
    assert!(text.contains("In all 8 runs the kernel's mappings"), "{text}");
}

#[test]
fn memory_is_watched_over_time() {
    let results = race(&Plan { rounds: 1, ..plan(Vec::new(), vec![script("sleep 1.5")]) });
    let points = &results.workloads[0].curves[0].points;
    // During an exec a program has only a page or two.
    let small = points.iter().filter(|&&(_, kib)| kib <= 50).count();
    assert!(points.len() > 10 && small <= points.len() / 10, "{points:?}");
    assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0), "{points:?}");
}

#[test]
fn results_survive_their_json_and_fit_its_schema() {
    let results = race(&plan(Vec::new(), vec![workload("churn", 0.01), workload("frag", 0.001)]));
    let json = results.json();
    let again = Results::parse(&json).unwrap();
    assert_eq!(render(&again, Style::Markdown), render(&results, Style::Markdown));

    let schema: serde_json::Value = serde_json::from_str(schema()).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let errors: Vec<String> = schema.iter_errors(&value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    value["workloads"][0]["runs"][0]["wall_s"][0] = "fast".into();
    assert!(!schema.is_valid(&value), "a wrong type is seen");
}

#[test]
fn other_versions_are_refused() {
    let mut value: serde_json::Value =
        serde_json::from_str(&race(&plan(Vec::new(), Vec::new())).json()).unwrap();
    value["version"] = 1.into();
    assert!(Results::parse(&value.to_string()).is_err());
    assert!(Results::parse("{}").is_err() && Results::parse("x").is_err());
}

#[test]
fn a_library_that_does_not_serve_malloc_is_refused() {
    let innocent = library("int innocent;");
    let arm = innocent.arm("innocent");
    let results = race(&plan(vec![arm], vec![workload("churn", 0.01)]));
    let (_, failure) = results.workloads[0].failure(0).unwrap();
    assert!(matches!(failure, Failure::WrongAllocator { .. }), "{failure}");
    // Its twin is not even tried, but the system's allocator is measured.
    assert_eq!(results.workloads[0].runs.iter().filter(|run| run.arm == 2).count(), 0);
    assert_eq!(results.workloads[0].samples(1).count(), 2);
}

/// Nothing can be preloaded into a static program, and it does not say which malloc it uses.
#[test]
fn a_command_that_does_not_load_the_allocator_is_refused() {
    let fake = fake_allocator();
    let program = fake.program("int main(void) { sleep(1); return 0; }", &["-static"]);
    let results =
        race(&Plan { rounds: 1, ..plan(vec![fake.arm("fake")], vec![command(&program)]) });
    let (_, failure) = results.workloads[0].failure(0).unwrap();
    assert!(failure.to_string().ends_with("libfake.so was never loaded"), "{failure}");
}

/// A program linked with one of the other allocators does not use the system's.
#[test]
fn a_command_that_brings_another_allocator_is_not_on_the_systems() {
    let fake = fake_allocator();
    let program =
        fake.program("int main(void) { usleep(500000); return 0; }", &["-Wl,--no-as-needed"]);
    let results =
        race(&Plan { rounds: 1, ..plan(vec![fake.arm("fake")], vec![command(&program)]) });
    let (_, failure) = results.workloads[0].failure(1).unwrap();
    assert!(failure.to_string().ends_with("libfake.so is loaded"), "{failure}");
}

#[test]
fn a_run_that_takes_too_long_is_stopped() {
    let limit = Duration::from_millis(300);
    let results = race(&Plan { limit, ..plan(Vec::new(), vec![workload("churn", 1000.0)]) });
    let (_, failure) = results.workloads[0].failure(0).unwrap();
    assert_eq!(*failure, Failure::Timeout { seconds: 0.3 });
}

#[test]
fn a_command_is_measured_without_its_knowledge() {
    let fake = fake_allocator();
    // It lives long enough to be observed on a busy machine.
    let task = script("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.2; echo $i");
    let results = race(&plan(vec![fake.arm("fake")], vec![task]));
    let measured = &results.workloads[0];
    for (_, sample) in (0..2).flat_map(|arm| measured.samples(arm)) {
        assert!(sample.proven, "the kernel's mappings show the allocator: {sample:?}");
        // None of this test's own megabytes are counted.
        assert!((500..8_000).contains(&sample.peak_kib), "{sample:?}");
    }
    assert_eq!(measured.samples(0).count(), 2);
    let text = render(&results, Style::Markdown);
    assert!(text.contains("| fake"), "{text}");
    assert!(text.contains(&sentence(&results, measured)), "{text}");
}

#[test]
fn a_command_that_prints_or_ends_differently_is_out() {
    let fake = fake_allocator();
    for (script_text, expected) in [
        ("case $LD_PRELOAD in *fake*) echo spoilt;; *) echo good;; esac", "from line 1 on"),
        ("case $LD_PRELOAD in *fake*) echo boom >&2; exit 3;; esac", "exit status 3: boom"),
        ("case $LD_PRELOAD in *fake*) kill -SEGV $$;; esac", "SIGSEGV"),
    ] {
        let results = race(&plan(vec![fake.arm("fake")], vec![script(script_text)]));
        let measured = &results.workloads[0];
        let (_, failure) = measured.failure(0).expect("the fake one misbehaved");
        assert!(failure.to_string().contains(expected), "{failure}");
        assert!(measured.failure(1).is_none());
        let said = render(&results, Style::Markdown);
        assert!(said.contains("Nobody wins: only glibc"), "{said}");
        assert!(said.contains("Out of the race: fake"), "{said}");
    }
}

#[test]
fn a_command_that_prints_the_time_is_not_blamed() {
    let fake = fake_allocator();
    let results = race(&plan(vec![fake.arm("fake")], vec![script("date +%N; echo $$")]));
    assert!(results.workloads[0].varies);
    assert!(results.workloads[0].failure(0).is_none());
    assert!(
        render(&results, Style::Markdown)
            .contains("Its output differs every time, so it was not compared")
    );
}

#[test]
fn a_command_that_fails_by_itself_is_not_raced() {
    let fake = fake_allocator();
    let mut runs = 0;
    let plan = plan(vec![fake.arm("fake")], vec![script("echo no >&2; exit 4")]);
    let results = race::run(&plan, |_| runs += 1).unwrap();
    assert_eq!(results.workloads[0].runs.len(), 1);
    let (_, failure) = results.workloads[0].failure(1).unwrap();
    assert_eq!(failure.to_string(), "exit status 4: no");
}

#[test]
fn any_exit_status_will_do_if_it_is_the_same() {
    let fake = fake_allocator();
    let mut task = script("exit 4");
    let race::task::Kind::Command(foreign) = &mut task.kind else { unreachable!() };
    foreign.any_status = true;
    let results = race(&plan(vec![fake.arm("fake")], vec![task]));
    assert!(results.workloads[0].failure(0).is_none());
    let mut task = script("case $LD_PRELOAD in *fake*) exit 5;; esac; exit 4");
    let race::task::Kind::Command(foreign) = &mut task.kind else { unreachable!() };
    foreign.any_status = true;
    let results = race(&plan(vec![fake.arm("fake")], vec![task]));
    let (_, failure) = results.workloads[0].failure(0).unwrap();
    assert_eq!(failure.to_string(), "exit status 5");
}

#[test]
fn a_command_that_forks_is_accounted_for_with_its_children() {
    let spin = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let command = script(&format!("({spin}) & ({spin}) & wait"));
    let results = race(&plan(Vec::new(), vec![command, script(spin)]));
    let cpu = |task: usize| {
        let samples = results.workloads[task].samples(0);
        samples.map(|(_, sample)| sample.user_s + sample.system_s)
    };
    // If others use the same core, a run takes longer by its own clock too.
    let (two, one) = (cpu(0).fold(0.0, f64::max), cpu(1).fold(f64::MAX, f64::min));
    assert!(two > one, "{two} for two, {one} for one");
}

#[test]
fn every_run_reads_its_input_from_the_start() {
    let input = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(input.path(), "a\nb\n").unwrap();
    let foreign = Foreign {
        program: "/usr/bin/wc".into(),
        arguments: vec!["wc".into(), "-l".into()],
        input: Some(input.path().into()),
        any_status: false,
    };
    let results = race(&plan(Vec::new(), vec![Task::command("wc", foreign)]));
    assert!(!results.workloads[0].varies);
    assert_eq!(results.workloads[0].samples(0).count(), 2);
}

#[test]
fn a_race_that_is_stopped_keeps_what_it_has() {
    let plan = plan(Vec::new(), vec![script("sleep 0.5"), script("sleep 60")]);
    let stop = plan.stop.clone();
    let results = race::run(&plan, |step| {
        // The long command has just started.
        if step.task == "sleep 60" {
            let stop = stop.clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(200));
                stop.store(true, Ordering::Relaxed);
            });
        }
    });
    let results = results.unwrap();
    assert!(!results.complete);
    assert_eq!(results.workloads[0].curves.len(), 1);
    assert!(results.workloads[1].runs.is_empty());
    assert!(render(&results, Style::Markdown).contains("partial results"));
}

#[test]
fn a_race_ends_in_its_time_even_in_the_first_round() {
    let time = Some(Duration::from_secs(2));
    let tasks = vec![script("exit 0"), script("sleep 60")];
    // This plan may build the workloads first.
    let plan = Plan { time, ..plan(Vec::new(), tasks) };
    let start = Instant::now();
    let results = race(&plan);
    assert!(start.elapsed() < Duration::from_secs(40), "nobody waited for the long one");
    assert!(results.out_of_time && !results.complete);
    // It did not get the promised time, so it has not failed.
    assert!(results.workloads[1].runs.is_empty());
    let text = render(&results, Style::Markdown);
    assert!(text.contains("was up before every allocator had run"), "{text}");
    assert!(html::page(&results).contains("was up before every allocator had run"));
}

#[test]
fn without_any_time_there_is_nothing_but_a_report() {
    let time = Some(Duration::ZERO);
    let results = race(&Plan { time, ..plan(Vec::new(), vec![script("exit 0")]) });
    assert!(results.out_of_time && results.workloads[0].runs.is_empty());
    assert!(render(&results, Style::Markdown).contains("Nobody wins"));
}

#[test]
fn bounded_time_that_is_left_goes_to_what_is_uncertain() {
    let time = Some(Duration::from_secs(600));
    // Digits of a clock: between no time and almost a second.
    let noisy = "sleep 0.$(date +%N | cut -c 7)$(date +%N | cut -c 8)";
    let all = Plan { time, uncertain: 3, ..plan(Vec::new(), vec![script(noisy)]) };
    let results = race(&all);
    assert!(results.complete && !results.out_of_time);
    assert_eq!(results.workloads[0].samples(0).count(), 2 + 3);
    let none = race(&Plan { time: None, ..all });
    assert_eq!(none.workloads[0].samples(0).count(), 2, "nobody set a time");
}

#[test]
fn nobody_uses_up_the_time_of_all() {
    let fake = fake_allocator();
    let time = Some(Duration::from_secs(600));
    let slow = script("case $LD_PRELOAD in *fake*) sleep 61;; esac");
    let results = race(&Plan { time, ..plan(vec![fake.arm("fake")], vec![slow]) });
    let (_, failure) = results.workloads[0].failure(0).unwrap();
    assert!(matches!(failure, Failure::Timeout { seconds } if *seconds < 60.0), "{failure}");
    assert_eq!(results.workloads[0].samples(1).count(), 2);
    assert!(results.complete && results.seconds < 60.0);
}

#[test]
fn copies_are_for_workloads() {
    let tasks = vec![workload("churn", 0.01), script("exit 0")];
    let results = race(&Plan { copies: 2, ..plan(Vec::new(), tasks) });
    let runs = |task: usize| results.workloads[task].runs.len();
    assert_eq!((runs(0), runs(1)), (2 * 4, 2 * 2));
}

#[test]
fn context_switches_are_measured_and_shown() {
    let results = race(&plan(Vec::new(), vec![script("sleep 0.02"), workload("prodcons", 0.01)]));
    for measured in &results.workloads {
        let (_, sample) = measured.samples(0).next().unwrap();
        assert!(sample.voluntary_switches > 0, "{} waits: {sample:?}", measured.name);
    }
    assert!(results.json().contains("\"voluntary_switches\""));
    assert!(render(&results, Style::Markdown).contains("## Context switches"));
    assert!(html::page(&results).contains("Context switches"));
}

#[test]
fn results_say_nothing_of_where_things_are_on_this_machine() {
    let fake = fake_allocator();
    let arm = fake.arm("fake");
    let place = arm.library.as_ref().unwrap().parent().unwrap().display().to_string();
    // One run on the stand-in, and one that is refused since it loads the stand-in.
    let flags = ["-Wl,--no-as-needed"];
    let program = fake.program("int main(void) { usleep(500000); return 0; }", &flags);
    let results = race(&Plan { rounds: 1, ..plan(vec![arm], vec![command(&program)]) });
    assert_eq!(results.arms[0].library.as_deref(), Some("libfake.so"));
    assert!(results.workloads[0].failure(1).is_some());
    assert!(!results.json().contains(&place), "{}", results.json());
}

/// A program that can report latencies does so; the timed runs do not ask for them.
#[test]
fn latencies_come_from_runs_of_their_own() {
    let text =
        r#"[ -z "$MASU_LAB_LATENCY" ] || seq -f '%.0f 1' 1000 1000 100000 > "$MASU_LAB_LATENCY""#;
    let plan = Plan { latency_rounds: 3, ..plan(Vec::new(), vec![script(text)]) };
    static ASKED: AtomicBool = AtomicBool::new(false);
    let results = race::run(&plan, |step| {
        ASKED.fetch_or(step.phase == "latencies", Ordering::Relaxed);
    });
    let results = results.unwrap();
    assert!(ASKED.load(Ordering::Relaxed));
    let latency = &results.workloads[0].latencies[0];
    assert_eq!(latency.count, 300);
    let median = latency.quantiles.iter().find(|(quantile, _)| *quantile == 0.5).unwrap().1;
    assert!((49_000..=52_000).contains(&median), "{median}");
    let text = render(&results, Style::Markdown);
    assert!(text.contains("## Latency of single operations"), "{text}");
}

/// Not left out silently: whoever writes latencies wants to see them.
#[test]
fn latencies_that_cannot_be_read_are_a_failure() {
    let text = r#"[ -z "$MASU_LAB_LATENCY" ] || printf '1250 1\nfew\n' > "$MASU_LAB_LATENCY""#;
    let results = race(&plan(Vec::new(), vec![script(text)]));
    let (_, failure) = results.workloads[0].failure(0).expect("it is told");
    let said = "its latencies cannot be read: line 2 is not `NANOSECONDS COUNT`";
    assert_eq!(failure.to_string(), said);
}

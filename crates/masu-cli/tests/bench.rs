//! `masu bench` from outside: what it says, what it writes, how it ends, what it leaves behind.

mod common;

use std::ffi::{CString, OsStr};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{self, Stdio};
use std::time::{Duration, Instant};
use std::{fs, ptr, thread};

use assert_cmd::Command;
use common::{Fixture, masu, stdout};
use masu_bench::race::results::Results;
use masu_core::config::Config;

/// `masu bench` with the stand-in for libmasu.so, against the system's malloc alone.
fn bench(fixture: &Fixture) -> Command {
    masu_bench::work::ready().expect("cargo builds masu-work");
    let mut command = masu();
    command.args(["bench", "--rounds", "3", "--against", "none", "--lib"]);
    command.arg(fixture.witness()).current_dir(fixture.path(""));
    command
}

#[track_caller]
fn ended(command: &mut Command, code: i32) -> (String, String) {
    let output = command.output().expect("runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}{}", stdout(&output));
    (stdout(&output), said)
}

#[test]
fn a_command_is_raced_and_judged() {
    let fixture = Fixture::new();
    let mut command = bench(&fixture);
    // A variable need not be text.
    command.env("NO_TEXT", OsStr::from_bytes(b"\xff"));
    let (out, said) = ended(command.args(["--", "sh", "-c", "echo hi; sleep 0.2"]), 0);
    assert!(!said.contains("% "), "the bar is for terminals: {said}");
    assert!(out.contains("│ masu 0.1.0") && out.contains("│ glibc 2."), "{out}");
    assert!(out.contains("A tie in time") || out.contains(" is the fastest: "), "{out}");
    assert!(out.contains("Fewer than 5 rounds"), "{out}");
    assert!(out.contains("In all 9 runs the kernel's mappings showed"), "{out}");
    assert!(!out.contains('\u{1b}'), "no colours in a file: {out}");
}

#[test]
fn files_are_written_and_json_can_have_stdout_for_itself() {
    let fixture = Fixture::new();
    let mut command = bench(&fixture);
    command.args(["--json", "-", "--html", "r.html", "--md", "r.md", "--", "true"]);
    let (out, _) = ended(&mut command, 0);
    let results = Results::parse(&out).expect("nothing but JSON");
    assert_eq!((results.arms[0].name.as_str(), results.arms.len()), ("masu", 3));
    assert!(results.arms[0].library.as_deref().unwrap().ends_with("libwitness.so"));
    assert!(fs::read_to_string(fixture.path("r.html")).unwrap().starts_with("<!DOCTYPE html>"));
    assert!(fs::read_to_string(fixture.path("r.md")).unwrap().starts_with("# The race"));
}

/// The first failure must not cost the rest; stdout comes last, since a reader that has gone ends the process.
#[test]
fn an_output_that_cannot_be_written_does_not_cost_the_others() {
    let fixture = Fixture::new();
    let whole = |name: &str| {
        assert!(fs::metadata(fixture.path(name)).is_ok_and(|file| file.len() > 0), "{name}");
        fs::remove_file(fixture.path(name)).unwrap();
    };
    let mut command = bench(&fixture);
    command.args(["--json", "/dev/full", "--html", "r.html", "--md", "-", "--", "true"]);
    let (out, said) = ended(&mut command, 125);
    assert!(said.contains("cannot write `/dev/full`: ") && out.starts_with("# The race"), "{said}");
    whole("r.html");
    for json in ["-", "r.json"] {
        for is_read in [true, false] {
            let mut race = process::Command::new(env!("CARGO_BIN_EXE_masu"));
            race.args(["bench", "--rounds", "1", "--against", "none", "--lib"]);
            race.arg(fixture.witness()).current_dir(fixture.path("")).stdin(Stdio::null());
            race.args(["--json", json, "--html", "r.html", "--", "true"]);
            let full = fs::File::options().write(true).open("/dev/full").unwrap();
            race.stdout(if is_read { full.into() } else { Stdio::piped() }).stderr(Stdio::piped());
            let mut child = race.spawn().unwrap();
            drop(child.stdout.take());
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!is_read || said.contains("cannot write the output: "), "{said}");
            assert!(!is_read || output.status.code() == Some(125), "{said}");
            whole("r.html");
            if json != "-" {
                whole(json);
            }
        }
    }
}

#[test]
fn who_misbehaves_wins_nothing_and_the_exit_code_says_so() {
    let fixture = Fixture::new();
    let script = "case $LD_PRELOAD in *witness*) echo spoilt;; *) echo good;; esac";
    let (out, _) = ended(bench(&fixture).args(["--", "sh", "-c", script]), 1);
    assert!(out.contains("Nobody wins: only glibc ran it without a failure."), "{out}");
    assert!(out.contains("Out of the race: masu printed something else: from line 1 on"), "{out}");
}

#[test]
fn a_program_that_fails_by_itself_is_refused() {
    let fixture = Fixture::new();
    let mut command = bench(&fixture);
    fs::write(fixture.path("kept.md"), "what was there").unwrap();
    command.args(["--html", "r.html", "--md", "kept.md"]);
    let (out, said) = ended(command.args(["--", "sh", "-c", "echo no >&2; exit 4"]), 125);
    assert_eq!(out, "");
    assert!(!fixture.path("r.html").exists(), "no empty page is left");
    assert_eq!(fs::read_to_string(fixture.path("kept.md")).unwrap(), "what was there");
    assert!(said.contains("fails on the system's own malloc: exit status 4: no"), "{said}");
    assert!(said.contains("--ignore-failure"), "{said}");
    ended(bench(&fixture).args(["-i", "--", "sh", "-c", "exit 4"]), 0);
    let killed = ["--", "sh", "-c", "kill -9 $$"];
    let (_, said) = ended(bench(&fixture).args(killed), 125);
    assert!(said.contains("ended by SIGKILL") && said.contains("--ignore-failure"), "{said}");
    ended(bench(&fixture).arg("-i").args(killed), 0);
    let script = "case $LD_PRELOAD in *witness*) kill -11 $$;; *) kill -9 $$;; esac";
    let (out, _) = ended(bench(&fixture).args(["-i", "--", "sh", "-c", script]), 1);
    assert!(out.contains("Out of the race: masu ended by SIGSEGV"), "{out}");
}

/// The kernel does not start it, but `execvp` and `masu run` do, with a shell.
#[test]
fn a_script_without_a_first_line_is_raced() {
    let fixture = Fixture::new();
    fixture.script("bare", "[ \"$1\" = a ] && [ $# = 1 ]\n");
    ended(bench(&fixture).args(["--", "./bare", "a"]), 0);
}

#[test]
fn a_program_that_hangs_is_stopped() {
    let fixture = Fixture::new();
    // The command may build the workloads first.
    let mut command = bench(&fixture);
    let start = Instant::now();
    let (_, said) = ended(command.args(["--timeout", "300ms", "--", "sleep", "60"]), 125);
    assert!(said.contains("stopped after 0.3 s"), "{said}");
    assert!(said.contains("--timeout") && !said.contains("--ignore-failure"), "{said}");
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn standard_input_is_read_anew_in_every_run() {
    let fixture = Fixture::new();
    fs::write(fixture.path("in"), "a\nb\n").unwrap();
    let script = ["--", "sh", "-c", "[ $(wc -l) = 2 ]"];
    ended(bench(&fixture).args(["--input", "in"]).args(script), 0);
    let mut redirected = process::Command::new(env!("CARGO_BIN_EXE_masu"));
    redirected.args(["bench", "--rounds", "2", "--against", "none", "--lib"]);
    redirected.arg(fixture.witness()).args(script);
    redirected.stdin(fs::File::open(fixture.path("in")).unwrap());
    let output = redirected.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Otherwise masu would warn about them in every run, which takes time.
#[test]
fn what_the_runner_tells_programs_is_no_mistyped_option() {
    let fixture = Fixture::new();
    ended(bench(&fixture).args(["--", "sh", "-c", "env -0 >> seen"]), 0);
    let seen = fs::read(fixture.path("seen")).unwrap();
    let ours = seen.split(|&byte| byte == 0).filter(|one| one.starts_with(b"MASU_"));
    let ours: Vec<CString> = ours.map(|one| CString::new(one).unwrap()).collect();
    assert!(ours.len() >= 9, "a mark in each run: {ours:?}");
    let environment: Vec<_> = ours.iter().map(|one| one.as_ptr()).chain([ptr::null()]).collect();
    let mut said = Vec::new();
    // SAFETY: the array ends in null, and its strings live past the call.
    unsafe { Config::parse(environment.as_ptr(), false, &mut |bytes| said.extend(bytes)) };
    assert_eq!(String::from_utf8_lossy(&said), "");
}

#[test]
fn instructions_are_counted_and_shown_or_it_is_said_why_not() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("empty")).unwrap();
    let without = |command: &mut Command| ended(command.env("PATH", fixture.path("empty")), 125);
    let (out, said) = without(bench(&fixture).args(["--instructions", "--", "/bin/true"]));
    assert_eq!(out, "");
    assert!(said.contains("valgrind, which is not installed"), "{said}");
    // A stand-in for it, which knows nothing about what it runs.
    let script = "#!/bin/sh\nfor word; do case $word in\n\
        --callgrind-out-file=*) echo 'totals: 77000000' > ${word#*=};; esac; done";
    fixture.script("valgrind", script);
    let path = format!("{}:{}", fixture.path("").display(), std::env::var("PATH").unwrap());
    let mut command = bench(&fixture);
    let (out, _) = ended(command.args(["--instructions", "--", "true"]).env("PATH", path), 0);
    assert!(out.contains("│ million instructions ┆ masu ┆ glibc │"), "{out}");
    assert!(out.contains("│ command              ┆ 77.0 ┆  77.0 │"), "{out}");
}

#[test]
fn others_are_named_by_path() {
    let fixture = Fixture::new();
    let other = fixture.cc(
        "libother.so",
        &["-shared", "-fPIC"],
        "#include <stddef.h>\nvoid *__libc_malloc(size_t);\n\
         void *malloc(size_t n) { return __libc_malloc(n); }",
    );
    let mut command = bench(&fixture);
    let list = format!("mine={},none", other.display());
    let (out, _) = ended(command.args(["--against", &list, "--", "sleep", "0.02"]), 0);
    assert!(out.contains("│ mine unknown"), "{out}");
}

#[test]
fn mistakes_end_with_two_and_say_what_to_do() {
    let fixture = Fixture::new();
    for (arguments, expected) in [
        (&["--"][..], "nothing to measure"),
        (&["--time", "soon", "--", "true"], "not a time like 90s or 20m"),
        (&["--time", "0s", "--", "true"], "it must be above zero"),
        (&["--json", "-", "--md", "-", "--", "true"], "only one of --json, --html and --md"),
        (&["--suite", "nonsense"], "suites: quick, workloads, programs, full; workloads: churn"),
        (&["--suite", "qiuck"], "did you mean quick?"),
        (&["--suite", "larsen"], "did you mean larson?"),
        (&["--suite", "quick", "--", "true"], "cannot be combined\n  leave one of them out"),
        (&["--against", "nonsense", "--", "true"], "no allocator called `nonsense` is installed"),
        (&["--against", "mine=", "--", "true"], "--against: `mine=` names no file\n  as in: "),
        (&["--against", "/nonexistent.so", "--", "true"], "`/nonexistent.so` cannot be opened"),
        (&["--input", "nonexistent", "--", "cat"], "cannot read `nonexistent`"),
        (&["--html", "/nonexistent/r.html", "--", "true"], "cannot write `/nonexistent/r.html`"),
        (&["--round", "3", "--", "true"], "'--rounds'"),
    ] {
        let (out, said) = ended(bench(&fixture).args(arguments), 2);
        assert_eq!(out, "");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    let (_, said) = ended(masu().args(["bench", "--rounds", "0", "--", "true"]), 2);
    assert!(said.contains("a whole number from 1 to 65535"), "{said}");
    let (_, said) = ended(bench(&fixture).args(["--", "nonexistent-program"]), 127);
    assert!(said.contains("no such program"), "{said}");
}

#[test]
fn a_workload_of_the_suite_is_raced() {
    let fixture = Fixture::new();
    masu_bench::work::ready().expect("cargo builds masu-work");
    // The stand-in serves only malloc, which the workload itself notices.
    let mut command = bench(&fixture);
    let (out, _) = ended(command.args(["--suite", "small2mb", "--json", "r.json"]), 1);
    assert!(out.contains("small2mb on masu, round 1: wrong allocator"), "{out}");
    let results = Results::parse(&fs::read_to_string(fixture.path("r.json")).unwrap()).unwrap();
    assert_eq!(results.workloads[0].samples(1).count(), 3);
}

#[test]
fn a_real_program_is_raced_like_a_workload() {
    let fixture = Fixture::new();
    let mut command = bench(&fixture);
    let (out, _) = ended(command.args(["--suite", "bash", "--json", "r.json"]), 0);
    assert!(out.contains("masu 0.1.0"), "{out}");
    let results = Results::parse(&fs::read_to_string(fixture.path("r.json")).unwrap()).unwrap();
    assert_eq!(results.workloads[0].name, "bash");
    assert!(!results.workloads[0].varies, "what it prints is compared");
    assert_eq!(results.workloads[0].samples(0).count(), 3);
}

#[test]
fn time_bounds_all_of_it_from_the_first_run_on() {
    let fixture = Fixture::new();
    let mut command = bench(&fixture);
    let start = Instant::now();
    let (out, _) = ended(command.args(["--time", "2s", "--", "sleep", "60"]), 124);
    assert!(out.contains("was up before every allocator had run"), "{out}");
    assert!(start.elapsed() < Duration::from_secs(40));
}

/// What a terminal does on Ctrl-C: the signal goes to the foreground group, which does not include
/// the measured program. Under `nohup` its end is no interrupt.
#[test]
fn an_interrupt_reports_what_there_is_and_leaves_nobody() {
    let fixture = Fixture::new();
    masu_bench::work::ready().expect("cargo builds masu-work");
    let count = fixture.path("runs");
    let script = format!(
        "echo x >> {0}; [ $(wc -l < {0}) -lt 6 ] || {{ sleep 61 & sleep 61; }}",
        count.display()
    );
    let mut command = process::Command::new("nohup");
    command.arg(env!("CARGO_BIN_EXE_masu"));
    command.args(["bench", "--rounds", "9", "--against", "none", "--json", "r.json", "--lib"]);
    command.arg(fixture.witness()).args(["--", "sh", "-c", &script]).current_dir(fixture.path(""));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let child = command.spawn().unwrap();
    let start = Instant::now();
    let runs = || fs::read_to_string(&count).unwrap_or_default().lines().count();
    for (run, signal) in [(2, libc::SIGHUP), (6, libc::SIGINT)] {
        while runs() < run {
            assert!(start.elapsed() < Duration::from_secs(60), "it never came to run {run}");
            thread::sleep(Duration::from_millis(10));
        }
        // SAFETY: `kill` takes numbers only; the process is a child that was not waited for yet.
        unsafe { libc::kill(-(child.id() as i32), signal) };
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout(&output).contains("Interrupted: these are partial results."));
    let results = Results::parse(&fs::read_to_string(fixture.path("r.json")).unwrap()).unwrap();
    assert!(!results.complete && results.workloads[0].runs.len() == 3, "{results:?}");
    let ours = |entry: &fs::DirEntry| {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let working = fs::read_link(entry.path().join("cwd")).unwrap_or_default();
        command.starts_with(b"sleep\x0061") && working == fixture.path("").canonicalize().unwrap()
    };
    let left = fs::read_dir("/proc").unwrap().flatten().filter(ours).count();
    assert_eq!(left, 0, "a child was left behind");
}

#[test]
fn a_pipe_is_not_read_and_that_is_said() {
    let fixture = Fixture::new();
    masu_bench::work::ready().expect("cargo builds masu-work");
    let mut command = process::Command::new(env!("CARGO_BIN_EXE_masu"));
    command.args(["bench", "--rounds", "1", "--against", "none", "--lib"]).arg(fixture.witness());
    command.args(["--", "wc", "-c"]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"lost").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("standard input is a pipe"), "{said}");
}

#[test]
fn the_schema_is_the_committed_one() {
    let committed =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/benchmarks/results.schema.json");
    let (out, _) = ended(masu().args(["bench", "--schema"]), 0);
    assert!(out == fs::read_to_string(committed).unwrap(), "another schema");
}

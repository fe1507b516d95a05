//! What jemalloc's manual says of profiles that dump by themselves, of threads' names and of leaks. With `MASU_LIB` naming
//! a jemalloc that was built with profiling, these run on that.

use super::*;
use std::path::Path;

fn program() -> &'static Program {
    static PROGRAM: LazyLock<Program> = LazyLock::new(|| build(&["prof.c"]));
    &PROGRAM
}

/// A case in a directory of its own.
fn run_in(directory: &Path, case: &str, conf: &str) -> Outcome {
    masu_tests::case(program(), case).directory(directory).env("MALLOC_CONF", conf).run()
}

#[track_caller]
fn check(case: &str, conf: &str) {
    run_in(masu_tests::scratch().path(), case, conf).success();
}

fn dumps(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let names = entries.map(|entry| entry.expect("a file").file_name());
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}

#[test]
fn a_thread_has_the_name_that_it_was_given() {
    check("a_thread_has_the_name_that_it_was_given", "prof:true");
}

#[test]
fn a_call_for_a_threads_name_reads_or_writes() {
    check("a_call_for_a_threads_name_reads_or_writes", "prof:true");
}

#[test]
fn a_dump_has_what_each_thread_has() {
    check("a_dump_has_what_each_thread_has", "prof:true,lg_prof_sample:0");
}

#[test]
fn a_single_thread_has_a_line() {
    check("a_single_thread_has_a_line", "prof:true,lg_prof_sample:0");
}

#[test]
fn an_interval_of_allocations_ends_with_a_dump() {
    let conf = "prof:true,lg_prof_sample:12,lg_prof_interval:20";
    check("an_interval_of_allocations_ends_with_a_dump", conf);
}

#[test]
fn there_are_no_dumps_of_intervals_by_default() {
    for more in ["", ",lg_prof_interval:-1", ",lg_prof_interval:20,lg_prof_interval:-1"] {
        check("there_are_no_dumps_of_intervals_by_default", &format!("prof:true{more}"));
    }
}

#[test]
fn threads_and_forks_get_along_with_dumps() {
    let conf = "prof:true,lg_prof_sample:12,lg_prof_interval:20";
    check("threads_and_forks_get_along_with_dumps", conf);
    check("threads_and_forks_get_along_with_dumps", &format!("{conf},prof_gdump:true"));
}

#[test]
fn dumps_that_cannot_be_written_stop_nothing() {
    let conf = "prof:true,lg_prof_sample:12,lg_prof_interval:20,prof_gdump:true,prof_final:true,\
                prof_prefix:missing/dump";
    check("dumps_that_cannot_be_written_stop_nothing", conf);
}

#[test]
fn a_profile_that_waits_is_empty() {
    check("a_profile_that_waits_is_empty", "prof:true,prof_active:false,lg_prof_sample:0");
}

#[test]
fn each_new_maximum_is_dumped() {
    check("each_new_maximum_is_dumped", "prof:true,lg_prof_sample:19,prof_gdump:true");
}

#[test]
fn leaks_are_told_at_exit() {
    let place = masu_tests::scratch();
    let summary = |conf: &str| {
        let outcome = run_in(place.path(), "a_program_leaks", conf);
        assert!(outcome.stdout.contains("flushed\n"), "{outcome:?}");
        (outcome.status.code(), outcome.stderr)
    };
    let says = |told: &str| {
        let line = told.lines().next().unwrap_or_default().to_owned();
        let words: Vec<&str> = line.split_whitespace().collect();
        let [
            "<jemalloc>:",
            "Leak",
            "approximation",
            "summary:",
            bytes,
            "bytes,",
            objects,
            "objects,",
            ">=",
            _,
            contexts,
        ] = words[..]
        else {
            panic!("{told}")
        };
        assert!(contexts.starts_with("context"), "{told}");
        let number =
            |word: &str| -> u64 { word.trim_start_matches('~').parse().expect("a number") };
        // The case's blocks, and those of the C library.
        assert!((1_000_000..1_400_000).contains(&number(bytes)), "{told}");
        assert!((10..40).contains(&number(objects)), "{told}");
    };
    for conf in [
        "prof:true,prof_leak:true,lg_prof_sample:0,prof_final:true",
        // A profile is taken without `prof` too.
        "prof_leak:true,lg_prof_sample:0,prof_final:true",
    ] {
        let (code, told) = summary(conf);
        assert_eq!(code, Some(0), "{conf}");
        says(&told);
        assert_eq!(
            told.lines().nth(1),
            Some("<jemalloc>: Run jeprof on dump output for leak detail")
        );
        assert_eq!(told.lines().count(), 2, "{told}");
    }
    let (code, told) = summary("prof_leak_error:true,lg_prof_sample:0,prof_final:true");
    assert_eq!(code, Some(1));
    says(&told);
    let last = "<jemalloc>: Exiting with error code because memory leaks were detected";
    assert_eq!(told.lines().nth(2), Some(last), "{told}");
    assert_eq!(dumps(place.path()).len(), 3, "each left a dump");
}

/// Works only when combined with `prof_final`, and with a prefix.
#[test]
fn leaks_are_not_told_without_a_last_dump() {
    for conf in [
        "prof:true,prof_leak:true,lg_prof_sample:0",
        "prof:true,prof_leak_error:true,lg_prof_sample:0",
        "prof:true,prof_leak_error:true,lg_prof_sample:0,prof_final:true,prof_prefix:",
        "prof:true,lg_prof_sample:0,prof_final:true",
    ] {
        let place = masu_tests::scratch();
        let outcome = run_in(place.path(), "a_program_leaks", conf).success();
        assert_eq!(outcome.stderr, "", "{conf}");
        assert_eq!(dumps(place.path()).len(), usize::from(!conf.contains("leak")), "{conf}");
    }
}

#[test]
fn an_error_for_leaks_is_one_for_options_too() {
    for (conf, expected) in [
        ("prof:true", "0 0 0\n"),
        ("prof:true,prof_leak:true", "1 0 0\n"),
        ("prof:true,prof_leak_error:true,prof_final:true,prof_prefix:", "1 1 1\n"),
    ] {
        let place = masu_tests::scratch();
        let outcome = run_in(place.path(), "leaks_are_options", conf).success();
        assert!(outcome.stdout.contains(expected), "{conf}: {}", outcome.stdout);
    }
}

#[test]
fn threads_begin_as_is_wanted() {
    let conf = "prof:true,lg_prof_sample:0,prof_thread_active_init:false";
    check("threads_begin_as_is_wanted", conf);
}

#[test]
fn the_prefix_of_the_options_can_be_read() {
    for (conf, prefix) in
        [("prof:true", "jeprof"), ("prof:true,prof_prefix:/tmp/x", "/tmp/x"), ("prof_prefix:", "")]
    {
        let case = masu_tests::case(program(), "the_prefix_of_the_options_can_be_read");
        let run = case.env("MALLOC_CONF", conf).env("PREFIX", prefix);
        // jemalloc has no prefix without a profile.
        if is_masu() || conf.contains("prof:true") {
            run.run().success();
        }
    }
}

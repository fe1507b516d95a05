//! `policy:debug`: every report about any block has the stacks of its allocation and its free, and blocks still in use
//! at exit are listed.

mod common;

use std::fs;
use std::sync::LazyLock;

use masu_tests::running::masu;
use masu_tests::{Outcome, Program, Run, is_masu, scratch};

const SIGABRT: i32 = 6;
const SIGSEGV: i32 = 11;

static PROGRAM: LazyLock<Program> = LazyLock::new(|| common::c_program("recorded"));

fn run(case: &str, bytes: usize, more: &str) -> Run {
    let keys = format!("policy:debug{more}");
    Run::program(&PROGRAM).arg(case).env("BYTES", bytes.to_string()).env("MASU_CONF", keys)
}

/// What each stack of a report shows, with the offset of its innermost function in the program.
fn stacks(outcome: &Outcome) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut lines = outcome.stderr.lines();
    while let Some(line) = lines.next() {
        let head = line.strip_prefix("masu:   ").and_then(|line| line.split_once(" by thread "));
        let Some((what, _)) = head else { continue };
        let first = lines.next().unwrap_or_default();
        let place = first.split_once("the program+").map_or("", |(_, place)| place);
        found.push((what.to_owned(), place.to_owned()));
    }
    found
}

#[track_caller]
fn told(outcome: &Outcome, line: &str, expected: &[&str]) {
    let first = outcome.stderr.lines().next().unwrap_or_default();
    assert!(first.starts_with("masu: ") && first.contains(line), "{line}: {}", outcome.describe());
    let found = stacks(outcome);
    let what: Vec<&str> = found.iter().map(|(what, _)| &**what).collect();
    assert_eq!(what, expected, "{}", outcome.describe());
    // Each stack begins in the program, and allocation and free are at different places.
    assert!(found.iter().all(|(_, place)| place.starts_with("0x")), "{}", outcome.describe());
    if let (Some(allocated), Some(freed)) = (
        found.iter().find(|(what, _)| what == "allocated"),
        found.iter().find(|(what, _)| what == "freed"),
    ) {
        assert_ne!(allocated.1, freed.1, "{}", outcome.describe());
    }
}

#[test]
fn a_report_about_any_block_has_its_stacks() {
    if !is_masu() {
        return;
    }
    let (ended, ending) = (&["now", "allocated", "freed"][..], &["now", "allocated"][..]);
    let accessed = &["accessed", "allocated", "freed"][..];
    for bytes in [100, 5000, 20_000, 131_072, 300_000, 5_000_000] {
        // With guards, these would be reported as mistakes with guarded blocks.
        let no = ",guard:off";
        for (case, line, stacks) in [
            ("frees_twice", "double free of 0x", ended),
            ("frees_after_many", "double free of 0x", ended),
            ("frees_in_two_threads", "double free of 0x", ended),
            ("frees_inside", "it points 32 bytes into the block of ", ending),
            ("resizes_freed", "realloc of 0x", ended),
            ("frees_what_moved", "double free of 0x", ended),
            ("frees_the_stack", "it points to the stack", &ending[..1]),
        ] {
            told(&run(case, bytes, no).run().killed_by(SIGABRT), line, stacks);
        }
        // A block that ends with a page has no slack.
        if bytes % 4096 != 0 {
            let outcome = run("writes_beyond", bytes, no).run().killed_by(SIGABRT);
            told(&outcome, "was written to 1 byte beyond its end", ending);
        } else {
            told(
                &run("writes_beyond", bytes, "").run().killed_by(SIGSEGV),
                "write to 0x",
                &accessed[..2],
            );
        }
        if bytes < 131_072 {
            let outcome = run("writes_freed", bytes, no).run().killed_by(SIGABRT);
            told(&outcome, "was written to after it was freed", ended);
        } else if bytes > 131_072 {
            let outcome = run("writes_freed", bytes, "").run().killed_by(SIGSEGV);
            told(&outcome, "40 bytes into the block of ", accessed);
            let outcome = run("reads_freed", bytes, "").run().killed_by(SIGSEGV);
            told(&outcome, ", which was freed", accessed);
        }
    }
    // Without `policy:debug`, unguarded blocks have no stacks.
    let plain = Run::program(&PROGRAM).arg("frees_twice").env("BYTES", "100");
    let plain = plain.env("MASU_CONF", "policy:hardened").run().killed_by(SIGABRT);
    assert_eq!(stacks(&plain), []);
}

#[test]
fn a_guarded_block_has_its_stacks_as_well() {
    if !is_masu() {
        return;
    }
    let told_of = |case, signal, line, stacks: &[&str]| {
        told(&run(case, 100, "").run().killed_by(signal), line, stacks);
    };
    told_of("frees_twice", SIGABRT, "double free of 0x", &["now", "allocated", "freed"]);
    told_of("reads_freed", SIGSEGV, "which was freed", &["accessed", "allocated", "freed"]);
    told_of("writes_beyond", SIGABRT, "1 byte beyond its end", &["allocated", "freed"]);
}

#[test]
fn reports_go_to_a_file_as_well() {
    if !is_masu() {
        return;
    }
    let directory = scratch();
    let file = directory.path().join("report");
    let outcome = run("frees_twice", 20_000, "").env("MASU_GUARD_FILE", &file).run();
    assert_eq!(fs::read_to_string(&file).expect("a report"), outcome.killed_by(SIGABRT).stderr);
}

/// The bytes and blocks in each line of a list of leaks: the total, then each place.
fn amounts(outcome: &Outcome) -> Vec<[u64; 2]> {
    let number = |word: Option<&str>| word.and_then(|word| word.parse().ok()).expect("a number");
    let says = outcome.stderr.lines().filter_map(|line| line.split_once(" bytes in "));
    says.map(|(before, behind)| {
        [number(before.rsplit(' ').next()), number(behind.split(' ').next())]
    })
    .collect()
}

#[test]
fn what_is_in_use_at_the_end_is_listed() {
    if !is_masu() {
        return;
    }
    let outcome = run("keeps_some", 0, "").run().success();
    let first = outcome.stderr.lines().next().unwrap_or_default();
    assert!(first.starts_with("masu: in use at the end of process "), "{}", outcome.describe());
    assert!(first.contains(" 1273024 bytes in 7 blocks, "), "{}", outcome.describe());
    let places: Vec<&str> =
        outcome.stderr.lines().filter(|line| line.ends_with("allocated by")).collect();
    for amount in ["900000 bytes in 1 block", "300000 bytes in 1 block", "70000 bytes in 1 block"] {
        assert!(places.iter().any(|line| line.contains(amount)), "{}", outcome.describe());
    }
    assert!(places.iter().any(|line| line.contains(" 24 bytes in 1 block,")), "{places:?}");
    let small: u64 = places
        .iter()
        .filter(|line| line.contains("000 bytes in "))
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
        .filter(|bytes| *bytes <= 3000)
        .sum();
    assert_eq!(small, 3000, "{places:?}");
    // The largest first, each with its stack.
    assert!(places[0].contains("900000"), "{places:?}");
    let own = outcome.stderr.lines().filter(|line| line.contains("#0 "));
    assert_eq!(own.filter(|line| line.contains("the program+0x")).count(), places.len());

    assert_eq!(run("keeps_nothing", 0, "").run().success().stderr, "");
    assert_eq!(run("keeps_some", 0, ",show_leaks:off").run().success().stderr, "");
}

/// A request that fails leaves no stack for the block after it.
#[test]
fn a_block_after_a_failure_has_its_own_stack() {
    if !is_masu() {
        return;
    }
    let place = |case: &str| {
        let outcome = run(case, 5000, "").run().success();
        let own = outcome.stderr.lines().find(|line| line.contains("#0 "));
        let place = own.and_then(|line| line.split_once("the program+"));
        place.unwrap_or_else(|| panic!("{}", outcome.describe())).1.to_owned()
    };
    assert_eq!(place("keeps_one_after_a_failure"), place("keeps_one"));
}

#[test]
fn the_list_does_not_go_astray() {
    if !is_masu() {
        return;
    }
    // The program closed standard error, but the library still has it.
    let outcome = run("keeps_some_and_closes_all", 0, "").run().success();
    assert!(outcome.stderr.contains(": 5000 bytes in 1 block,"), "{}", outcome.describe());
    // A forked child is silent, and its parent keeps nothing.
    assert_eq!(run("keeps_some_in_a_child", 0, "").run().success().stderr, "");
    // Places that do not fit are added up.
    let outcome = run("keeps_some_of_many_places", 0, "").run().success();
    let amounts = amounts(&outcome);
    assert_eq!(amounts.len(), 22, "{}", outcome.describe());
    for of in [0, 1] {
        let sum: u64 = amounts[1..].iter().map(|line| line[of]).sum();
        assert_eq!(sum, amounts[0][of], "{}", outcome.describe());
    }
    assert!(outcome.stderr.contains(" other places; prof_file"), "{}", outcome.describe());
}

/// The profile of such a process is exact and names functions.
#[test]
fn the_profile_has_every_block() {
    if !is_masu() {
        return;
    }
    let directory = scratch();
    let file = directory.path().join("profile");
    let outcome = run("keeps_some", 0, ",show_leaks:off").env("MASU_PROF_FILE", &file);
    assert_eq!(outcome.run().success().stderr, "");
    let out = masu(&["prof", "--leaks", &file.to_string_lossy()]);
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(said.contains("1.2 MiB ± 0 B in 7 blocks"), "{said}");
    assert!(said.contains("keeps_some"), "{said}");
}

#[test]
fn without_a_hardened_heap_blocks_are_not_recorded() {
    if !is_masu() {
        return;
    }
    let run = Run::program(&PROGRAM).arg("keeps_some").env("BYTES", "0");
    let outcome = run.env("MASU_CONF", "block_stacks:on,show_leaks:on").run().success();
    assert_eq!(outcome.stderr, "masu: warning: block_stacks: needs hardened:on\n");
}

//! Limits: on address space, on data, on mappings, and on what can be unmapped at all.

mod common;

use std::sync::LazyLock;

use masu_tests::{Compile, Program, Run, check_offered, is_masu};

/// The conformance core, with the hostile grounds of `ground.c`.
fn core() -> &'static Program {
    static PROGRAM: LazyLock<Program> = LazyLock::new(|| {
        common::core(Compile::with("gcc").flag("-std=gnu11").file("c/ground.c")).build()
    });
    &PROGRAM
}

mod lowered {
    use std::sync::LazyLock;

    use masu_tests::Program;

    fn program() -> &'static Program {
        static PROGRAM: LazyLock<Program> = LazyLock::new(|| super::common::c_program("limits"));
        &PROGRAM
    }

    masu_tests::cases! {
        program;
        address_space_lowered_after_start,
        address_space_lowered_after_a_burst,
        data_size_lowered_after_start,
        threads_meet_the_limit_together,
        address_space_lowered_below_what_is_kept,
        data_size_lowered_below_what_is_kept,
        requests_succeed_again_once_there_are_mappings,
    }
}

/// The run below a limit that the shell sets.
fn below(limit: &str, run: Run) -> Run {
    run.through("sh", &["-c", &format!("ulimit {limit} && exec \"$0\" \"$@\"")])
}

/// All of the core in one process, below a limit that the shell sets.
fn core_below(limit: &str) {
    check_offered(below(limit, common::core_run(core())).run());
}

#[test]
fn core_below_512_mib_of_address_space() {
    core_below("-v 524288");
}

#[test]
fn core_below_512_mib_of_data() {
    core_below("-d 524288");
}

/// So small that no generous reservation succeeds: small programs must do with what is left. (Below 100 MiB a block of
/// more than 1 MiB fails earlier than glibc's: it takes addresses in units of 2 MiB.)
#[test]
fn small_blocks_below_144_mib_of_address_space() {
    let run = Run::program(core()).args([
        "small_sizes_keep_their_alignment_in_bulk",
        "malloc_zero_gives_distinct_blocks",
        "live_blocks_never_overlap",
        "usable_size_stays_the_same_while_others_come_and_go",
        "aligned_and_plain_blocks_mix",
        "realloc_keeps_content_at_every_small_step",
        "realloc_keeps_content_in_random_jumps_among_neighbours",
        "impossible_sizes_fail_with_enomem",
    ]);
    below("-v 147456", run).run().success();
}

/// The address space in KiB that a small program needs: the least `ulimit -v` with which it prints what it prints
/// without a limit.
fn least_address_space(program: &[&str], bare: bool) -> u64 {
    let run = |limit: Option<u64>| {
        let run = Run::new(program[0]).args(&program[1..]);
        let run = if bare { run.bare() } else { run };
        match limit {
            Some(limit) => below(&format!("-v {limit}"), run).run(),
            None => run.run(),
        }
    };
    let wanted = run(None).success().stdout;
    let (mut fails, mut works) = (1 << 10, 1 << 17);
    while works - fails > 4 {
        let middle = (fails + works) / 2;
        let outcome = run(Some(middle));
        if outcome.status.success() && outcome.stdout == wanted {
            works = middle;
        } else {
            fails = middle;
        }
    }
    works
}

/// Beyond glibc's heap, masu needs the library itself, a fault handler's stack of 24 KiB, a page of each table, and a
/// span of 64 KiB for each of some classes. Python does not import its site: code there may do without memory, so a
/// program may work within a limit and fail with a greater one.
#[test]
fn small_programs_need_hardly_more_address_space() {
    if !is_masu() {
        println!("only masu is held to this");
        return;
    }
    let programs: [(u64, &[&str]); 4] = [
        (524, &["/bin/true"]),
        (1890, &["bash", "--norc", "-c", "x=1; for i in 1 2 3; do x=$x$i; done; echo $x"]),
        // Its blocks of 3 to 3.5 KiB are of two classes.
        (1954, &["perl", "-e", "print 1"]),
        // Debian's Python takes 2,244 more, others 1,564: Debian's uses more classes.
        (2308, &["python3", "-I", "-S", "-c", "print(1)"]),
    ];
    for (more, program) in programs {
        let (plain, loaded) =
            (least_address_space(program, true), least_address_space(program, false));
        println!("{}: {plain} -> {loaded} KiB", program[0]);
        assert!(loaded <= plain + more, "{}: {plain} -> {loaded} KiB", program[0]);
    }
}

/// The limit that was reached is named once; the program may end without a message.
#[test]
fn a_limit_that_is_met_is_told_once() {
    if !is_masu() {
        println!("only masu is held to this");
        return;
    }
    let limits = common::c_program("limits");
    let told = |case: &str, conf: &str| -> Vec<String> {
        let outcome = Run::program(&limits).arg(case).env("MASU_CONF", conf).run().success();
        outcome
            .stderr
            .lines()
            .filter(|line| line.starts_with("masu: "))
            .map(str::to_owned)
            .collect()
    };
    for (case, name) in [
        ("address_space_lowered_after_start", "RLIMIT_AS, ulimit -v"),
        ("data_size_lowered_after_start", "RLIMIT_DATA, ulimit -d"),
    ] {
        let lines = told(case, "");
        assert!(lines.len() == 1 && lines[0].contains(name), "{lines:?}");
        assert!(lines[0].starts_with("masu: out of memory: "), "{lines:?}");
        assert_eq!(told(case, "show_errors:false"), [""; 0]);
    }
}

#[test]
fn core_with_few_mappings_left() {
    check_offered(common::core_run(core()).env("MASU_TEST_GROUND", "few-mappings").run());
}

/// Locked pages cannot be dropped, so memory that was given back is not zero; and reservations must not be filled with
/// pages at once.
#[test]
fn core_with_all_memory_locked() {
    if !locking_is_permitted() {
        println!("mlockall is not permitted here");
        return;
    }
    let mut cases = common::core_cases(core());
    cases.retain(|name| name != "malloc_trim_gives_memory_back");
    let outcome = Run::program(core()).args(cases).env("MASU_TEST_GROUND", "locked").run();
    assert!(outcome.max_rss_kib < 1 << 20, "locked far too much: {}", outcome.describe());
    check_offered(outcome);
}

fn locking_is_permitted() -> bool {
    let probe = Run::program(core()).bare().arg("usable_size_of_null_is_zero");
    let outcome = probe.env("MASU_TEST_GROUND", "locked").run();
    outcome.status.success() || !outcome.stderr.contains("mlockall")
}

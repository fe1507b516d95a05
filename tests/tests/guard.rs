//! Sampled guards: a mistake with a guarded block ends the program where it is made and is reported with its stacks,
//! and programs without mistakes notice nothing.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use masu_tests::running::masu;
use masu_tests::{Compile, Outcome, Program, Run, archive, is_masu, library, scratch};
use serde_json::Value;

const SIGABRT: i32 = 6;
const SIGSEGV: i32 = 11;

static PROGRAM: LazyLock<Program> = LazyLock::new(|| common::c_program("guarded"));

fn run(case: &str, configuration: &str) -> Run {
    Run::program(&PROGRAM)
        .arg(case)
        .env("MASU_CONF", configuration)
        .timeout(Duration::from_secs(100))
}

/// Asserts that the report's first line contains `line` and that these stacks follow, each of which begins in the
/// program.
#[track_caller]
fn told(outcome: &Outcome, line: &str, stacks: &[&str]) {
    let said = &outcome.stderr;
    let first = said.lines().next().unwrap_or_default();
    assert!(first.starts_with("masu: ") && first.contains(line), "{line}: {}", outcome.describe());
    let found: Vec<&str> = said
        .lines()
        .filter_map(|line| {
            line.strip_prefix("masu:   ")?.split_once(" by thread ").map(|(what, _)| what)
        })
        .collect();
    assert_eq!(found, stacks, "{}", outcome.describe());
    let own = said.lines().filter(|line| line.contains("#0 ") && line.contains("the program+0x"));
    assert!(own.count() >= stacks.len() - 1, "{}", outcome.describe());
}

/// The numbers that a program has printed.
fn numbers(outcome: &Outcome) -> Vec<i64> {
    outcome.stdout.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn every_mistake_is_found_when_every_block_is_guarded() {
    if !is_masu() {
        return;
    }
    let accessed = ["accessed", "allocated"];
    let freed = ["accessed", "allocated", "freed"];
    let wrong = ["now", "allocated", "freed"];
    for (case, signal, line, stacks) in [
        ("writes_beyond", SIGSEGV, "write to ", &accessed[..]),
        ("writes_beyond", SIGSEGV, " bytes beyond the end of the block of 100 bytes", &accessed),
        ("writes_before", SIGSEGV, " before the start of the block of 100 bytes", &accessed),
        ("reads_freed", SIGSEGV, "50 bytes into the block of 100 bytes", &freed),
        ("reads_freed", SIGSEGV, "which was freed", &freed),
        ("reads_freed", SIGSEGV, "read of ", &freed),
        ("writes_freed", SIGSEGV, "write to ", &freed),
        ("reads_freed_in_a_thread", SIGSEGV, "which was freed", &freed),
        ("reads_freed_after_it_was_locked", SIGSEGV, "which was freed", &freed),
        ("frees_twice", SIGABRT, "double free of ", &wrong),
        ("frees_inside", SIGABRT, "it points 32 bytes into the block of 100 bytes", &wrong[..2]),
        ("resizes_freed", SIGABRT, "realloc of ", &wrong),
    ] {
        told(&run(case, "guard:1/1").run().killed_by(signal), line, stacks);
    }
}

#[test]
fn a_byte_beyond_the_end_is_found_by_the_free_where_no_page_ends() {
    if !is_masu() {
        return;
    }
    let outcome = run("writes_one_beyond_and_frees", "guard:1/1").run().killed_by(SIGABRT);
    told(&outcome, "written to 1 byte beyond its end", &["allocated", "freed"]);
    let goes_on = run("writes_one_beyond_and_frees", "guard:1/1,on_error:report").run().success();
    told(&goes_on, "written to 1 byte beyond its end", &["allocated", "freed"]);
    let quiet = run("writes_one_beyond_and_frees", "guard:1/1,on_error:ignore").run().success();
    assert_eq!(quiet.stderr, "");
}

#[test]
fn a_file_that_cannot_be_opened_is_told_of_behind_the_report() {
    if !is_masu() {
        return;
    }
    let outcome = run("writes_one_beyond_and_frees", "guard:1/1,guard_file:/nowhere/x").run();
    let said = outcome.killed_by(SIGABRT).stderr;
    assert!(said.contains("beyond its end, found when freed"), "{said}");
    assert_eq!(
        said.matches("masu: warning: guard_file: cannot open \"/nowhere/x\"").count(),
        1,
        "{said}"
    );
}

#[test]
fn without_a_report_the_fault_itself_ends_the_program() {
    if !is_masu() {
        return;
    }
    let outcome = run("reads_freed", "guard:1/1,guard_report:off").run().killed_by(SIGSEGV);
    assert_eq!(outcome.stderr, "");
}

/// Whether the kernel leaves core files in a program's directory.
fn kernel_leaves_cores() -> bool {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").expect("a pattern");
    !pattern.starts_with(['|', '/'])
}

/// The core file of a case, written by the kernel or by gdb, without a report.
fn dumped(case: &str, configuration: &str, directory: &Path, by_kernel: bool) -> PathBuf {
    let to = directory.join("by-gdb");
    let commands = format!("generate-core-file {}", to.display());
    let mut command = Command::new("sh");
    command.current_dir(directory).args(["-c", "ulimit -c unlimited && exec \"$@\"", "sh"]);
    if !by_kernel {
        let library = library().expect("masu is a library");
        let start = format!("set exec-wrapper env LD_PRELOAD={}", library.display());
        command.args(["gdb", "-nx", "-batch", "-ex", &start, "-ex", "run", "-ex", &commands]);
        command.arg("--args");
    } else {
        command.env("LD_PRELOAD", library().expect("masu is a library"));
    }
    command.arg(PROGRAM.path()).arg(case);
    command.env("MASU_CONF", format!("guard_report:off,{configuration}"));
    let out = command.output().expect("sh, or gdb where core files go elsewhere");
    let mut files = fs::read_dir(directory).expect("a directory");
    let file = files.next().unwrap_or_else(|| panic!("no core file: {out:?}"));
    file.expect("a file").path()
}

#[test]
fn a_core_file_says_which_block_it_was() {
    if !is_masu() {
        return;
    }
    let accessed = &["accessed", "allocated"][..];
    let freed = &["accessed", "allocated", "freed"][..];
    for (case, configuration, line, stacks) in [
        (
            "writes_beyond",
            "guard:1/1",
            " bytes beyond the end of the block of 100 bytes at 0x",
            accessed,
        ),
        ("writes_before", "guard:1/1", " before the start of the block of 100 bytes", accessed),
        ("reads_freed", "guard:1/1", "50 bytes into the block of 100 bytes at 0x", freed),
        ("reads_freed_in_a_thread", "guard:1/1", ", which was freed", freed),
        ("faults_elsewhere", "", "a null pointer, or a field of one", &accessed[..1]),
        (
            "jumps_into_a_block",
            "",
            "48 bytes into a small block of 224 bytes at 0x",
            &accessed[..1],
        ),
        (
            "jumps_into_a_medium_block",
            "",
            "48 bytes into the block of 40960 bytes at 0x",
            &accessed[..1],
        ),
        ("jumps_into_a_huge_block", "", "48 bytes into the block of ", &accessed[..1]),
        (
            "jumps_into_a_block",
            "policy:hardened",
            "48 bytes into a hardened block of up to ",
            &accessed[..1],
        ),
        (
            "jumps_into_a_huge_block",
            "policy:hardened",
            "48 bytes into a hardened block of up to ",
            &accessed[..1],
        ),
    ] {
        // gdb would write whole reservations.
        let by_kernel = kernel_leaves_cores();
        if !by_kernel && configuration == "policy:hardened" {
            continue;
        }
        let directory = scratch();
        let core = dumped(case, configuration, directory.path(), by_kernel);
        let out = masu(&["explain", "--core", &core.to_string_lossy()]);
        let (said, wrong) =
            (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert_eq!((out.status.code(), &*wrong), (Some(0), ""), "{case}");
        let mut lines = said.lines();
        let first = lines.next().unwrap_or_default();
        assert!(first.contains(" on masu ") && first.contains(": ended by SIGSEGV"), "{said}");
        let second = lines.next().unwrap_or_default();
        assert!(second.starts_with("access to 0x") && second.contains(line), "{case}: {said}");
        let found: Vec<&str> = said
            .lines()
            .filter_map(|line| line.strip_prefix("  ")?.split_once(" by thread ").map(|it| it.0))
            .collect();
        assert_eq!(found, stacks, "{case}: {said}");
        // The names of the program's own functions.
        let name = format!("#0  {case}");
        if stacks.len() > 1 {
            assert!(said.contains(&name), "{case}: {said}");
            assert!(said.contains("guarded blocks' stacks"), "{case}: {said}");
        }
        assert!(said.contains("\n  sum  "), "{case}: {said}");
        let out = masu(&["explain", "--json", "--core", &core.to_string_lossy()]);
        is_the_same_as_json(&out.stdout, &said, line, stacks);
    }
    for (file, way) in [("Cargo.toml", "ulimit -c"), ("/none", "ulimit -c")] {
        let out = masu(&["explain", "--core", file]);
        let wrong = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.code() == Some(2) && wrong.contains(way), "{wrong}");
    }
}

/// A process that masu ends has no fault, but a stack: that of the mistake.
#[test]
fn a_core_file_shows_the_stack_of_an_abort() {
    if !is_masu() {
        return;
    }
    let directory = scratch();
    let core = dumped("frees_twice", "", directory.path(), kernel_leaves_cores());
    let core = core.to_string_lossy();
    let said = masu(&["explain", "--core", &core]).stdout;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains(": ended by SIGABRT\nno access to memory faulted\n"), "{said}");
    assert!(said.contains("  the signal was raised in thread "), "{said}");
    assert!(said.contains("gdb PROGRAM CORE"), "{said}");
    let ended: Value =
        serde_json::from_slice(&masu(&["explain", "--json", "--core", &core]).stdout)
            .expect("JSON");
    let frames = ended["at"]["frames"].as_array().expect("a stack").iter();
    let names: Vec<_> = frames.map(|frame| frame["name"].as_str().expect("a name")).collect();
    assert!(names.contains(&"frees_twice") && names.contains(&"main"), "{names:?}");
    assert!(ended["fault"].is_null(), "{ended:#}");
}

/// gdb leaves out memory with guard regions, and code that is in files.
#[test]
fn a_core_file_by_gdb_says_it_too() {
    if !is_masu() {
        return;
    }
    let directory = scratch();
    let core = dumped("reads_freed_in_a_thread", "guard:1/1", directory.path(), false);
    let out = masu(&["explain", "--core", &core.to_string_lossy()]);
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(said.contains("50 bytes into the block of 3000 bytes at 0x"), "{said}");
    assert!(said.contains("  freed by thread ") && said.contains("  main  "), "{said}");
    // Where libc's debugging information is installed, there is a name.
    assert!(said.contains("libc.so.6+0x") || said.contains("start_thread"), "{said}");
}

/// The answer for scripts has what the answer for people has.
#[track_caller]
fn is_the_same_as_json(bytes: &[u8], said: &str, line: &str, stacks: &[&str]) {
    let ended: Value = serde_json::from_slice(bytes).expect("JSON");
    let schema = masu_tests::workspace().join("docs/explain-core.schema.json");
    let schema = fs::read_to_string(schema).expect("readable");
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema).expect("JSON"));
    let validator = validator.expect("a schema");
    assert!(validator.is_valid(&ended), "{:?}\n{ended:#}", validator.validate(&ended));
    assert_eq!(ended["signal"]["name"], "SIGSEGV", "{ended:#}");
    let (fault, block) = (&ended["fault"], &ended["fault"]["block"]);
    let address = fault["address"].as_str().expect("an address");
    assert!(said.contains(&format!("access to {address}: ")), "{ended:#}");
    assert!(fault["text"].as_str().expect("a sentence").contains(line), "{ended:#}");
    let at = ended["at"]["frames"].as_array().expect("a stack");
    assert!(at.iter().any(|frame| frame["name"] == "main"), "{ended:#}");
    let is_guarded = fault["what"] == "guarded";
    assert_eq!(is_guarded, stacks.len() > 1, "{ended:#}");
    for (what, is_there) in
        [("allocated", is_guarded), ("freed", is_guarded && stacks.contains(&"freed"))]
    {
        let frames = block[what]["frames"].as_array();
        assert_eq!(frames.is_some_and(|frames| frames.len() > 1), is_there, "{ended:#}");
    }
    if is_guarded {
        assert_eq!(block["is_live"], !stacks.contains(&"freed"), "{ended:#}");
    }
    let hex = |text: &str| i64::from_str_radix(text.trim_start_matches("0x"), 16).expect("hex");
    match block["start"].as_str() {
        Some(start) => assert_eq!(hex(address) - hex(start), block["offset"], "{ended:#}"),
        None => assert_eq!(fault["what"], "null", "{ended:#}"),
    }
    assert!(
        ended["memory"]["parts"].as_array().is_some_and(|parts| !parts.is_empty()),
        "{ended:#}"
    );
}

#[test]
fn reports_go_to_a_file_as_well() {
    if !is_masu() {
        return;
    }
    let directory = scratch();
    let file = directory.path().join("report");
    let outcome =
        run("reads_freed", "guard:1/1").env("MASU_GUARD_FILE", &file).run().killed_by(SIGSEGV);
    assert_eq!(fs::read_to_string(&file).expect("a report"), outcome.stderr);
    run("frees_twice", "guard:1/1").env("MASU_GUARD_FILE", &file).run().killed_by(SIGABRT);
    let both = fs::read_to_string(&file).expect("a report");
    assert!(both.starts_with(&outcome.stderr) && both.contains("double free of "), "{both}");
}

#[test]
fn a_report_after_which_the_program_goes_on_spoils_no_file() {
    if !is_masu() {
        return;
    }
    let directory = scratch();
    let file = directory.path().join("report");
    let program = run("makes_mistakes_beside_a_file_of_data", "guard:1/1,on_error:report");
    let outcome = program.env("MASU_GUARD_FILE", &file).run().success();
    assert!(outcome.stdout.contains("0 bytes of data\n"), "{}", outcome.describe());
    let said = fs::read_to_string(&file).expect("a report");
    let told = ["written to 1 byte beyond its end", "double free of "];
    assert!(told.iter().all(|line| said.contains(line)), "{said}");
}

#[test]
fn the_programs_own_handler_has_its_faults() {
    if !is_masu() {
        return;
    }
    // It has replaced the library's.
    let own = run("handles_faults_itself", "guard:1/1").run().success();
    assert!(own.stdout.contains("handled"), "{}", own.describe());
    assert_eq!(own.stderr, "");
    // It passes them on to the library's.
    let passed = run("passes_faults_on", "guard:1/1").run().killed_by(SIGSEGV);
    assert!(passed.stdout.contains("passed on"), "{}", passed.describe());
    told(&passed, "which was freed", &["accessed", "allocated", "freed"]);
    // The library's is called first, and passes on.
    if let Some(archive) = archive() {
        let linked = Compile::c("c/check_main.c").file("c/guarded.c").file(archive).build();
        let run = Run::program(&linked).bare().arg("reads_freed").env("MASU_CONF", "guard:1/1");
        let first = run.env("EARLY_HANDLER", "1").run().success();
        assert!(first.stdout.contains("handled"), "{}", first.describe());
        assert!(first.stderr.contains("which was freed"), "{}", first.describe());
    }
}

#[test]
fn other_faults_are_left_alone() {
    for case in ["faults_elsewhere", "is_told_to_end"] {
        let outcome = run(case, "guard:1/1").run().killed_by(SIGSEGV);
        assert_eq!(outcome.stderr, "", "{case}");
    }
}

#[test]
fn one_block_in_so_many_is_guarded() {
    if !is_masu() {
        return;
    }
    let count = |configuration| -> f64 {
        let outcome = run("counts_what_is_guarded", configuration).run().success();
        numbers(&outcome).first().copied().expect("a number") as f64
    };
    assert_eq!(count("guard:off"), 0.0);
    assert_eq!(count("guard:1/1"), 200_000.0);
    let guarded = count("guard:1/100");
    // Five standard deviations of 200,000 throws.
    assert!((guarded - 2000.0).abs() < 5.0 * 2000f64.sqrt(), "{guarded}");
    // With profiling on as well, blocks are guarded as often as without.
    let both = count("guard:1/100,prof:on,prof_rate:1000");
    assert!((both - 2000.0).abs() < 5.0 * 2000f64.sqrt(), "{both}");
}

#[test]
fn a_thousand_guarded_pages_cost_at_most_8_mib() {
    if !is_masu() {
        return;
    }
    let outcome = run("has_a_thousand", "guard:1/1,guard_slots:2100").run().success();
    let &[guarded, kib, mappings] = &numbers(&outcome)[..] else {
        panic!("{}", outcome.describe())
    };
    assert_eq!(guarded, 1000);
    assert!(kib <= 8 << 10, "{kib} KiB");
    // Since Linux 6.13 guards need no mappings.
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    let mut numbers = release.split(['.', '-']).map_while(|word| word.parse::<u32>().ok());
    if (numbers.next(), numbers.next()) >= (Some(6), Some(13)) {
        assert!(mappings < 10, "{mappings}");
    }
}

#[test]
fn a_wrong_number_of_slots_does_not_take_all_memory() {
    if !is_masu() {
        return;
    }
    let outcome = run("has_page_tables", "guard:1/1,guard_slots:4000000000,verbose:1").run();
    assert!(outcome.status.success(), "{}", outcome.describe());
    let said = &outcome.stderr;
    assert!(said.contains("guard_slots: limited to 1048576\n"), "{}", outcome.describe());
    // The list of options shows what is in force.
    assert!(said.contains("masu:   guard_slots         1048576     MASU_CONF\n"), "{said}");
    let &[kib] = &numbers(&outcome)[..] else { panic!("{}", outcome.describe()) };
    assert!(kib < 64 << 10, "{kib} KiB");
}

#[test]
fn a_kernel_without_guard_regions_will_do() {
    if !is_masu() {
        return;
    }
    let inject = "inject=madvise:error=EINVAL";
    let through = |case, configuration| {
        run(case, configuration).through("strace", &["-f", "-o", "/dev/null", "-e", inject]).run()
    };
    let outcome = through("reads_freed", "guard:1/1");
    assert!(outcome.stderr.contains("which was freed"), "{}", outcome.describe());
    let outcome = through("has_a_thousand", "guard:1/1").success();
    assert!(numbers(&outcome).first() == Some(&128), "{}", outcome.describe());
}

#[test]
fn programs_that_lock_their_memory_notice_nothing() {
    for case in ["locks_blocks", "locks_all"] {
        for configuration in ["guard:1/1,guard_slots:16", "policy:hardened"] {
            let outcome = run(case, configuration).run().success();
            assert_eq!(outcome.stderr, "", "{case}, {configuration}");
        }
    }
}

#[test]
fn programs_without_mistakes_notice_nothing() {
    for configuration in ["guard:1/1", "guard:1/10", "guard:1/100,prof:on,prof_rate:10000"] {
        let outcome = run("works_without_mistakes", configuration).run().success();
        assert!(outcome.stdout.ends_with("done\n"), "{}", outcome.describe());
        assert_eq!(outcome.stderr, "");
    }
}

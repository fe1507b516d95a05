//! A hardened process: mistakes end it as promised, and a program without mistakes notices nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use masu_tests::{Compile, Program, Run, cells, document, is_masu, long, workspace};

const HARDENED: &str = "policy:hardened";

fn mistakes() -> Program {
    let program = Compile::c("mistakes/mistakes.c").file("mistakes/calls.c");
    program.file("mistakes/accesses.c").flags(["-O1", "-w", "-lstdc++"]).build()
}

/// What `mistakes.c` promises of each of its cases, by default and in a hardened process.
fn promises(program: &Program) -> BTreeMap<String, [String; 2]> {
    let list = Run::program(program).arg("--list").bare().run().success().stdout;
    let promise = |line: &str| {
        let (rest, hardened) = line.rsplit_once(' ')?;
        let (case, default) = rest.rsplit_once(' ')?;
        Some((case.to_owned(), [default, hardened].map(str::to_owned)))
    };
    list.lines().filter_map(promise).collect()
}

/// Every case of `tests/mistakes`, more than a thousand, ends as its list promises; and `least` are stopped, a few fewer
/// than the table says, since some depend on what is drawn.
fn ends_as_promised(configuration: &str, column: usize, mut least: usize) {
    if !is_masu() {
        return;
    }
    let program = mistakes();
    let promises = promises(&program);
    let run = Run::program(&program).arg("--all").env("MASU_CONF", configuration);
    let ends = run.timeout(Duration::from_secs(600)).run().success().stdout;
    assert_eq!(ends.lines().count(), promises.len());
    let mut stopped = 0;
    for line in ends.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let case = words[..3].join(" ");
        // A program that stands still is not stopped.
        let is_stopped = !["on", "reported", "Alarm clock"].contains(&words[3]);
        match &*promises[&case][column] {
            "none" => assert_eq!(words[3], "on", "{case}"),
            "promised" => assert!(is_stopped, "{case}: {}", words[3]),
            // The least is that of a kernel with guards.
            "unguarded" => least -= usize::from(!is_stopped),
            _ => {}
        }
        stopped += usize::from(is_stopped);
    }
    println!("{stopped} of {}", promises.len());
    assert!(stopped >= least, "{stopped}, {least} at least");
}

#[test]
fn every_mistake_that_is_promised_is_stopped_by_default() {
    ends_as_promised("policy:default", 0, 776);
}

#[test]
fn every_mistake_that_is_promised_is_stopped_hardened() {
    ends_as_promised(HARDENED, 1, 1015);
}

#[test]
fn every_mistake_that_is_promised_is_stopped_in_debug_mode() {
    ends_as_promised("policy:debug", 1, 1070);
}

#[test]
fn the_mistakes_are_as_many_as_the_documents_say() {
    let cases = promises(&mistakes());
    let all = cases.len();
    let wrong = cases.keys().filter(|case| !case.starts_with("none ")).count();
    for (page, said) in [
        (
            "docs/hardened.md",
            format!("Of the {all} programs in `tests/mistakes`, {wrong} of them with a mistake, "),
        ),
        ("tests/mistakes/stopped.md", format!("| **all but `none`** | **{wrong}** |")),
    ] {
        assert!(document(page).contains(&said), "{page} does not say: {said}");
    }
}

/// What the documents say of the programs in `mistakes.c` is what their table counts, or a range around it where that
/// depends on what is drawn.
#[test]
fn the_mistakes_that_are_stopped_are_counted_right() {
    let table =
        std::fs::read_to_string(workspace().join("tests/mistakes/stopped.md")).expect("a table");
    let table = table.replace('*', "");
    let rows: Vec<_> = table.lines().filter(|line| line.starts_with('|')).map(cells).collect();
    let named = |name| rows.iter().find(|row| row[0] == name).expect("such a row");
    let (names, sums, reports) = (&rows[0], named("all but `none`"), named("reported"));
    let of = |name: &str| &*sums[names.iter().position(|cell| cell == name).expect(name)];
    let (all, masu, glibc) = (of("programs"), of("masu"), of("glibc"));
    let number = |said: &str| said.parse::<u32>().expect("a number");
    let reported = &*reports[names.iter().position(|cell| cell == "masu").expect("masu")];
    assert_eq!(reported, "0", "masu goes on after a mistake");
    assert!(number(masu) >= number(glibc), "fewer than glibc stops are stopped");
    let pages = ["SECURITY.md", "ARCHITECTURE.md", "docs/hardened.md"].map(document);
    for (page, before, after) in [
        (0, format!("the {all} mistakes in `tests/mistakes` | {masu} (glibc: {glibc}) | | "), " |"),
        (
            1,
            format!("the {all} programs of `tests/mistakes/run` masu stops {masu}, hardened "),
            " d",
        ),
        (2, format!("{all} of them with a mistake, this policy stops "), ", d"),
        (
            2,
            format!("| mistakes stopped, of {all} ([table](../tests/mistakes/stopped.md)) | "),
            " |",
        ),
    ] {
        let rest = pages[page].split_once(&before).unwrap_or_else(|| panic!("no: {before}")).1;
        let range = rest.split_once(after).expect("a range").0;
        let (least, most) = range.split_once(" to ").unwrap_or((range, range));
        let range = least.parse::<u32>().expect(range)..=most.parse().expect(range);
        assert!(range.contains(&number(of("hardened"))), "{before}{range:?}");
    }
    let others = format!("{}, light {}", of("hardened_malloc"), of("hardened_malloc-light"));
    for said in [
        format!(" random placement, and glibc {glibc}."),
        format!(" | {others} | {} | | | | {glibc} |", of("scudo")),
    ] {
        assert!(pages.iter().any(|page| page.contains(&said)), "no page says: {said}");
    }
}

/// The programs of `outcomes.c` end as the committed table says; hardened, each ends as it should.
#[test]
fn programs_end_as_the_table_says() {
    if !is_masu() {
        return;
    }
    let program = Compile::c("mistakes/outcomes.c").flags(["-O1", "-w", "-lstdc++"]).build();
    let list = Run::program(&program).arg("--list").bare().run().success().stdout;
    let should: Vec<(&str, &str)> = list.lines().filter_map(|line| line.split_once(' ')).collect();
    let table = std::fs::read_to_string(workspace().join("tests/mistakes/outcomes.md"));
    let table = table.expect("the table");
    let mut rows = table.lines().filter(|line| line.starts_with("| ")).map(|line| {
        let cells: Vec<&str> = line.trim_matches(['|', ' ']).split(" | ").collect();
        (
            cells[0].trim_matches('`').to_owned(),
            cells[2..].iter().map(|c| (*c).to_owned()).collect(),
        )
    });
    let (_, names): (String, Vec<String>) = rows.next().expect("a head");
    let rows: BTreeMap<String, Vec<String>> = rows.collect();
    assert!(should.len() > 60 && rows.len() == should.len() + 1, "{} rows", rows.len());
    for (name, configuration) in
        [("masu", "policy:default"), ("hardened", HARDENED), ("debug", "policy:debug")]
    {
        let run = Run::program(&program).arg("--all").env("MASU_CONF", configuration);
        let ends = run.timeout(Duration::from_secs(120)).run().success().stdout;
        let column = names.iter().position(|column| column == name).expect("a column");
        for (line, (case, should)) in ends.lines().zip(&should) {
            let end = line.strip_prefix(case).expect("in the same order").trim();
            let plain = should.trim_end_matches('+');
            let sooner =
                end == "fault" && plain != "fault" && (plain == "abort" || plain != *should);
            if (name, *case) == ("debug", "text_without_end") {
                // What lies after a block between guards depends on which side was drawn.
                continue;
            }
            let cell = if end == plain || sooner { "." } else { end };
            assert_eq!(cell, rows[*case][column], "{configuration}: {case}");
            assert!(name != "hardened" || cell == ".", "{case}: {end}");
        }
        assert_eq!(ends.lines().count(), should.len());
    }
}

#[test]
fn a_line_says_what_was_found() {
    if !is_masu() {
        return;
    }
    let program = mistakes();
    for (case, size, says) in [
        ("double_free_at_once", "100", "double free of 0x"),
        ("double_free_at_once", "262144", "double free of 0x"),
        ("free_by_16", "100", "it points 16 bytes into the block of 100 bytes at 0x"),
        ("overflow_1", "100", "the block of 100 bytes was written to 1 byte beyond its end"),
        ("overflow_in_slack", "20000", "of 20000 bytes was written to 1 byte beyond its end"),
        ("underflow", "100", "memory just before the block of up to"),
        ("write_after_free_all", "5000", "was written to after it was freed"),
        ("free_on_another_stack", "8", "and there is no other allocator"),
        ("delete_too_small", "100", "the size given is 25 bytes, but the block has 100"),
    ] {
        let run = Run::program(&program).args([case, size, "0"]).env("MASU_CONF", HARDENED);
        let outcome = run.run().killed_by(6);
        assert!(outcome.stderr.contains(says), "{case}: {}", outcome.describe());
    }
}

/// In its pages, or to where they move.
#[test]
fn a_write_beyond_a_large_block_is_found_when_it_grows() {
    if !is_masu() {
        return;
    }
    let program = Compile::c("c/outgrown.c").flags(["-w", "-fno-builtin"]).build();
    for more in ["200100", "400000", "40000000"] {
        let run = || Run::program(&program).args(["200000", more]);
        let ends = run().env("MASU_CONF", HARDENED).run().killed_by(6).stderr;
        let says = "the block of 200000 bytes was written to 1 byte beyond its end";
        assert!(ends.contains(says), "{more}: {ends}");
        let goes_on = run().env("MASU_CONF", "policy:hardened,on_error:report").run().success();
        assert_eq!((goes_on.stderr.matches(says).count(), &*goes_on.stdout), (1, "0\n"), "{more}");
    }
}

/// Though a slot that has no pages is not looked at.
#[test]
fn a_write_to_a_block_whose_pages_went_back_is_found_when_its_slot_is_reused() {
    if !is_masu() {
        return;
    }
    let program = Compile::c("c/stale.c").flags(["-w", "-fno-builtin"]).build();
    for size in ["5000", "20000"] {
        let outcome = Run::program(&program).arg(size).env("MASU_CONF", HARDENED).run();
        let outcome = outcome.killed_by(6);
        let says = "was written to after it was freed";
        assert!(outcome.stderr.contains(says), "{size} bytes: {}", outcome.describe());
    }
}

/// The mistake is reported and survived if the configuration asks for that.
#[test]
fn mistakes_can_be_survived() {
    if !is_masu() {
        return;
    }
    let program = mistakes();
    for case in ["double_free_at_once", "free_by_16", "overflow_1", "size_after_free"] {
        let run = Run::program(&program).args([case, "100", "0"]);
        let outcome = run.env("MASU_CONF", "policy:hardened,on_error:report").run().success();
        assert!(outcome.stderr.starts_with("masu: "), "{case}: {}", outcome.describe());
    }
}

/// A child's addresses reveal nothing about its siblings', though the parent had one thread and needed no fork handlers.
#[test]
fn children_draw_numbers_of_their_own() {
    if !is_masu() {
        return;
    }
    let program = Compile::c("c/children.c").build();
    for more in ["", ",background_thread:off"] {
        let run = Run::program(&program).env("MASU_CONF", format!("{HARDENED}{more}"));
        let outcome = run.run().success();
        let sums: BTreeSet<&str> = outcome.stdout.lines().collect();
        assert_eq!(sums.len(), 3, "{}", outcome.describe());
    }
}

#[test]
fn under_a_limit_on_addresses_a_program_starts_all_the_same() {
    if !is_masu() {
        return;
    }
    let program = Compile::c("c/hello.c").build();
    for (kib, off) in [("100000", true), ("400000", false), ("2000000", false), ("20000000", false)]
    {
        let limit = format!("ulimit -v {kib}; exec \"$0\" \"$@\"");
        let run = Run::program(&program).through("sh", &["-c", &limit]);
        let outcome = run.env("MASU_CONF", HARDENED).run().success();
        let said = if off { "masu: warning: hardened: no address space" } else { "" };
        assert!(outcome.stderr.starts_with(said), "{kib} KiB: {}", outcome.describe());
        assert_eq!(outcome.stderr.is_empty(), !off, "{kib} KiB: {}", outcome.describe());
    }
}

/// Without `getrandom`, without guard regions and without more address space.
#[test]
fn a_kernel_that_refuses_will_do() {
    if !is_masu() {
        return;
    }
    let program = mistakes();
    for inject in ["inject=getrandom:error=EPERM", "inject=madvise:error=EINVAL"] {
        let through = ["-f", "-o", "/dev/null", "-e", inject];
        let run = |case: &str| {
            let run = Run::program(&program).args([case, "100", "0"]).through("strace", &through);
            run.env("MASU_CONF", HARDENED).run()
        };
        assert!(run("none").success().stdout.contains("went on"), "{inject}");
        assert!(run("overflow_1").stderr.contains("beyond its end"), "{inject}");
    }
}

/// A process can have 65,530 mappings. 10 GiB of blocks of any size, half of them freed in between, need few of them,
/// even where the kernel cannot guard without mappings.
#[test]
fn ten_gigabytes_take_few_mappings() {
    if !is_masu() {
        return;
    }
    let program = Compile::c("c/mappings.c").build();
    let strace = |run: Run| {
        // The first call finds out whether it can.
        let inject = "inject=madvise:error=EINVAL:when=1";
        let words = ["-f", "--seccomp-bpf", "-o", "/dev/null", "-e", "trace=madvise", "-e", inject];
        run.through("strace", &words)
    };
    let sizes = [16_384, 131_072, 132_096, 262_144, 1_048_576, 4_194_304, 67_108_864];
    for size in sizes {
        let is_in_slabs = size <= 131_072;
        // Slabs fill their memory, which is gigabytes: a quarter of it shows the same.
        let all = (10_usize << 30) / if is_in_slabs && !long() { 4 } else { 1 };
        // As documented, and what a program has anyway.
        let most = if is_in_slabs { [200, 2_500] } else { [8_000, 24_000] };
        for (most, marked) in most.into_iter().zip([true, false]) {
            let run = Run::program(&program).args([size.to_string(), all.to_string()]);
            let run = run.env("MASU_CONF", HARDENED);
            let run = if marked { run } else { strace(run) };
            let said = run.timeout(Duration::from_secs(120)).run().success().stdout;
            let mappings: usize = said.trim().parse().expect("a number");
            println!("{size} bytes, marks {marked}: {mappings} mappings");
            assert!(mappings < most, "{size} bytes: {mappings} mappings, {most} at most");
        }
    }
}

/// Whoever owns the block, and wherever it lies.
#[test]
fn two_threads_that_free_one_block_at_once_are_always_seen() {
    const ROUNDS: &str = "1250";
    if !is_masu() {
        return;
    }
    let program = Compile::c("c/free_at_once.c").flags(["-O1", "-w", "-pthread"]).build();
    for size in ["40", "5000", "20000", "300000"] {
        for owned in ["0", "1"] {
            let run = Run::program(&program).args([size, ROUNDS, owned]).env("MASU_CONF", HARDENED);
            let unseen = run.timeout(Duration::from_secs(120)).run().success().stdout;
            assert_eq!(unseen.trim(), "0", "{size} bytes, of {ROUNDS} races");
        }
    }
}

//! Mistakes of the program: what masu says about them, and whether the program goes on.

mod common;

use std::sync::LazyLock;

use masu_tests::{Outcome, Program, case, is_masu};

fn program() -> &'static Program {
    static PROGRAM: LazyLock<Program> = LazyLock::new(|| common::c_program("diagnostics"));
    &PROGRAM
}

masu_tests::cases! {
    program;
    sizes_and_alignments_that_are_right;
    apart:
    pointers_into_blocks_do_no_harm_to_others,
    usable_size_of_foreign_pointers_is_zero,
    double_free_of_16_bytes,
    double_free_of_100_bytes,
    double_free_of_1000_bytes,
    double_free_of_8000_bytes,
    double_free_of_40000_bytes,
    double_free_of_3_mib,
    realloc_of_freed_300000_bytes,
    realloc_of_freed_3_mib,
    double_free_by_another_thread,
    double_free_by_two_threads_at_once,
    a_link_becomes_garbage,
    a_link_becomes_nothing,
    a_link_leads_to_a_live_block,
    a_link_leads_to_another_span,
    half_a_link_is_overwritten,
    an_own_link_leads_to_a_live_block,
    an_own_link_leads_to_another_span,
    an_own_link_leads_into_a_live_block,
    an_own_link_leads_to_the_stack,
    an_own_mark_is_overwritten,
    blocks_of_the_c_library_go_back_to_it,
    freeing_foreign_pointers_is_survived,
    reallocating_foreign_pointers_is_survived,
    a_mapping_may_be_another_allocators,
    a_mapping_beside_a_second_namespace,
    double_free_where_sigabrt_is_blocked,
    double_free_where_sigabrt_is_ignored,
    double_free_where_a_handler_of_sigabrt_returns,
    free_of_a_small_number,
    free_of_a_wild_number,
    free_of_an_uneven_address,
    free_of_a_local,
    free_of_a_variable,
    free_of_a_constant,
    free_of_the_c_library,
    free_of_unmapped_memory,
    free_of_a_mapping,
    realloc_of_a_mapping,
    free_inside_a_medium_block,
    free_inside_a_huge_block,
    free_inside_a_small_block,
    double_free_of_a_small_block,
    realloc_of_a_freed_small_block,
    double_free_of_a_medium_block,
    double_free_of_a_huge_block,
    realloc_of_a_freed_medium_block,
    realloc_inside_a_medium_block,
    realloc_of_a_variable,
    size_of_a_freed_medium_block,
    size_of_a_freed_small_block,
    size_inside_a_small_block,
    size_inside_a_huge_block,
    delete_with_too_large_a_size,
    delete_with_too_small_a_size,
    delete_of_a_huge_block_with_a_small_size,
    delete_with_an_alignment_it_lacks,
    delete_with_too_large_a_size_and_alignment,
}

/// What masu says about each mistake; `…` stands for what varies.
const SAID: &[(&str, &str)] = &[
    ("free_of_a_small_number", "free of 0x30: a small number, not an address"),
    ("free_of_a_wild_number", "free of 0xdeadbeefdeadbee0: no program can have this address"),
    ("free_of_an_uneven_address", "free of …: not a multiple of 8, as every block's address is"),
    ("free_of_a_local", "free of …: it points to the stack, to a local variable"),
    ("free_of_a_variable", "free of …: it points into the program's file, to a variable"),
    ("free_of_a_constant", "free of …: it points into the program's file, to a variable"),
    ("free_of_the_c_library", "free of …: it points into …libc.so.6, to a variable"),
    ("free_of_unmapped_memory", "free of …: no memory is mapped there"),
    ("free_of_a_mapping", "free of …: not allocated by masu, and there is no other allocator"),
    (
        "realloc_of_a_mapping",
        "realloc of …: not allocated by masu, and there is no other allocator",
    ),
    (
        "free_inside_a_medium_block",
        "free of …: it points 16 bytes into the block of 20480 bytes at …",
    ),
    (
        "free_inside_a_huge_block",
        "free of …: it points 2097152 bytes into the block of 3145728 bytes at …",
    ),
    ("double_free_of_a_small_block", "double free of …: the block of 112 bytes was freed before"),
    ("realloc_of_a_freed_small_block", "realloc of …: the block of 112 bytes was freed before"),
    (
        "double_free_of_a_medium_block",
        "double free of …: the block of 20480 bytes was freed before",
    ),
    ("double_free_of_a_huge_block", "double free of …: the block was freed before"),
    ("realloc_of_a_freed_medium_block", "realloc of …: the block of 20480 bytes was freed before"),
    (
        "realloc_inside_a_medium_block",
        "realloc of …: it points 16 bytes into the block of 20480 bytes",
    ),
    ("realloc_of_a_variable", "realloc of …: it points into the program's file, to a variable"),
    ("size_of_a_freed_medium_block", "usable size of …: the block of 20480 bytes was freed before"),
    ("size_of_a_freed_small_block", "usable size of …: the block of 112 bytes was freed before"),
    (
        "size_inside_a_small_block",
        "usable size of …: it points 16 bytes into the block of 112 bytes",
    ),
    (
        "size_inside_a_huge_block",
        "usable size of …: it points 4096 bytes into the block of 3145728 bytes",
    ),
    (
        "delete_with_too_large_a_size",
        "sized free of …: the size given is 200 bytes, but the block has 112",
    ),
    (
        "delete_with_too_small_a_size",
        "sized free of …: the size given is 5000 bytes, but the block has 20480",
    ),
    (
        "delete_of_a_huge_block_with_a_small_size",
        "sized free of …: the size given is 100 bytes, but the block has 3145728",
    ),
    (
        "delete_with_an_alignment_it_lacks",
        "aligned free of …: the alignment given is 64, but the address is not a multiple of it",
    ),
    (
        "delete_with_too_large_a_size_and_alignment",
        "sized free of …: the size given is 30000 bytes, but the block has 20480",
    ),
];

/// Whether `line` begins with `pattern`, in which `…` stands for anything.
fn begins(line: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    parts.all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

/// Since glibc 2.35, masu can find out which file an address is from.
fn names_files() -> bool {
    // SAFETY: a name that ends in a zero byte.
    !unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) }.is_null()
}

/// The mistakes and sentences that masu can tell on this C library.
fn said() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    SAID.iter().filter(|(_, sentence)| {
        let needs = ["it points into the p", "libc.so", "no other allocator"];
        names_files() || !needs.iter().any(|part| sentence.contains(part))
    })
}

#[test]
fn each_mistake_ends_the_program_with_its_own_sentence() {
    if !is_masu() {
        println!("only masu is held to this");
        return;
    }
    for (name, sentence) in said() {
        // The program aborts whether or not the message is shown.
        let outcome =
            case(program(), name).env("MASU_SHOW_ERRORS", "0").run().killed_by(libc::SIGABRT);
        says_one_line(&outcome);
        assert!(!outcome.stdout.contains("went on"), "{}", outcome.describe());
        let line = outcome.stderr.strip_prefix("masu: ").unwrap_or_default();
        assert!(begins(line, sentence), "{name}: {}", outcome.describe());
    }
}

#[test]
fn reported_mistakes_leave_the_program_alive_and_its_heap_whole() {
    if !is_masu() {
        println!("only masu is held to this");
        return;
    }
    for (name, sentence) in said() {
        let run = |then| case(program(), name).env("MASU_ON_ERROR", then);
        let outcome = run("report").run().success();
        says_one_line(&outcome);
        assert!(begins(outcome.stderr.trim_start_matches("masu: "), sentence), "{name}");
        assert!(outcome.stdout.contains("went on"), "{}", outcome.describe());
        for quiet in [run("ignore"), run("report").env("MASU_SHOW_ERRORS", "0")] {
            let outcome = quiet.run().success();
            assert!(outcome.stdout.contains("went on"), "{}", outcome.describe());
            assert_eq!(outcome.stderr, "", "{name}");
        }
    }
}

/// As `abort` does.
#[test]
fn a_mistake_ends_the_program_whatever_it_does_about_sigabrt() {
    if !is_masu() {
        println!("only masu is held to this");
        return;
    }
    for done in ["sigabrt_is_blocked", "sigabrt_is_ignored", "a_handler_of_sigabrt_returns"] {
        case(program(), &format!("double_free_where_{done}")).run().killed_by(libc::SIGABRT);
    }
}

/// A free inside a small block is found only once the pointer is on the list of free blocks.
#[test]
fn a_free_inside_a_small_block_ends_the_program_whatever_was_asked_for() {
    if !is_masu() {
        println!("only masu is held to this");
        return;
    }
    for then in ["abort", "report", "ignore"] {
        let case = case(program(), "free_inside_a_small_block").env("MASU_ON_ERROR", then);
        let outcome = case.run().killed_by(libc::SIGABRT);
        says_one_line(&outcome);
        let line = outcome.stderr.trim_start_matches("masu: ");
        let sentence = "free of …: it points 16 bytes into the block of 112 bytes at …";
        assert!(begins(line, sentence), "{}", outcome.describe());
    }
}

/// Two threads that free a block at the same moment see no mark. Whoever sends the block or takes it in finds that its
/// chain is broken.
#[test]
fn a_double_free_by_two_threads_at_once_ends_the_program() {
    if !is_masu() {
        println!("only masu is held to this");
        return;
    }
    a_broken_chain_ends("double_free_by_two_threads_at_once");
}

/// It is also broken if the program wrote to the link of a block that waits to be sent to its owner.
#[test]
fn a_link_that_the_program_wrote_to_is_not_followed() {
    if !is_masu() {
        println!("only masu is held to this");
        return;
    }
    for name in [
        "a_link_becomes_garbage",
        "a_link_becomes_nothing",
        "a_link_leads_to_a_live_block",
        "a_link_leads_to_another_span",
        "half_a_link_is_overwritten",
    ] {
        a_broken_chain_ends(name);
    }
}

/// No write to a block that its own thread has freed gives a later block a second owner.
#[test]
fn a_link_that_the_program_wrote_to_gives_no_block_twice() {
    if !is_masu() {
        println!("only masu is held to this");
        return;
    }
    for name in [
        "an_own_link_leads_to_a_live_block",
        "an_own_link_leads_to_another_span",
        "an_own_link_leads_into_a_live_block",
        "an_own_link_leads_to_the_stack",
        "an_own_mark_is_overwritten",
    ] {
        let outcome = case(program(), name).run().killed_by(libc::SIGABRT);
        says_one_line(&outcome);
        let sentence = "it, or the free block that links to it, was written to after it was freed";
        assert!(outcome.stderr.contains(sentence), "{name}: {}", outcome.stderr);
    }
}

#[track_caller]
fn a_broken_chain_ends(name: &str) {
    let outcome = case(program(), name).run().killed_by(libc::SIGABRT);
    says_one_line(&outcome);
    let sentence = "double free of …: the chain of freed blocks starting here is broken";
    let line = outcome.stderr.trim_start_matches("masu: ");
    assert!(begins(line, sentence), "{}", outcome.describe());
}

#[test]
fn blocks_of_the_c_library_go_back_to_it() {
    if !is_masu() || !names_files() || cfg!(target_env = "musl") {
        println!("only masu is held to this, and needs glibc 2.35");
        return;
    }
    let outcome = case(program(), "blocks_of_the_c_library_go_back_to_it").run().success();
    assert!(
        outcome.stdout.contains("went on") && outcome.stderr.is_empty(),
        "{}",
        outcome.describe()
    );
}

/// `docs/mistakes.md` explains every sentence, in a row of its table, with `…` for whatever varies.
#[test]
fn every_sentence_is_explained() {
    let page = std::fs::read_to_string(masu_tests::workspace().join("docs/mistakes.md"))
        .expect("readable");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let explained: Vec<String> = rows.map(plain).collect();
    for (name, sentence) in SAID {
        let said = sentence.split_once(": ").map_or(*sentence, |(_, said)| said);
        let found =
            explained.iter().any(|row| *row == plain(said) || row.starts_with(&plain(said)));
        assert!(
            found || explained.iter().any(|row| plain(said).starts_with(row)),
            "{name}: {said}"
        );
    }
}

/// And so it does every part of a sentence in the engine's code, up to a guess in brackets.
#[test]
fn no_sentence_of_the_engine_is_left_unexplained() {
    let read =
        |path: &str| std::fs::read_to_string(masu_tests::workspace().join(path)).expect(path);
    let code = read("crates/masu-core/src/report.rs");
    let (_, code) = code.split_once("pub fn written_after_free").expect("the first sentence");
    let (code, _) = code.split_once("\nstatic TOLD").expect("what follows the last one");
    let page = masu_tests::words(&read("docs/mistakes.md").replace('`', ""));
    let parts: Vec<&str> = code
        .split('"')
        .skip(1)
        .step_by(2)
        .filter_map(|part| part.split(" (").next())
        .map(|part| part.trim_matches([' ', ':', ';', ',']).trim_end_matches(" of"))
        .filter(|part| part.len() > 8 && !part.starts_with("masu: ") && !part.starts_with('('))
        .collect();
    assert!(parts.len() > 25, "{parts:#?}");
    let missing: Vec<_> = parts.iter().filter(|part| !page.contains(**part)).collect();
    assert!(missing.is_empty(), "docs/mistakes.md does not explain {missing:#?}");
}

/// A sentence without its variable parts.
fn plain(sentence: &str) -> String {
    sentence.replace("libc.so.6", "").replace(|c: char| c.is_ascii_digit() || c == '…', "")
}

#[test]
fn pointers_into_blocks_do_no_harm_to_others() {
    let ignored = case(program(), "pointers_into_blocks_do_no_harm_to_others");
    ignored.env("MASU_ON_ERROR", "ignore").run().success();
}

#[test]
fn usable_size_of_foreign_pointers_is_zero() {
    if is_masu() {
        let ignored = case(program(), "usable_size_of_foreign_pointers_is_zero");
        ignored.env("MASU_ON_ERROR", "ignore").run().success();
    }
}

/// Exactly one line on standard error, which names masu.
#[track_caller]
fn says_one_line(outcome: &Outcome) {
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    assert!(lines.len() == 1 && lines[0].contains("masu"), "{}", outcome.describe());
}

/// It aborts before it goes on. The system's malloc does so too, in its own words.
fn aborts(name: &str) {
    let outcome = case(program(), name).run().killed_by(libc::SIGABRT);
    assert!(!outcome.stdout.contains("went on"), "{}", outcome.describe());
    if is_masu() {
        says_one_line(&outcome);
    }
}

#[test]
fn double_free_of_16_bytes() {
    aborts("double_free_of_16_bytes");
}

#[test]
fn double_free_of_100_bytes() {
    aborts("double_free_of_100_bytes");
}

#[test]
fn double_free_of_1000_bytes() {
    aborts("double_free_of_1000_bytes");
}

#[test]
fn double_free_of_8000_bytes() {
    aborts("double_free_of_8000_bytes");
}

/// For larger blocks it may abort too, or report a foreign pointer and go on; it is never silent.
fn is_noticed(name: &str) {
    let outcome = case(program(), name).run();
    if outcome.status.success() {
        assert!(outcome.stdout.contains("went on") && !outcome.stderr.is_empty());
        if is_masu() {
            says_one_line(&outcome);
        }
    } else {
        aborts(name);
    }
}

#[test]
fn double_free_of_40000_bytes() {
    is_noticed("double_free_of_40000_bytes");
}

#[test]
fn double_free_of_3_mib() {
    is_noticed("double_free_of_3_mib");
}

/// The line says that it was a realloc, whoever else might own the block.
fn says_realloc(name: &str) {
    if !is_masu() {
        println!("only masu is held to this");
        return;
    }
    let outcome = case(program(), name).run().killed_by(libc::SIGABRT);
    says_one_line(&outcome);
    let said = &outcome.stderr;
    assert!(said.starts_with("masu: realloc of ") && said.contains("freed before"), "{said}");
}

#[test]
fn realloc_of_freed_300000_bytes() {
    says_realloc("realloc_of_freed_300000_bytes");
}

#[test]
fn realloc_of_freed_3_mib() {
    says_realloc("realloc_of_freed_3_mib");
}

#[test]
fn double_free_by_another_thread_leaves_a_usable_heap_or_aborts() {
    let outcome = case(program(), "double_free_by_another_thread").run();
    if !outcome.status.success() {
        outcome.killed_by(libc::SIGABRT);
    }
}

/// Only masu promises this; other allocators crash here, and rightly so.
#[test]
fn a_hundred_mistakes_are_told_and_more_survived() {
    if !is_masu() {
        println!("only masu promises this");
        return;
    }
    for (name, lines) in [
        ("freeing_foreign_pointers_is_survived", 100),
        ("reallocating_foreign_pointers_is_survived", 15),
    ] {
        let outcome = case(program(), name).env("MASU_ON_ERROR", "report").run().success();
        assert!(outcome.stdout.contains("went on"), "{}", outcome.describe());
        // More where masu knows that those into mappings are nobody's: otherwise one of them is told.
        let said = outcome.stderr.lines().filter(|line| line.starts_with("masu: ")).count();
        assert!((lines..=lines + 3).contains(&said), "{said}: {}", outcome.describe());
    }
}

/// The program defines `operator new`, or has a second namespace.
#[test]
fn what_may_be_another_allocators_is_reported_once_and_left_alone() {
    if !is_masu() {
        return println!("only masu promises this");
    }
    let program = common::c_program_with_new("diagnostics");
    let may_be = || case(&program, "a_mapping_may_be_another_allocators");
    let run = case(self::program(), "a_mapping_beside_a_second_namespace");
    for outcome in [may_be().run().success(), run.run().success()] {
        says_one_line(&outcome);
        assert!(outcome.stderr.contains("not allocated by masu ("), "{}", outcome.describe());
    }
    let outcome = may_be().env("MASU_POLICY", "hardened").run().killed_by(libc::SIGABRT);
    assert!(outcome.stderr.contains("accepts only its own blocks"), "{}", outcome.describe());
    let quiet = |run: masu_tests::Run| run.env("MASU_SHOW_ERRORS", "false").run();
    let outcome = quiet(may_be()).success();
    assert!(outcome.stderr.is_empty(), "{}", outcome.describe());
    quiet(case(&program, "double_free_of_100_bytes")).killed_by(libc::SIGABRT);
}

//! The jemalloc door: what jemalloc's manual says about its functions, flags, names and errors.
//!
//! The C programs under `tests/c/jemalloc` include the library's own header under jemalloc's path and
//! link against the library. With `MASU_LIB` naming a jemalloc they run on that, which shows that
//! they ask for what jemalloc does (except for profiling and what its versions differ in).

use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use masu_tests::{
    Compile, Outcome, Program, Run, archive, is_masu, library, preload, tool, workspace,
};

/// A C program of the door, linked against the library under test.
fn build(files: &[&str]) -> Program {
    let files = files.iter().map(|file| format!("c/jemalloc/{file}"));
    let compile = Compile::with("gcc").flags(["-std=gnu11", "-I"]).flag(include());
    files.chain(["c/check_main.c".to_owned()]).fold(compile, Compile::file).file(door()).build()
}

/// Where `jemalloc/jemalloc.h` is.
fn include() -> std::path::PathBuf {
    workspace().join("crates/libmasu/include/masu/compat")
}

fn door() -> &'static std::path::Path {
    library().expect("the system's malloc has no such door; name a library by MASU_LIB")
}

mod allocx {
    use super::*;

    fn program() -> &'static Program {
        static PROGRAM: LazyLock<Program> = LazyLock::new(|| build(&["allocx.c", "random.c"]));
        &PROGRAM
    }

    masu_tests::cases! {
        program;
        flags_have_the_values_of_jemalloc,
        mallocx_gives_what_nallocx_says_at_every_alignment,
        mallocx_gives_what_nallocx_says_in_bulk,
        zeroed_blocks_are_zero_to_their_last_usable_byte,
        every_flag_of_caches_and_arenas_is_taken,
        rallocx_keeps_contents_and_alignment_through_growth_and_shrinking,
        rallocx_zeroes_beyond_the_former_usable_size_only,
        rallocx_gains_an_alignment_it_did_not_have,
        xallocx_never_moves_and_returns_the_real_size,
        xallocx_refuses_the_impossible_and_changes_nothing,
        xallocx_zeroes_what_a_block_gains,
        what_is_too_big_is_refused,
        sdallocx_takes_every_size_from_asked_to_usable,
        blocks_of_either_family_are_one_kind;
        // random.c
        apart: any_sequence_keeps_what_was_promised,
        mappings_stay_few_however_blocks_grow_and_shrink
    }

    /// A case of `random.c`. The long form is a day of one operation in a fifth of a second.
    fn random(case: &str) -> Run {
        let operations = if masu_tests::long() { "400000" } else { "6000" };
        let run = masu_tests::case(program(), case).env("OPERATIONS", operations);
        if masu_tests::long() { run.timeout(Duration::from_secs(900)) } else { run }
    }

    fn sequence(seed: u32) -> Run {
        random("any_sequence_keeps_what_was_promised").env("SEED", seed.to_string())
    }

    #[test]
    fn mappings_stay_few_however_blocks_grow_and_shrink() {
        random("mappings_stay_few_however_blocks_grow_and_shrink").run().success();
    }

    #[test]
    fn any_sequence_keeps_what_was_promised() {
        for seed in 1..=4 {
            sequence(seed).run().success();
        }
    }

    /// Some requests failed; otherwise the environment was not as hostile as intended.
    #[track_caller]
    fn some_were_refused(outcome: &Outcome) {
        let refused = outcome.stdout.lines().find_map(|line| line.strip_prefix("refused "));
        let refused: u32 = refused.and_then(|n| n.parse().ok()).expect("a count");
        assert!(refused > 0, "everything could be had");
    }

    /// Blocks stay intact although some requests fail, for lack of addresses or (where every writable page is counted,
    /// as with overcommit forbidden) of memory.
    #[test]
    fn any_sequence_holds_under_limits() {
        for limit in [format!("--as={}", 48 << 20), format!("--data={}", 48 << 20)] {
            some_were_refused(&sequence(5).through("prlimit", &[&limit]).run().success());
        }
    }

    /// Pages that the kernel does not move are copied; memory that it refuses is not available.
    #[test]
    fn any_sequence_holds_whatever_the_kernel_refuses() {
        for refusal in
            ["mremap:error=ENOMEM", "madvise:error=EINVAL", "mmap:error=ENOMEM:when=30+2"]
        {
            let place = masu_tests::scratch();
            let log = place.path().join("log");
            let inject = format!("inject={refusal}");
            let mut run = Run::new("strace").bare();
            run = run.args(["-f", "--seccomp-bpf", "-qq", "-e", &inject, "-o"]).arg(&log);
            for pair in preload().into_iter().chain(["SEED=7".into(), "OPERATIONS=3000".into()]) {
                run = run.args(["-E", &pair]);
            }
            let run = run.arg(program().path()).arg("any_sequence_keeps_what_was_promised");
            run.run().success();
            let log = std::fs::read_to_string(log).expect("strace wrote its log");
            assert!(log.contains("(INJECTED)"), "no call was refused: {refusal}");
        }
    }

    #[test]
    fn any_sequence_holds_with_freed_memory_given_back_at_once() {
        sequence(6).env("MASU_DECAY", "0").run().success();
    }
}

mod growth {
    use super::*;

    fn program() -> &'static Program {
        static PROGRAM: LazyLock<Program> = LazyLock::new(|| build(&["growth.c"]));
        &PROGRAM
    }

    masu_tests::cases! {
        program;
        growing_touches_every_page_once,
        memory_is_back_two_seconds_after_the_last_free;
        apart: memory_is_back_soon_after_the_decay_time_is_shortened,
        growing_again_finds_the_pages_of_the_last_time, growing_never_holds_the_old_and_the_new,
        copying_again_finds_the_pages_of_the_last_time,
        copying_holds_no_more_than_the_block_at_its_end,
        buffers_that_replace_each_other_need_few_fresh_pages
    }

    #[test]
    fn memory_is_back_soon_after_the_decay_time_is_shortened() {
        if !is_masu() {
            return println!("left out: another allocator has a decay time for each arena");
        }
        let case =
            masu_tests::case(program(), "memory_is_back_soon_after_the_decay_time_is_shortened");
        case.env("MASU_CONF", "decay:1h,background_thread:on").run().success();
    }

    /// These cases need memory that does not decay, even on a busy machine.
    fn undecayed(case: &str) {
        masu_tests::case(program(), case).env("MASU_DECAY", "never").run().success();
    }

    #[test]
    fn growing_again_finds_the_pages_of_the_last_time() {
        undecayed("growing_again_finds_the_pages_of_the_last_time");
    }

    #[test]
    fn copying_again_finds_the_pages_of_the_last_time() {
        let case = masu_tests::case(program(), "copying_again_finds_the_pages_of_the_last_time");
        // With huge pages there would be few faults too.
        case.env("MASU_DECAY", "never").env("MASU_HUGE_PAGES", "off").run().success();
    }

    #[test]
    fn copying_holds_no_more_than_the_block_at_its_end() {
        undecayed("copying_holds_no_more_than_the_block_at_its_end");
    }

    #[test]
    fn buffers_that_replace_each_other_need_few_fresh_pages() {
        undecayed("buffers_that_replace_each_other_need_few_fresh_pages");
    }

    #[test]
    fn growing_never_holds_the_old_and_the_new() {
        undecayed("growing_never_holds_the_old_and_the_new");
    }
}

mod mallctl {
    use super::*;

    fn program() -> &'static Program {
        static PROGRAM: LazyLock<Program> =
            LazyLock::new(|| build(&["mallctl.c", "arenas.c", "names.c"]));
        &PROGRAM
    }

    masu_tests::cases! {
        program;
        names_that_may_only_be_read_refuse_to_be_written,
        names_that_do_something_take_no_value,
        names_that_do_not_exist_are_enoent,
        a_wrong_length_is_einval_and_copies_what_fits,
        a_wrong_length_changes_nothing,
        numbers_do_what_names_do,
        a_short_array_gets_the_first_numbers,
        size_classes_can_be_counted_through,
        build_and_options_can_be_read,
        figures_stand_still_between_epochs,
        figures_of_all_arenas_can_be_read,
        metadata_is_the_sum_of_its_parts,
        no_block_is_too_large_for_its_arena,
        threads_have_accounts_of_their_own,
        the_word_of_allocated_bytes_moves_after_one_malloc,
        peaks_can_be_read_and_begun_anew,
        caches_can_be_switched_and_flushed,
        decay_times_can_be_set,
        a_purge_gives_back_what_is_free,
        the_background_thread_can_be_switched,
        a_profile_can_be_taken_at_run_time,
        // arenas.c
        blocks_lie_in_the_arena_that_was_named,
        zeroed_blocks_of_an_arena_are_zero,
        a_reset_arena_can_be_used_again,
        a_pointer_to_no_block_lies_in_no_arena,
        a_destroyed_arena_is_gone_and_its_number_free,
        a_hundred_arenas_and_back,
        there_are_1023_arenas_at_most,
        a_threads_blocks_come_from_the_arena_it_chose,
        an_arena_that_a_thread_has_is_not_destroyed,
        the_common_memory_cannot_be_reset_or_destroyed,
        figures_of_an_arena_can_be_counted_through,
        arena_0_has_what_the_other_arenas_do_not,
        forks_beside_a_thread_that_only_makes_arenas,
        forks_beside_a_thread_that_only_names_its_profiles,
        forks_beside_a_thread_that_only_frees_an_arenas_blocks,
        // names.c
        names_that_programs_use_are_there,
        names_that_masu_treats_differently_do_as_documented,
        blocks_made_and_freed_from_epoch_to_epoch_are_counted;
        apart: every_name_answers, blocks_resized_beside_the_threads_arena_have_the_size_that_was_said
    }

    #[test]
    fn blocks_resized_beside_the_threads_arena_have_the_size_that_was_said() {
        let name = "blocks_resized_beside_the_threads_arena_have_the_size_that_was_said";
        for hardened in ["0", "1"] {
            masu_tests::case(program(), name).env("MASU_HARDENED", hardened).run().success();
        }
    }

    /// The names of the library's table, except for those that do or look up something.
    #[test]
    fn every_name_answers() {
        const DO: [&str; 21] = [
            "thread.peak.reset",
            "thread.tcache.flush",
            "thread.idle",
            "tcache.create",
            "tcache.flush",
            "tcache.destroy",
            "arena.0.decay",
            "arena.0.purge",
            "arena.0.reset",
            "arena.0.destroy",
            "arena.0.name",
            "arena.0.limit",
            "arena.0.allocated",
            "arenas.create",
            "arenas.lookup",
            "experimental.arenas_create_ext",
            "experimental.hooks.safety_check_abort",
            "prof.dump",
            "prof.prefix",
            "prof.reset",
            "masu.prof.dump",
        ];
        let table = workspace().join("crates/libmasu/src/jemalloc/tree.rs");
        let table = std::fs::read_to_string(table).expect("the table");
        let rows = table.lines().filter_map(|line| {
            let (name, answer) = line.trim().strip_prefix('"')?.split_once("\" =")?;
            (!answer.contains("call.neither")).then(|| name.replace('#', "0"))
        });
        let names: Vec<_> = rows.filter(|name| !DO.contains(&&**name)).collect();
        let case = masu_tests::case(program(), "every_name_answers");
        case.env("NAMES", names.join("\n")).run().success();
    }
}

mod agree {
    use super::*;

    fn program() -> &'static Program {
        static PROGRAM: LazyLock<Program> = LazyLock::new(|| build(&["agree.c"]));
        &PROGRAM
    }

    masu_tests::cases! {
        program;
        a_size_is_the_same_grown_into_shrunk_to_and_asked_for,
        the_size_classes_are_those_that_blocks_have,
        xallocx_keeps_small_and_large_apart,
        a_threads_account_is_exact_when_it_reads_it,
        one_query_is_accounted_to_the_byte,
        where_memory_would_come_from_is_kept_and_read_back;
        apart: slab_sizes_stay_as_they_are
    }

    #[test]
    fn slab_sizes_stay_as_they_are() {
        let case = masu_tests::case(program(), "slab_sizes_stay_as_they_are");
        case.env("MALLOC_CONF", "slab_sizes:1-4096:17|100-200:1|128-128:2").run().success();
    }
}

#[path = "jemalloc_door/hooks.rs"]
mod hooks;

#[path = "jemalloc_door/infallible.rs"]
mod infallible;

#[path = "jemalloc_door/print.rs"]
mod print;

#[path = "jemalloc_door/prof.rs"]
mod prof;

#[path = "jemalloc_door/profiled.rs"]
mod profiled;

mod extras {
    use super::*;

    fn program() -> &'static Program {
        static PROGRAM: LazyLock<Program> = LazyLock::new(|| build(&["extras.c"]));
        &PROGRAM
    }

    masu_tests::cases! {
        program;
        batches_come_whole_and_go_whole,
        a_heap_is_limited_counted_and_destroyed,
        blocks_move_into_a_heap,
        limits_are_read_as_they_were_set,
        a_wrong_length_changes_no_setting,
        a_block_is_resized_where_it_is_or_not_at_all,
        a_heap_gives_back_what_is_free,
        the_footprint_follows_what_is_in_use,
        every_class_in_use_is_inspected
    }
}

mod conf {
    use super::*;

    #[test]
    fn the_programs_string_counts_until_the_environment_speaks() {
        let program = build(&["conf.c"]);
        let run = || masu_tests::case(&program, "the_programs_string_counts");
        run().run().success();
        run().env("MALLOC_CONF", "dirty_decay_ms:4").env("EXPECTED", "4").run().success();
    }

    #[test]
    fn the_environment_takes_back_the_programs_profile() {
        if !is_masu() {
            return;
        }
        let program = build(&["conf_prof.c"]);
        let run = || masu_tests::case(&program, "the_programs_profile_counts");
        run().run().success();
        for conf in ["prof:false", "prof_active:false"] {
            run().env("MALLOC_CONF", conf).env("TAKEN_BACK", "1").run().success();
        }
    }

    #[test]
    fn the_rate_that_the_environment_sets_stays() {
        if !is_masu() {
            return;
        }
        let program = build(&["conf_prof.c"]);
        let name = "the_rate_stays_when_the_profile_is_switched_off_and_on";
        masu_tests::case(&program, name).env("MASU_PROF_RATE", "64KiB").run().success();
    }
}

mod detect {
    use super::*;

    fn program() -> &'static Program {
        static PROGRAM: LazyLock<Program> =
            LazyLock::new(|| Compile::c("c/jemalloc/detect.c").file("c/check_main.c").build());
        &PROGRAM
    }

    masu_tests::cases! {
        program;
        all_ten_functions_are_found_and_the_word_moves,
        the_word_moves_however_busy_the_thread_was
    }
}

#[test]
fn a_cxx_program_for_jemalloc_builds_and_runs_unchanged() {
    for standard in ["-std=c++17", "-std=c++20"] {
        let compile = Compile::with("g++").flags([standard, "-I"]).flag(include());
        let program = compile.file("cxx/jemalloc.cc").file(door()).build();
        assert_eq!(Run::program(&program).run().success().stdout, "ok\n");
    }
}

/// Functions, flags and names in a static program that has the whole archive linked in.
#[test]
fn the_door_of_a_static_program() {
    if !is_masu() {
        println!("only masu's archive is at hand");
        return;
    }
    let files = ["allocx.c", "mallctl.c", "arenas.c", "names.c", "print.c"];
    let sources = files.map(|file| format!("c/jemalloc/{file}"));
    let compile = Compile::c("c/check_main.c").flag("-static").flag("-I").flag(include());
    let program = sources.into_iter().fold(compile, Compile::file);
    let program = program.file(archive().expect("an archive")).build();
    // The cases left out are run elsewhere, in environments of their own.
    let mut cases = masu_tests::case_list(&program);
    cases.retain(|case| case != "every_name_answers" && !case.starts_with("conf_"));
    assert!(cases.len() > 40, "{cases:?}");
    Run::program(&program).bare().args(cases).run().success();
}

/// The headers that users compile against are plain C and plain C++, by themselves.
#[test]
fn the_headers_compile_alone_as_c_and_as_cxx() {
    let prefixed = "-DMASU_JEMALLOC_NAME(name)=je_##name";
    let headers: [(&str, &[&str]); 2] = [
        ("compat/jemalloc/jemalloc.h", &["-DX", "-DJEMALLOC_NO_RENAME", prefixed]),
        ("masu.h", &["-DX"]),
    ];
    for (header, defines) in headers {
        let header = workspace().join("crates/libmasu/include/masu").join(header);
        for standard in ["-std=c99", "-std=gnu17", "-std=c++11", "-std=c++20"] {
            let language = if standard.contains("++") { "c++" } else { "c" };
            for define in defines {
                let mut command = Command::new("gcc");
                command.args(["-x", language, standard, define]);
                command.args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]).arg(&header);
                let output = command.output().expect("a compiler");
                let errors = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{command:?}: {errors}");
            }
        }
    }
}

/// Debian's redis asks jemalloc's functions for its figures: `MEMORY MALLOC-STATS` says whose they are.
#[test]
fn redis_is_told_who_answers() {
    if !is_masu() {
        return println!("left out: this is not masu");
    }
    let place = masu_tests::scratch();
    let socket = place.path().join("socket");
    let mut redis = Command::new(tool("redis-server"));
    redis.args(["--port", "0", "--save", "", "--daemonize", "no", "--logfile", "log"]);
    redis.arg("--unixsocket").arg(&socket).current_dir(place.path()).env("LD_PRELOAD", door());
    let mut redis = redis.spawn().unwrap();
    let ask = || {
        Command::new(tool("redis-cli"))
            .arg("-s")
            .arg(&socket)
            .args(["memory", "malloc-stats"])
            .output()
    };
    let mut said = String::new();
    for _ in 0..100 {
        said = String::from_utf8_lossy(&ask().unwrap().stdout).into_owned();
        if said.contains("Begin jemalloc") {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    redis.kill().unwrap();
    redis.wait().unwrap();
    let second = said.lines().nth(1).unwrap_or_default();
    assert!(second.starts_with("These are masu's ("), "{said:.300}");
}

//! Tests of the tests: each case is seen to fail.
//!
//! `c/faults.c` is an allocator with one planted fault, over the system's malloc. Every case
//! of the C and C++ programs must pass on it without the fault and fail with the one named
//! here. None of this looks at masu, so it runs where the suite itself is validated, with
//! `MASU_LIB=none`.

mod common;

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use masu_tests::{Compile, Program, case, case_list, library};

/// A fault, and the cases that must find it.
type Plan = [(&'static str, &'static [&'static str])];

fn faults() -> &'static Program {
    static SHIM: LazyLock<Program> =
        LazyLock::new(|| Compile::c("c/faults.c").flags(["-shared", "-fPIC"]).build());
    &SHIM
}

/// Every planned case passes without its fault and fails with it; and all cases are planned,
/// except for those listed, which no allocator over glibc's malloc can pass.
fn all_are_found(
    program: &Program,
    plan: &Plan,
    impossible: &[&str],
    environment: &[(&str, &str)],
) {
    if library().is_some() {
        println!("the suite is validated with MASU_LIB=none");
        return;
    }
    let planned: BTreeSet<&str> = plan.iter().flat_map(|(_, cases)| *cases).copied().collect();
    let listed = case_list(program);
    let listed = listed.iter().map(String::as_str).filter(|name| !impossible.contains(name));
    assert_eq!(planned, listed.collect(), "cases with a planned fault, and cases");
    let run = |name: &str, fault: &str, seconds| {
        let mut run = case(program, name).bare().env("LD_PRELOAD", faults().path());
        for (key, value) in environment {
            run = run.env(key, value);
        }
        run.env("MASU_TEST_FAULT", fault).timeout(Duration::from_secs(seconds)).run()
    };
    for name in &planned {
        run(name, "none", 60).success();
    }
    let mut unseen = Vec::new();
    for (fault, cases) in plan {
        for name in *cases {
            // A fault that makes the case hang is one that it sees.
            let outcome = run(name, fault, 12);
            if outcome.status.success() || outcome.status.code() == Some(77) {
                unseen.push(format!("{name} does not see {fault}"));
            }
        }
    }
    assert!(unseen.is_empty(), "{unseen:#?}");
}

#[test]
fn of_the_core() {
    let program = common::core(Compile::with("gcc").flag("-std=gnu11")).build();
    let plan: &Plan = &[
        (
            "misaligned",
            &[
                "malloc_aligns_every_size_to_16",
                "calloc_aligns_every_size_to_16",
                "small_sizes_keep_their_alignment_in_bulk",
            ],
        ),
        ("one-empty-block", &["malloc_zero_gives_distinct_blocks"]),
        ("overlap", &["live_blocks_never_overlap", "usable_ranges_never_overlap"]),
        (
            "calloc-is-dirty",
            &[
                "calloc_zeroes_recycled_memory",
                "calloc_zeroes_memory_recycled_from_other_sizes",
                "calloc_zeroes_memory_that_was_purged",
                "calloc_zeroes_memory_after_a_pause",
            ],
        ),
        ("no-enomem", &["impossible_sizes_fail_with_enomem"]),
        ("impossible-succeeds", &["more_than_the_address_space_fails_with_enomem"]),
        ("no-overflow-check", &["calloc_overflow_fails_with_enomem", "reallocarray_multiplies"]),
        ("free-sets-errno", &["free_preserves_errno"]),
        ("success-sets-errno", &["success_leaves_errno_alone"]),
        ("sized-free-leaks", &["every_way_to_free_takes_every_block"]),
        ("usable-of-null", &["usable_size_of_null_is_zero"]),
        (
            "usable-too-little",
            &[
                "usable_size_covers_the_request_and_is_writable",
                "usable_size_holds_for_every_way_to_allocate",
            ],
        ),
        ("usable-too-much", &["usable_ranges_never_overlap"]),
        ("usable-drifts", &["usable_size_stays_the_same_while_others_come_and_go"]),
        (
            "memalign-is-16",
            &[
                "posix_memalign_gives_every_alignment_to_2_mib",
                "posix_memalign_keeps_alignment_among_many_live_blocks",
                "aligned_alloc_takes_any_size",
                "memalign_gives_every_alignment",
                "valloc_and_pvalloc_give_whole_pages",
                "aligned_and_plain_blocks_mix",
            ],
        ),
        (
            "any-alignment-will-do",
            &[
                "posix_memalign_refuses_bad_alignments_and_leaves_the_pointer",
                "aligned_alloc_refuses_what_is_not_a_power_of_two",
            ],
        ),
        (
            "failure-writes-pointer",
            &[
                "posix_memalign_refuses_bad_alignments_and_leaves_the_pointer",
                "posix_memalign_reports_enomem_and_leaves_the_pointer",
            ],
        ),
        (
            "realloc-spoils-the-end",
            &[
                "aligned_blocks_grow_and_shrink_like_others",
                "realloc_to_the_usable_size_keeps_all_of_it",
                "realloc_keeps_content_at_every_small_step",
                "realloc_keeps_content_from_1_byte_to_64_mib_and_back",
                "realloc_keeps_content_by_1_percent_steps",
                "realloc_keeps_content_in_random_jumps_among_neighbours",
                "realloc_keeps_content_when_huge_neighbours_grow_in_turn",
            ],
        ),
        ("realloc-of-null-fails", &["realloc_of_null_is_malloc"]),
        ("realloc-to-zero-leaks", &["realloc_to_zero_frees_or_gives_an_empty_block"]),
        (
            "failed-realloc-spoils",
            &["realloc_failure_leaves_the_block", "calloc_overflow_fails_with_enomem"],
        ),
        ("realloc-copies", &["realloc_of_huge_blocks_moves_no_bytes"]),
        ("statistics-are-zero", &["mallinfo2_counts_what_is_in_use"]),
        ("mallinfo-differs", &["mallinfo_agrees_with_mallinfo2"]),
        ("no-xml", &["malloc_info_writes_xml"]),
        ("silent-statistics", &["malloc_stats_writes_to_stderr"]),
        ("mallopt-is-odd", &["mallopt_answers_for_every_parameter"]),
        ("trim-does-nothing", &["malloc_trim_gives_memory_back"]),
        ("realloc-spoils-the-middle", &["what_libc_allocates_is_freed_here"]),
    ];
    all_are_found(&program, plan, &["the_heap_of_libc_stays_untouched"], &[]);
}

#[test]
fn of_what_glibc_asks_for() {
    let plan: &Plan = &[
        ("impossible-succeeds", &["no_door_gives_more_than_half_the_address_space"]),
        ("posix-memalign-keeps-errno", &["posix_memalign_says_enomem_in_errno_too"]),
        ("misaligned", &["realloc_aligns_every_size_to_16"]),
        ("mallopt-is-odd", &["mallopt_takes_what_programs_set"]),
        (
            "silent-statistics",
            &["malloc_stats_prints_the_lines_that_programs_parse_and_is_no_cancellation_point"],
        ),
        ("no-xml", &["malloc_info_of_many_threads_adds_up"]),
        ("overlap", &["an_obstack_grows_and_is_cut_back"]),
        (
            "free-leaks",
            &[
                "freed_aligned_blocks_serve_again",
                "a_full_heap_refuses_and_an_emptied_one_grows",
                "a_fork_needs_no_room_for_what_was_freed",
            ],
        ),
        ("lock-over-fork", &["signal_handlers_fork_while_malloc_runs"]),
        ("no-enomem", &["every_door_says_enomem_to_threads_that_meet_the_limit"]),
        ("overcommits", &["the_kernel_decides_on_overcommitment"]),
    ];
    all_are_found(&common::c_program("glibc"), plan, &[], &[]);
}

#[test]
fn of_large_blocks() {
    let plan: &Plan = &[
        ("large-is-null", &["sizes_up_to_1_gib_are_usable_at_both_ends"]),
        ("memalign-is-16", &["alignments_up_to_1_gib"]),
        ("realloc-spoils-the-end", &["a_block_of_1_gib_grows_and_shrinks"]),
        ("overlap", &["many_blocks_of_64_mib_live_at_once"]),
    ];
    all_are_found(&common::c_program("large_blocks"), plan, &[], &[]);
}

#[test]
fn of_threads() {
    let plan: &Plan = &[
        (
            "dead-thread-spoils",
            &[
                "blocks_outlive_their_thread",
                "blocks_of_a_dead_thread_can_be_reallocated_by_others",
                "short_lived_threads_free_each_others_blocks",
                "cancelled_threads_clean_up",
            ],
        ),
        (
            "overlap",
            &[
                "threads_free_each_others_blocks",
                "threads_that_work_in_turns_free_each_others_blocks",
            ],
        ),
        ("stack-hog", &["a_stack_of_16_kib_is_enough"]),
        ("key-per-thread", &["thousands_of_detached_threads"]),
    ];
    all_are_found(&common::c_program("threads"), plan, &[], &[]);
}

#[test]
fn of_tls_destructors() {
    let plan: &Plan = &[
        (
            "dead-thread-aborts",
            &[
                "key_destructors_allocate_and_free_in_every_order",
                "dying_threads_free_what_dying_threads_allocated",
            ],
        ),
        ("dead-thread-spoils", &["first_allocation_in_a_key_destructor"]),
        (
            "thread-leaks",
            &[
                "thousands_of_deaths_leave_no_memory_behind",
                "threads_that_meet_malloc_as_they_end_leave_nothing",
                "detached_threads_that_never_allocate_leave_nothing",
                "a_thread_that_ends_and_frees_what_was_kept_of_many_leaves_nothing",
            ],
        ),
        ("key-per-thread", &["allocation_works_when_the_program_took_every_key"]),
    ];
    all_are_found(&common::c_program("tls_destructors"), plan, &[], &[]);
}

#[test]
fn of_the_lifecycle() {
    let plan: &Plan = &[
        ("null-before-main", &["blocks_made_before_main_are_whole"]),
        (
            "dead-at-exit",
            &[
                "exit_handlers_and_destructors_allocate",
                "exit_while_other_threads_allocate",
                "quick_exit_while_other_threads_allocate",
                "threads_outlive_main",
            ],
        ),
        (
            "dead-in-handler",
            &[
                "signal_handlers_allocate",
                "signal_handlers_allocate_on_a_small_alternate_stack",
                "signal_handlers_allocate_in_threads_that_never_did",
            ],
        ),
    ];
    all_are_found(&common::c_program("lifecycle"), plan, &[], &[]);
}

#[test]
fn of_plugins() {
    let plan: &Plan = &[
        (
            "dlclose-spoils",
            &[
                "sixty_four_plugins_at_once",
                "one_plugin_comes_and_goes_a_thousand_times",
                "plugins_come_and_go_in_many_threads",
                "threads_that_used_a_plugin_end_after_it",
            ],
        ),
        ("crash-late", &["failing_to_open_allocates_and_frees"]),
    ];
    let plugins = common::plugins();
    let directory = plugins.path().to_str().expect("a plain name");
    let environment = [("MASU_TEST_PLUGINS", directory)];
    all_are_found(&common::c_program("plugins"), plan, &[], &environment);
}

#[test]
fn of_forks() {
    let plan: &Plan = &[
        (
            "lock-not-for-fork",
            &[
                "sixteen_threads_allocate_while_eight_fork",
                "a_thread_that_has_never_allocated_forks",
            ],
        ),
        ("child-grows", &["a_forked_worker_takes_what_it_needs"]),
        (
            "null-in-child",
            &[
                "fork_in_the_child_of_a_fork_and_so_on",
                "the_child_allocates_first",
                "new_threads_of_the_child_are_not_the_dead_ones",
                "a_forked_thread_may_end_by_pthread_exit",
            ],
        ),
    ];
    all_are_found(&common::c_program("fork"), plan, &[], &[("MASU_TEST_SECONDS", "1")]);
}

#[test]
fn of_spawning() {
    let plan: &Plan = &[
        (
            "crash-late",
            &["vfork_and_exec", "posix_spawn_from_a_threaded_program", "system_and_popen"],
        ),
        (
            "null-in-child",
            &[
                "vfork_child_may_allocate",
                "raw_clone_of_a_single_threaded_program",
                "late_atfork_handlers_allocate",
            ],
        ),
        ("lock-over-fork", &["early_atfork_handlers_allocate"]),
    ];
    all_are_found(&common::c_program("spawn"), plan, &[], &[]);
}

#[test]
fn of_locks_around_forks() {
    let plan: &Plan = &[
        (
            "lock-over-fork-of-threads",
            &["an_early_handler_waits_for_a_thread_that_allocates", "forks_that_wait_leak_nothing"],
        ),
        (
            "crash-late",
            &[
                "fork_under_load",
                "vfork_under_load",
                "posix_spawn_under_load",
                "system_under_load",
                "popen_under_load",
                "daemon_under_load",
                "raw_clone_under_load",
                "forkpty_under_load",
                "plain_fork_under_load",
                "four_threads_fork_under_load",
                "handlers_from_before_threads_under_load",
                "handlers_from_after_threads_under_load",
                "a_late_handler_waits_for_a_thread_that_allocates",
            ],
        ),
    ];
    all_are_found(&common::c_program("fork_locks"), plan, &[], &[]);
}

#[test]
fn of_the_operators() {
    let plan: &Plan = &[
        ("misaligned", &["plain_forms", "nothrow_forms"]),
        ("memalign-is-16", &["aligned_forms", "expressions_and_containers"]),
        ("memalign-is-null", &["small_alignments"]),
        ("delete-of-null-sets-errno", &["deleting_null_does_nothing"]),
        ("aligned-delete-leaks", &["every_delete_gives_memory_back"]),
        ("new-has-its-own-heap", &["new_and_free_mix_as_real_programs_do"]),
    ];
    all_are_found(&common::cxx_program("operators"), plan, &[], &[]);
}

#[test]
fn of_exhaustion() {
    let plan: &Plan = &[
        ("new-gives-null", &["unwinding_runs_the_destructors_of_the_callers"]),
        (
            "new-ignores-handler",
            &[
                "new_handler_is_called_until_it_gives_up",
                "new_handler_may_throw",
                "new_handler_may_throw_another_type",
                "new_handler_that_makes_room_is_rewarded",
            ],
        ),
    ];
    // libstdc++ 12 rounds an aligned request of SIZE_MAX up to zero.
    let impossible = ["bad_alloc_is_thrown_by_every_throwing_form", "nothrow_forms_return_null"];
    all_are_found(&common::cxx_program("exhaustion"), plan, &impossible, &[]);
}

#[test]
fn of_thread_local_objects() {
    let plan: &Plan = &[
        ("overlap", &["thread_local_objects_allocate_while_they_die"]),
        (
            "dead-thread-spoils",
            &["thread_local_objects_outlive_their_thread", "exceptions_cross_threads"],
        ),
        ("dead-at-exit", &["static_objects_die_after_main"]),
    ];
    all_are_found(&common::cxx_program("thread_local"), plan, &[], &[]);
}

#[test]
fn of_limits() {
    let plan: &Plan = &[
        (
            "no-enomem",
            &[
                "address_space_lowered_after_start",
                "address_space_lowered_after_a_burst",
                "data_size_lowered_after_start",
                "threads_meet_the_limit_together",
            ],
        ),
        (
            "failure-is-no-null",
            &["address_space_lowered_below_what_is_kept", "data_size_lowered_below_what_is_kept"],
        ),
        ("fails-for-good", &["requests_succeed_again_once_there_are_mappings"]),
    ];
    // glibc's arenas, one for each thread, reserve more than the limit leaves.
    all_are_found(&common::c_program("limits"), plan, &[], &[("MALLOC_ARENA_MAX", "1")]);
}

#[test]
fn of_manners() {
    let plan: &Plan = &[
        (
            "starts-a-thread",
            &[
                "small_bursts_start_no_thread",
                "three_seconds_of_bursts",
                "no_burst_starts_a_thread_when_told_so",
                "single_again_two_seconds_after_a_large_burst",
                "single_again_two_seconds_after_a_large_burst_beside_a_large_heap",
                "unshare_of_the_user_namespace_after_a_burst",
                "setuid_after_a_burst",
                "landlock_after_a_burst",
                "a_helper_thread_is_alone_and_takes_no_signals",
            ],
        ),
        ("thread-in-child", &["the_child_of_a_fork_has_one_thread"]),
    ];
    // glibc's malloc moves the program break, which the filter forbids, and starts no thread.
    let impossible =
        ["seccomp_after_a_burst", "a_helper_thread_does_not_keep_what_the_program_gives_up"];
    all_are_found(&common::c_program("manners"), plan, &impossible, &[]);
}

#[test]
fn of_the_filter() {
    if library().is_some() {
        println!("the suite is validated with MASU_LIB=none");
        return;
    }
    let sources = common::core(Compile::with("gcc").flag("-std=gnu11").file("c/ground.c"));
    let run = case(&sources.build(), "live_blocks_never_overlap").bare();
    let run = run.env("LD_PRELOAD", faults().path()).env("MASU_TEST_FAULT", "odd-system-call");
    run.env("MASU_TEST_GROUND", "seccomp").run().killed_by(libc::SIGSYS);
}

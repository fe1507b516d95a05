//! What glibc's own tests of its malloc require, written anew.
//!
//! | glibc's test (2.36, some of 2.38) | here |
//! |---|---|
//! | `mallocbug`, `tst-malloc`, `tst-mxfast` | `live_blocks_never_overlap`, `malloc_zero_gives_distinct_blocks`, `impossible_sizes_fail_with_enomem` |
//! | `tst-calloc` | `calloc_zeroes_…`, `calloc_overflow_fails_with_enomem` |
//! | `tst-realloc`, `tst-reallocarray` | `realloc_…`, `reallocarray_multiplies` |
//! | `tst-mallocalign1` | `malloc_aligns_every_size_to_16`, `realloc_aligns_every_size_to_16` |
//! | `tst-malloc-too-large` | `no_door_gives_more_than_half_the_address_space`, `the_kernel_decides_on_overcommitment` |
//! | `tst-memalign`, `tst-posix_memalign`, `tst-aligned-alloc`, `tst-valloc`, `tst-pvalloc` | `core_aligned.c`; `posix_memalign_says_enomem_in_errno_too` |
//! | `tst-memalign-2`, `tst-memalign-3` | `freed_aligned_blocks_serve_again` |
//! | `tst-malloc-usable`, `…-static` | `usable_size_…`, `static_link.rs` |
//! | `tst-free-errno` | `free_preserves_errno`, `core_with_few_mappings_left` |
//! | `tst-trim1` | `malloc_trim_gives_memory_back` |
//! | `tst-mallopt` | `mallopt_answers_for_every_parameter`, `mallopt_takes_what_programs_set` |
//! | `tst-mallinfo2` | `mallinfo2_counts_what_is_in_use` |
//! | `tst-malloc_info` | `malloc_info_writes_xml`, `malloc_info_of_many_threads_adds_up` |
//! | `tst-malloc-stats-cancellation` | `malloc_stats_prints_the_lines_…` |
//! | `tst-malloc-thread-exit`, `tst-malloc-tcache-leak` | `thousands_of_deaths_leave_no_memory_behind`, `blocks_outlive_their_thread` |
//! | `tst-malloc-thread-fail` | `every_door_says_enomem_to_threads_that_meet_the_limit` |
//! | `tst-mallocfork`, `tst-mallocfork2` | `signal_handlers_fork_while_malloc_runs` |
//! | `tst-mallocfork3`, `tst-malloc-fork-deadlock` | `c/fork.c` |
//! | `tst-interpose-*` | `what_libc_allocates_is_freed_here`, `the_heap_of_libc_stays_untouched`, `static_link.rs` |
//! | `tst-obstack` | `an_obstack_grows_and_is_cut_back` |
//! | `tst-dynarray-fail` | `a_full_heap_refuses_and_an_emptied_one_grows` |
//! | `tst-malloc-backtrace`, `tst-tcfree1` to `3`, `tst-safe-linking` | `c/diagnostics.c` |
//!
//! These are only for glibc's own allocator: `tst-mallocstate` (dumps of an old glibc's heap, for programs of 2.25 and
//! before), `tst-malloc-check` and whatever runs with `MALLOC_CHECK_=3`, `tst-compathooks-*`, `tst-mtrace`,
//! `tst-mcheck` (glibc's debugging library, `libc_malloc_debug.so`, puts its own malloc in front),
//! `tst-malloc-usable-tunables` and `tst-mxfast`'s tunables (`GLIBC_TUNABLES`), `tst-pvalloc-fortify` (the compiler's
//! knowledge of sizes), and `tst-alloc_buffer`, `tst-scratch_buffer`, `tst-dynarray`, `tst-dynarray-at-fail` (internal
//! structures that merely call malloc).

mod common;

use std::sync::LazyLock;

use masu_tests::Program;

fn program() -> &'static Program {
    static PROGRAM: LazyLock<Program> = LazyLock::new(|| common::c_program("glibc"));
    &PROGRAM
}

masu_tests::cases! {
    program;
    no_door_gives_more_than_half_the_address_space,
    posix_memalign_says_enomem_in_errno_too,
    realloc_aligns_every_size_to_16,
    mallopt_takes_what_programs_set,
    malloc_stats_prints_the_lines_that_programs_parse_and_is_no_cancellation_point,
    malloc_info_of_many_threads_adds_up,
    an_obstack_grows_and_is_cut_back,
    freed_aligned_blocks_serve_again,
    signal_handlers_fork_while_malloc_runs,
    a_full_heap_refuses_and_an_emptied_one_grows,
    every_door_says_enomem_to_threads_that_meet_the_limit,
    the_kernel_decides_on_overcommitment,
    a_fork_needs_no_room_for_what_was_freed,
}

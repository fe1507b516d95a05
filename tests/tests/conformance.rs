//! The libc door, function by function, in one thread.
//!
//! Each test is a case of a C program under `tests/c`, run with the library preloaded.

mod common;

mod core {
    use std::sync::LazyLock;

    use masu_tests::{Compile, Program};

    fn program() -> &'static Program {
        static PROGRAM: LazyLock<Program> =
            LazyLock::new(|| super::common::core(Compile::with("gcc").flag("-std=gnu11")).build());
        &PROGRAM
    }

    masu_tests::cases! {
        program;
        // core_blocks.c
        malloc_aligns_every_size_to_16,
        calloc_aligns_every_size_to_16,
        small_sizes_keep_their_alignment_in_bulk,
        malloc_zero_gives_distinct_blocks,
        live_blocks_never_overlap,
        calloc_zeroes_recycled_memory,
        calloc_zeroes_memory_recycled_from_other_sizes,
        calloc_zeroes_memory_that_was_purged,
        calloc_zeroes_memory_after_a_pause,
        impossible_sizes_fail_with_enomem,
        more_than_the_address_space_fails_with_enomem,
        calloc_overflow_fails_with_enomem,
        free_preserves_errno,
        success_leaves_errno_alone,
        every_way_to_free_takes_every_block,
        // core_usable.c
        usable_size_of_null_is_zero,
        usable_size_covers_the_request_and_is_writable,
        usable_ranges_never_overlap,
        usable_size_stays_the_same_while_others_come_and_go,
        usable_size_holds_for_every_way_to_allocate,
        realloc_to_the_usable_size_keeps_all_of_it,
        // core_aligned.c
        posix_memalign_gives_every_alignment_to_2_mib,
        posix_memalign_keeps_alignment_among_many_live_blocks,
        posix_memalign_refuses_bad_alignments_and_leaves_the_pointer,
        posix_memalign_reports_enomem_and_leaves_the_pointer,
        aligned_alloc_takes_any_size,
        memalign_gives_every_alignment,
        valloc_and_pvalloc_give_whole_pages,
        aligned_blocks_grow_and_shrink_like_others,
        aligned_and_plain_blocks_mix,
        // core_realloc.c
        realloc_keeps_content_at_every_small_step,
        realloc_keeps_content_from_1_byte_to_64_mib_and_back,
        realloc_keeps_content_by_1_percent_steps,
        realloc_keeps_content_in_random_jumps_among_neighbours,
        realloc_keeps_content_when_huge_neighbours_grow_in_turn,
        realloc_of_null_is_malloc,
        realloc_to_zero_frees_or_gives_an_empty_block,
        realloc_failure_leaves_the_block,
        reallocarray_multiplies,
        realloc_of_huge_blocks_moves_no_bytes,
        // core_info.c
        mallinfo2_counts_what_is_in_use,
        mallinfo_agrees_with_mallinfo2,
        malloc_info_writes_xml,
        malloc_stats_writes_to_stderr,
        mallopt_answers_for_every_parameter,
        malloc_trim_gives_memory_back,
        what_libc_allocates_is_freed_here;
        beyond_system:
        aligned_alloc_refuses_what_is_not_a_power_of_two,
        the_heap_of_libc_stays_untouched,
    }
}

mod large {
    use std::sync::LazyLock;

    use masu_tests::Program;

    fn program() -> &'static Program {
        static PROGRAM: LazyLock<Program> =
            LazyLock::new(|| super::common::c_program("large_blocks"));
        &PROGRAM
    }

    masu_tests::cases! {
        program;
        sizes_up_to_1_gib_are_usable_at_both_ends,
        alignments_up_to_1_gib,
        a_block_of_1_gib_grows_and_shrinks,
        many_blocks_of_64_mib_live_at_once,
    }
}

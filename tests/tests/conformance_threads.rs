//! Threads: blocks that cross them, their end, and small stacks.

mod common;

mod threads {
    use std::sync::LazyLock;

    use masu_tests::Program;

    fn program() -> &'static Program {
        static PROGRAM: LazyLock<Program> = LazyLock::new(|| super::common::c_program("threads"));
        &PROGRAM
    }

    masu_tests::cases! {
        program;
        blocks_outlive_their_thread,
        blocks_of_a_dead_thread_can_be_reallocated_by_others,
        threads_free_each_others_blocks,
        threads_that_work_in_turns_free_each_others_blocks,
        short_lived_threads_free_each_others_blocks,
        a_stack_of_16_kib_is_enough,
        cancelled_threads_clean_up,
        thousands_of_detached_threads,
    }
}

mod tls_destructors {
    use std::sync::LazyLock;

    use masu_tests::Program;

    fn program() -> &'static Program {
        static PROGRAM: LazyLock<Program> =
            LazyLock::new(|| super::common::c_program("tls_destructors"));
        &PROGRAM
    }

    masu_tests::cases! {
        program;
        key_destructors_allocate_and_free_in_every_order,
        first_allocation_in_a_key_destructor,
        dying_threads_free_what_dying_threads_allocated,
        thousands_of_deaths_leave_no_memory_behind,
        threads_that_meet_malloc_as_they_end_leave_nothing,
        detached_threads_that_never_allocate_leave_nothing,
        a_thread_that_ends_and_frees_what_was_kept_of_many_leaves_nothing,
        allocation_works_when_the_program_took_every_key,
    }
}

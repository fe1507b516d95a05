//! Processes: fork from threads, vfork, posix_spawn, and handlers that allocate around them.

mod common;

mod fork {
    use std::sync::LazyLock;
    use std::time::Duration;

    use masu_tests::{Program, case, scratch};

    fn program() -> &'static Program {
        static PROGRAM: LazyLock<Program> = LazyLock::new(|| super::common::c_program("fork"));
        &PROGRAM
    }

    masu_tests::cases! {
        program;
        fork_in_the_child_of_a_fork_and_so_on,
        the_child_allocates_first,
        a_forked_thread_may_end_by_pthread_exit,
        new_threads_of_the_child_are_not_the_dead_ones,
        a_forked_worker_takes_what_it_needs,
        a_thread_that_has_never_allocated_forks;
        beyond_system: ;
        apart: sixteen_threads_allocate_while_eight_fork,
    }

    #[test]
    fn sixteen_threads_allocate_while_eight_fork() {
        let seconds = if masu_tests::long() { 60 } else { 5 };
        case(program(), "sixteen_threads_allocate_while_eight_fork")
            .env("MASU_TEST_SECONDS", seconds.to_string())
            .timeout(Duration::from_secs(seconds + 60))
            .run()
            .success();
    }

    /// Where threads come and go on busy processors, Linux 6.18 takes up to a minute to forget a file of a thread that was
    /// read, and the parent waits for that.
    #[test]
    fn no_file_of_a_single_thread_is_read() {
        let place = scratch();
        let log = place.path().join("log");
        let to = log.to_str().expect("a path in UTF-8");
        case(program(), "new_threads_of_the_child_are_not_the_dead_ones")
            .through("strace", &["-f", "-qq", "-e", "trace=openat", "-o", to])
            .run()
            .success();
        let log = std::fs::read_to_string(&log).expect("a log");
        assert!(log.contains("\"/proc/self/") || !masu_tests::is_masu(), "{log}");
        assert!(!log.contains("/proc/thread-self/") && !log.contains("/task/"), "{log}");
    }
}

mod spawn {
    use std::sync::LazyLock;

    use masu_tests::Program;

    fn program() -> &'static Program {
        static PROGRAM: LazyLock<Program> = LazyLock::new(|| super::common::c_program("spawn"));
        &PROGRAM
    }

    masu_tests::cases! {
        program;
        vfork_and_exec,
        vfork_child_may_allocate,
        posix_spawn_from_a_threaded_program,
        system_and_popen,
        raw_clone_of_a_single_threaded_program,
        early_atfork_handlers_allocate,
        late_atfork_handlers_allocate,
    }
}

/// Locks that the allocator does not know about.
mod fork_locks {
    use std::sync::LazyLock;

    use masu_tests::Program;

    fn program() -> &'static Program {
        static PROGRAM: LazyLock<Program> =
            LazyLock::new(|| super::common::c_program("fork_locks"));
        &PROGRAM
    }

    masu_tests::cases! {
        program;
        fork_under_load,
        vfork_under_load,
        posix_spawn_under_load,
        system_under_load,
        popen_under_load,
        daemon_under_load,
        raw_clone_under_load,
        forkpty_under_load,
        plain_fork_under_load,
        four_threads_fork_under_load,
        handlers_from_before_threads_under_load,
        handlers_from_after_threads_under_load,
        an_early_handler_waits_for_a_thread_that_allocates,
        a_late_handler_waits_for_a_thread_that_allocates,
        forks_that_wait_leak_nothing,
    }
}

/// Threads that the allocator hardly knows about.
mod fork_threads {
    use std::sync::LazyLock;

    use masu_tests::Program;

    fn program() -> &'static Program {
        static PROGRAM: LazyLock<Program> =
            LazyLock::new(|| super::common::c_program("fork_threads"));
        &PROGRAM
    }

    masu_tests::cases! {
        program;
        forks_among_threads_that_work_in_turns,
        forks_beside_a_thread_that_only_frees_large_blocks,
        a_thread_that_a_handler_starts_in_the_child_keeps_its_heap,
        a_handler_frees_much_in_the_child,
    }
}

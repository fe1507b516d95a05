//! The C++ operators, form by form, and what they do when memory runs out.

mod common;

mod operators {
    use std::sync::LazyLock;

    use masu_tests::Program;

    fn program() -> &'static Program {
        static PROGRAM: LazyLock<Program> =
            LazyLock::new(|| super::common::cxx_program("operators"));
        &PROGRAM
    }

    masu_tests::cases! {
        program;
        plain_forms,
        nothrow_forms,
        aligned_forms,
        small_alignments,
        deleting_null_does_nothing,
        every_delete_gives_memory_back,
        expressions_and_containers,
        new_and_free_mix_as_real_programs_do,
    }
}

mod arrays {
    use std::sync::LazyLock;

    use masu_tests::Program;

    fn program() -> &'static Program {
        static PROGRAM: LazyLock<Program> = LazyLock::new(|| super::common::cxx_program("arrays"));
        &PROGRAM
    }

    masu_tests::cases! {
        program;
        arrays_and_single_objects_that_look_alike;
        apart:
        an_array_with_its_length_is_freed,
        an_array_with_its_length_is_deleted_as_one,
        a_long_array_is_deleted_as_one,
    }

    /// What `docs/mistakes.md` says about `new[]` without a matching `delete[]`.
    #[test]
    fn arrays_that_are_not_freed_as_such_end_the_program() {
        if !masu_tests::is_masu() {
            println!("only masu is held to this");
            return;
        }
        for (name, sentence) in [
            ("an_array_with_its_length_is_freed", "it points 8 bytes into the block of 128 bytes"),
            (
                "an_array_with_its_length_is_deleted_as_one",
                "it points 8 bytes into the block of 128 bytes",
            ),
            (
                "a_long_array_is_deleted_as_one",
                "the size given is 24 bytes, but the block has 13056",
            ),
        ] {
            let outcome = masu_tests::case(program(), name).run().killed_by(libc::SIGABRT);
            assert!(outcome.stderr.contains(sentence), "{}", outcome.describe());
        }
    }
}

mod exhaustion {
    use std::sync::LazyLock;

    use masu_tests::Program;

    fn program() -> &'static Program {
        static PROGRAM: LazyLock<Program> =
            LazyLock::new(|| super::common::cxx_program("exhaustion"));
        &PROGRAM
    }

    // libstdc++ 12 rounds an aligned request of SIZE_MAX up to zero.
    masu_tests::cases! {
        program;
        unwinding_runs_the_destructors_of_the_callers,
        new_handler_is_called_until_it_gives_up,
        new_handler_may_throw,
        new_handler_may_throw_another_type,
        new_handler_that_makes_room_is_rewarded;
        beyond_system:
        bad_alloc_is_thrown_by_every_throwing_form,
        nothrow_forms_return_null,
    }
}

mod thread_local {
    use std::sync::LazyLock;

    use masu_tests::{Program, case};

    fn program() -> &'static Program {
        static PROGRAM: LazyLock<Program> =
            LazyLock::new(|| super::common::cxx_program("thread_local"));
        &PROGRAM
    }

    masu_tests::cases! {
        program;
        thread_local_objects_allocate_while_they_die,
        thread_local_objects_outlive_their_thread,
        exceptions_cross_threads;
        beyond_system: ;
        apart: static_objects_die_after_main,
    }

    #[test]
    fn static_objects_die_after_main() {
        let outcome = case(program(), "static_objects_die_after_main").run().success();
        assert!(outcome.stdout.ends_with("static destructor done\n"), "{}", outcome.describe());
    }
}

//! Before main, after main, in signal handlers, and in libraries that come and go.

mod common;

mod lifecycle {
    use std::sync::LazyLock;

    use masu_tests::{Program, case, is_masu, scratch};

    fn program() -> &'static Program {
        static PROGRAM: LazyLock<Program> = LazyLock::new(|| super::common::c_program("lifecycle"));
        &PROGRAM
    }

    masu_tests::cases! {
        program;
        blocks_made_before_main_are_whole,
        signal_handlers_allocate,
        signal_handlers_allocate_on_a_small_alternate_stack,
        signal_handlers_allocate_in_threads_that_never_did;
        beyond_system: ;
        apart:
        exit_handlers_and_destructors_allocate,
        exit_while_other_threads_allocate,
        quick_exit_while_other_threads_allocate,
        threads_outlive_main,
    }

    /// These cases end the process themselves; the last line proves that they got that far.
    fn ends_well(name: &str) {
        let outcome = case(program(), name).run().success();
        assert!(outcome.stdout.ends_with("destructor done\n"), "{}", outcome.describe());
    }

    #[test]
    fn exit_handlers_and_destructors_allocate() {
        ends_well("exit_handlers_and_destructors_allocate");
    }

    #[test]
    fn exit_while_other_threads_allocate() {
        for _ in 0..10 {
            ends_well("exit_while_other_threads_allocate");
        }
    }

    #[test]
    fn quick_exit_while_other_threads_allocate() {
        for _ in 0..10 {
            ends_well("quick_exit_while_other_threads_allocate");
        }
    }

    #[test]
    fn threads_outlive_main() {
        ends_well("threads_outlive_main");
    }

    /// The kernel tells the mappings of such a process to its threads only.
    #[test]
    fn a_profile_of_threads_that_outlive_main_says_what_is_mapped() {
        if !is_masu() {
            return println!("profiles are masu's");
        }
        let place = scratch();
        let file = place.path().join("a.prof");
        case(program(), "threads_outlive_main").env("MASU_PROF_FILE", &file).run().success();
        let profile = std::fs::read_to_string(file).expect("written");
        let program = program().path().to_string_lossy();
        assert!(profile.contains(&*program), "{profile}");
    }
}

mod plugins {
    use std::sync::LazyLock;

    use masu_tests::{Program, Run, case};

    fn program() -> &'static Program {
        static PROGRAM: LazyLock<Program> = LazyLock::new(|| super::common::c_program("plugins"));
        &PROGRAM
    }

    fn plugins() -> &'static tempfile::TempDir {
        static DIRECTORY: LazyLock<tempfile::TempDir> = LazyLock::new(super::common::plugins);
        &DIRECTORY
    }

    fn with_plugins(name: &str) -> Run {
        case(program(), name).env("MASU_TEST_PLUGINS", plugins().path())
    }

    macro_rules! plugin_cases {
        ($($name:ident),* $(,)?) => {
            $(#[test]
            fn $name() {
                with_plugins(stringify!($name)).run().success();
            })*
            #[test]
            fn every_case_is_driven() {
                masu_tests::check_case_list(program(), &[$(stringify!($name)),*]);
            }
        };
    }

    plugin_cases! {
        sixty_four_plugins_at_once,
        one_plugin_comes_and_goes_a_thousand_times,
        plugins_come_and_go_in_many_threads,
        threads_that_used_a_plugin_end_after_it,
        failing_to_open_allocates_and_frees,
    }
}

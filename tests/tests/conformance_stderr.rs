//! Messages never end a program or spoil its data: standard error may be a pipe that nobody reads, or have been closed.

mod common;

use std::sync::LazyLock;

use masu_tests::Program;

fn program() -> &'static Program {
    static PROGRAM: LazyLock<Program> = LazyLock::new(|| common::c_program("stderr"));
    &PROGRAM
}

masu_tests::cases! {
    program;
    an_unread_message_ends_nothing,
    an_unread_message_is_no_signal,
    a_message_too_many_for_its_file_is_no_signal,
    a_signal_that_waited_before_a_message_still_waits,
    a_message_at_start_or_exit_ends_nothing,
    a_file_of_data_in_place_of_stderr_stays_as_it_is,
    a_log_in_place_of_stderr_is_told;
    beyond_system:
    an_unread_message_about_a_foreign_pointer_ends_nothing,
}

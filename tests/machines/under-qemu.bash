# shellcheck shell=bash disable=SC2034 # for those who source it
# What tests leave out where programs of another machine run under qemu.

# What docs/platforms.md says that qemu-user cannot run, and resident memory, much of which is qemu's own.
under_qemu=(
    new_handler_that_makes_room_is_rewarded a_full_heap_refuses_and_an_emptied_one_grows
    every_door_says_enomem_to_threads_that_meet_the_limit any_sequence_holds_under_limits
    the_kernel_decides_on_overcommitment any_sequence_holds_whatever_the_kernel_refuses
    the_process_ends_with_one_line
    a_program_with_special_rights_ignores_the_environment fork_and_spawn_in_a_static_program
    exhaustion_in_a_static_cxx_program under_a_limit_on_addresses_a_program_starts_all_the_same
    ten_gigabytes_take_few_mappings programs_end_as_the_table_says
    one_plugin_comes_and_goes_a_thousand_times thousands_of_deaths_leave_no_memory_behind
    threads_that_meet_malloc_as_they_end_leave_nothing detached_threads_that_never_allocate_leave_nothing
    a_thread_that_ends_and_frees_what_was_kept_of_many_leaves_nothing
    populated_memory_is_resident_before_it_is_used after_a_warm_up_nothing_faults
    statistics_are_cheap_to_poll a_hundred_polls_a_second_cost_no_thousandth
    a_leak_under_a_limit_of_the_kernels_is_told_before tls_destructors_of_a_static_program)
# What takes a whole system of that machine: its musl, its programs, and the command beside the library.
of_its_system=(musl
    redis_is_told_who_answers malloc_trim_from_python_gives_memory_back programs_that_close_their_standard_error_report
    programs_that_are_executed_report_on_their_own the_descriptor_is_out_of_the_way_and_there_for_those_who_asked
    a_program_with_the_library_inside_has_a_profile)

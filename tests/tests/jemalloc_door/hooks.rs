//! Arenas whose memory the program's extent hooks provide.

use super::*;

fn program() -> &'static Program {
    static PROGRAM: LazyLock<Program> = LazyLock::new(|| build(&["hooks.c"]));
    &PROGRAM
}

masu_tests::cases! {
    program;
    every_block_of_such_an_arena_lies_in_hook_memory,
    blocks_move_in_and_out_and_stay_in_when_they_are_resized,
    zeroed_blocks_are_zero_whatever_the_hooks_leave,
    what_is_free_goes_from_the_most_permanent_way_to_the_least,
    pages_of_a_unit_in_use_are_purged_by_themselves,
    pages_that_go_back_are_no_block_in_use,
    without_memory_of_the_hooks_there_is_none,
    hooks_may_be_few,
    default_hooks_can_be_read_called_and_wrapped,
    threads_share_an_arena_whatever_its_hooks_refuse,
    an_extent_is_not_split_while_pages_in_it_are_committed,
    an_extent_is_not_joined_while_pages_in_it_are_committed,
    no_pages_are_committed_in_an_extent_that_is_being_split,
    a_reset_arena_serves_again_and_a_destroyed_one_gives_all_back,
    pages_that_are_being_purged_are_not_used_after_a_reset,
    a_childs_arena_is_its_own,
    hook_memory_counts_in_the_figures,
    free_pages_decay,
    a_decay_of_all_arenas_reaches_those_with_hooks,
    records_lie_in_hook_memory_if_that_is_wanted
}

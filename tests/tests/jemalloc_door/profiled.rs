//! The same while a profile is taken, with every block a sample, or many: blocks of arenas, aligned ones and those resized
//! where they are can all be samples.

use super::*;

const EVERY: &str = "prof:1,prof_rate:1";
const MANY: &str = "prof:1,prof_rate:512";

/// Runs every case of a file, except for those named.
fn every_case(files: &[&str], configurations: &[&str], left_out: &[&str]) {
    let program = build(files);
    let cases = masu_tests::case_list(&program);
    assert!(left_out.iter().all(|name| cases.iter().any(|case| case == name)), "{left_out:?}");
    for configuration in configurations {
        for case in cases.iter().filter(|case| !left_out.contains(&case.as_str())) {
            let run = masu_tests::case(&program, case).env("MASU_CONF", configuration);
            // For `random.c`, and for `growth.c`, which needs memory that does not decay.
            let run = run.env("OPERATIONS", "3000").env("SEED", "8");
            let decays = case.starts_with("memory_is_back");
            run.env("MASU_DECAY", if decays { "500ms" } else { "never" }).run().success();
        }
    }
}

#[test]
fn blocks_of_every_flag_are_sampled() {
    every_case(&["allocx.c", "random.c"], &[EVERY, MANY], &[]);
}

#[test]
fn blocks_that_grow_are_sampled() {
    // It needs another configuration.
    let left_out = ["memory_is_back_soon_after_the_decay_time_is_shortened"];
    every_case(&["growth.c"], &[EVERY], &left_out);
}

#[test]
fn blocks_of_arenas_are_sampled() {
    // Each of its two million blocks would be a sample, of which a profile holds half as many: it takes half a minute.
    let left_out = ["forks_beside_a_thread_that_only_frees_an_arenas_blocks"];
    every_case(&["arenas.c"], &[EVERY, MANY], &left_out);
    every_case(&["hooks.c"], &[EVERY], &[]);
}

#[test]
fn blocks_of_heaps_with_limits_are_sampled() {
    // It expects that no profile is taken yet.
    every_case(&["extras.c"], &[EVERY, MANY], &["a_wrong_length_changes_no_setting"]);
}

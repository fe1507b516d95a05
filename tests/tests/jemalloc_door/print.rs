//! What the statistics print.

use super::*;

fn program() -> &'static Program {
    static PROGRAM: LazyLock<Program> = LazyLock::new(|| build(&["print.c"]));
    &PROGRAM
}

masu_tests::cases! {
    program;
    text_has_a_beginning_an_end_and_the_figures_between,
    letters_leave_sections_out,
    messages_go_where_the_program_says,
    a_thread_may_allocate_while_it_prints,
    conf_decay_is_default;
    apart: json_is_printed_in_one_object, json_with_every_letter_is_printed,
    conf_decay_is_1234, conf_decay_is_never, conf_background_is_off
}

fn run(case: &str) -> Run {
    masu_tests::case(program(), case)
}

/// A program's output, parsed by Python.
fn parse(case: &str) -> String {
    let printed = run(case).run().success().stdout;
    let json = printed.lines().find(|line| line.starts_with('{')).expect("an object");
    let script = "import json, sys; s = json.loads(sys.argv[1])['jemalloc']['stats'];\
                  assert s['allocated'] <= s['active'] <= s['resident']; print('fine')";
    Run::new("python3").bare().args(["-c", script, json]).run().success().stdout
}

#[test]
fn json_is_printed_in_one_object() {
    assert_eq!(parse("json_is_printed_in_one_object"), "fine\n");
}

#[test]
fn json_with_every_letter_is_printed() {
    assert_eq!(parse("json_with_every_letter_is_printed"), "fine\n");
}

#[test]
fn the_environment_configures() {
    let keys = "narenas:2,dirty_decay_ms:1234,lg_tcache_max:12";
    run("conf_decay_is_1234").env("MALLOC_CONF", keys).run().success();
    run("conf_decay_is_never").env("MALLOC_CONF", "dirty_decay_ms:-1").run().success();
    run("conf_background_is_off").env("MALLOC_CONF", "background_thread:false").run().success();
}

/// `MASU_VERBOSE` names the string that set a key.
#[test]
fn values_from_the_environment_are_said_to_be() {
    let conf = "stats_print:false,dirty_decay_ms:2000,background_thread:false,prof:true";
    let run = run("conf_decay_is_default").env("MALLOC_CONF", conf).env("MASU_VERBOSE", "1");
    let said = run.run().stderr;
    for key in ["decay", "background_thread", "show_stats", "prof", "prof_rate"] {
        let row = said.lines().find(|line| line.split_whitespace().nth(1) == Some(key));
        assert!(row.is_some_and(|row| row.ends_with(" MALLOC_CONF")), "{key}: {said}");
    }
    assert!(said.contains("  budget              4MiB        built-in\n"), "{said}");
}

#[test]
fn what_has_no_meaning_is_passed_over() {
    for nonsense in ["", ",", ":", "dirty_decay_ms", "dirty_decay_ms:x", "a:b,c:d:e,", "=,:,"] {
        run("conf_decay_is_default").env("MALLOC_CONF", nonsense).run().success();
    }
}

#[test]
fn the_librarys_own_variables_come_first() {
    let run = run("conf_decay_is_1234").env("MALLOC_CONF", "dirty_decay_ms:5");
    run.env("MASU_DECAY", "1234").run().success();
}

//! From an environment to a configuration.

extern crate std;
use super::kinds::{Count, Flag, Kind, Size};
use super::nearest::nearest;
use super::{
    BackgroundThread, Config, Delay, File, LimitOrAuto, MemoryTags, OnError, Origin, Policy,
    Statistics, kinds,
};
use crate::text::Text;
use std::ffi::CString;
use std::string::String;
use std::vec::Vec;

/// The configuration that `variables` give, and the warnings about them.
fn read(variables: &[&str]) -> (Config, String) {
    let mut said = Vec::new();
    let mut sink = |bytes: &[u8]| said.extend_from_slice(bytes);
    let config = Config::DEFAULT.with_variables(variables.iter().map(|v| v.as_bytes()), &mut sink);
    (config, String::from_utf8(said).unwrap())
}

/// The configuration that correct `variables` give.
fn config(variables: &[&str]) -> Config {
    let (config, said) = read(variables);
    assert_eq!(said, "", "{variables:?}");
    config
}

/// The one warning that `variables` cause; they change nothing.
fn warning(variables: &[&str]) -> String {
    let (config, said) = read(variables);
    assert_eq!(config, Config::DEFAULT, "{variables:?}");
    assert_eq!(said.matches('\n').count(), 1, "{said}");
    said.strip_prefix("masu: warning: ").unwrap().trim_end().into()
}

#[test]
fn the_defaults_are_the_documented_ones() {
    let config = config(&["PATH=/bin", "HOME=/root"]);
    assert_eq!(config, Config::DEFAULT);
    assert_eq!(config.decay, Delay::Millis(500));
    assert_eq!(config.budget, 4 << 20);
    assert_eq!(config.background_thread, BackgroundThread::Auto);
    assert_eq!(config.run_cache, 1 << 20);
    assert_eq!(config.huge_cache, 1 << 30);
    assert_eq!(config.retain_full, 32);
    assert!(config.huge_pages && config.cgroup && !config.populate);
    assert_eq!(config.policy, Policy::Default);
    assert_eq!((config.limit_soft, config.limit_hard), (LimitOrAuto::AUTO, 0));
    assert_eq!((config.show_stats, config.stats_file), (Statistics::Off, File::STDERR));
    assert!(!config.verbose && config.show_errors);
    assert_eq!(config.origins.decay, Origin::BuiltIn);
}

/// Sets one key by its variable and by the list, and checks value and origin; then an unfit value.
macro_rules! every_key {
    ($($key:ident: $good:literal => $value:expr, not $bad:literal;)+) => {
        $(#[test]
        fn $key() {
            let name = stringify!($key);
            let variable = std::format!("MASU_{}", name.to_uppercase());
            let set = config_quiet(&[&std::format!("{variable}={}", $good)]);
            assert_eq!((set.$key, set.origins.$key), ($value, Origin::Variable));
            let set = config_quiet(&[&std::format!("MASU_CONF={name}:{}", $good)]);
            assert_eq!((set.$key, set.origins.$key), ($value, Origin::List));

            let said = warning(&[&std::format!("{variable}={}", $bad)]);
            assert!(said.starts_with(&std::format!("{variable}: \"{}\" is not ", $bad)), "{said}");
            let said = warning(&[&std::format!("MASU_CONF={name}:{}", $bad)]);
            assert!(said.starts_with(&std::format!("MASU_CONF: {name}: \"{}\" is", $bad)), "{said}");
        })+

        #[test]
        fn every_key_is_tested() {
            assert_eq!(super::keys::NAMES, concat!($(stringify!($key), " "),+));
        }
    };
}

/// Like [`config`], but `verbose` may have written the configuration.
fn config_quiet(variables: &[&str]) -> Config {
    let (config, said) = read(variables);
    assert!(!said.contains("warning"), "{said}");
    config
}

every_key! {
    policy: "Container@1" => Policy::Container, not "container@2";
    decay: "2s" => Delay::Millis(2000), not "soon";
    budget: "16MiB" => 16 << 20, not "16 apples";
    background_thread: "off" => BackgroundThread::Off, not "maybe";
    run_cache: "512k" => 512 << 10, not "-1";
    huge_cache: "0" => 0, not "1e9";
    retain_full: "7" => 7, not "7.5";
    huge_pages: "off" => false, not "maybe";
    huge_pages_from: "4MiB" => 4 << 20, not "early";
    populate: "1" => true, not "all";
    limit_soft: "512MiB" => 512 << 20, not "half";
    limit_hard: "1GiB" => 1 << 30, not "auto";
    cgroup: "0" => false, not "v2";
    show_stats: "yes" => Statistics::Text, not "2";
    stats_file: "stderr" => File::STDERR, not "/tmp/";
    prof: "1" => true, not "2";
    prof_rate: "64KiB" => 64 << 10, not "often";
    prof_file: "none" => File::STDERR, not "/tmp/";
    observe: "yes" => true, not "me";
    verbose: "on" => true, not "loud";
    show_errors: "0" => false, not "none";
    on_error: "report" => OnError::Report, not "panic";
    hardened: "on" => true, not "half";
    quarantine_random: "1MiB" => 1 << 20, not "long";
    quarantine_queue: "0" => 0, not "short";
    guard_slabs: "2" => 2, not "all";
    hardened_tags: "on" => MemoryTags::On, not "async";
    block_stacks: "on" => true, not "some";
    show_leaks: "1" => true, not "most";
    guard: "1/5000" => 5000, not "2/3";
    guard_slots: "64" => 64, not "many";
    guard_report: "0" => false, not "loud";
    guard_file: "none" => File::STDERR, not "/tmp/";
}

#[test]
fn sizes() {
    for (written, value) in [
        ("0", Some(0)),
        ("17", Some(17)),
        ("17B", Some(17)),
        ("64k", Some(64 << 10)),
        ("64K", Some(64 << 10)),
        ("64kB", Some(64 << 10)),
        ("512KiB", Some(512 << 10)),
        ("4MiB", Some(4 << 20)),
        ("4 mib", Some(4 << 20)),
        ("3m", Some(3 << 20)),
        ("1GiB", Some(1 << 30)),
        ("2t", Some(2 << 40)),
        ("1.5GiB", Some(3 << 29)),
        ("0.5k", Some(512)),
        ("0.3333333333333333333333333k", Some(341)),
        ("18446744073709551615", Some(usize::MAX)),
        ("18446744073709551616", None),
        ("16777216TiB", None),
        ("", None),
        ("k", None),
        (".5k", None),
        ("5.k", None),
        ("5kk", None),
        ("0x10", None),
        ("1 GiB x", None),
        ("-4", None),
        ("+4", None),
    ] {
        assert_eq!(Size::parse(written.as_bytes()), value, "{written}");
    }
}

#[test]
fn delays() {
    for (written, value) in [
        ("0", Some(Delay::Millis(0))),
        ("250", Some(Delay::Millis(250))),
        ("500ms", Some(Delay::Millis(500))),
        ("1s", Some(Delay::Millis(1000))),
        ("1.5 s", Some(Delay::Millis(1500))),
        ("2m", Some(Delay::Millis(120_000))),
        ("2min", Some(Delay::Millis(120_000))),
        ("1h", Some(Delay::Millis(3_600_000))),
        ("never", Some(Delay::Never)),
        ("Never", Some(Delay::Never)),
        ("-1", Some(Delay::Never)),
        ("-2", None),
        ("1day", None),
        ("", None),
        ("99999999999999999h", None),
    ] {
        assert_eq!(Delay::parse(written.as_bytes()), value, "{written}");
    }
}

#[test]
fn flags_counts_and_choices() {
    for on in ["1", "true", "yes", "on", "ON", "True"] {
        assert_eq!(Flag::parse(on.as_bytes()), Some(true), "{on}");
        assert_eq!(BackgroundThread::parse(on.as_bytes()), Some(BackgroundThread::On), "{on}");
    }
    for off in ["0", "false", "no", "off", "Off"] {
        assert_eq!(Flag::parse(off.as_bytes()), Some(false), "{off}");
        assert_eq!(BackgroundThread::parse(off.as_bytes()), Some(BackgroundThread::Off), "{off}");
    }
    for neither in ["", "2", "y", "yes!", "01"] {
        assert_eq!(Flag::parse(neither.as_bytes()), None, "{neither}");
    }
    assert_eq!(BackgroundThread::parse(b"AUTO"), Some(BackgroundThread::Auto));
    assert_eq!(Count::parse(b"4294967295"), Some(u32::MAX));
    assert_eq!(Count::parse(b"4294967296"), None);
    assert_eq!(Count::parse(b"4k"), None);
}

#[test]
fn what_is_shown_reads_back() {
    fn shown<K: Kind>(value: K::Value) -> Option<K::Value> {
        let mut out = Vec::new();
        let mut sink = |bytes: &[u8]| out.extend_from_slice(bytes);
        kinds::show(K::TAG, K::word(value), &mut Text::new(&mut sink));
        K::parse(&out)
    }
    for size in [0, 1, 1000, 1024, 4 << 20, (1 << 30) + 1, usize::MAX] {
        assert_eq!(shown::<Size>(size), Some(size));
    }
    for delay in [Delay::Never, Delay::Millis(0), Delay::Millis(1500), Delay::Millis(2000)] {
        assert_eq!(shown::<Delay>(delay), Some(delay));
    }
    for thread in [BackgroundThread::Auto, BackgroundThread::On, BackgroundThread::Off] {
        assert_eq!(shown::<BackgroundThread>(thread), Some(thread));
    }
    for tags in [MemoryTags::Auto, MemoryTags::On, MemoryTags::Off] {
        assert_eq!(shown::<MemoryTags>(tags), Some(tags));
    }
    for policy in [
        Policy::Default,
        Policy::LowMemory,
        Policy::Throughput,
        Policy::Container,
        Policy::Realtime,
        Policy::Hardened,
        Policy::Debug,
    ] {
        assert_eq!(shown::<Policy>(policy), Some(policy));
    }
    assert_eq!(shown::<LimitOrAuto>(LimitOrAuto::AUTO), Some(LimitOrAuto::AUTO));
    assert_eq!(shown::<LimitOrAuto>(0), Some(0));
    for statistics in [Statistics::Off, Statistics::Text, Statistics::Json] {
        assert_eq!(shown::<Statistics>(statistics), Some(statistics));
    }
    assert_eq!(shown::<File>(File::STDERR), Some(File::STDERR));
    assert_eq!(shown::<Flag>(true), Some(true));
    assert_eq!(shown::<Flag>(false), Some(false));
    assert_eq!(shown::<Count>(32), Some(32));
}

#[test]
fn a_variable_wins_over_the_list_wherever_it_stands() {
    for variables in
        [["MASU_CONF=decay:1s", "MASU_DECAY=2s"], ["MASU_DECAY=2s", "MASU_CONF=decay:1s"]]
    {
        let config = config(&variables);
        assert_eq!((config.decay, config.origins.decay), (Delay::Millis(2000), Origin::Variable));
    }
    // A bad variable does not undo the list.
    let (config, _) = read(&["MASU_DECAY=x", "MASU_CONF=decay:1s"]);
    assert_eq!((config.decay, config.origins.decay), (Delay::Millis(1000), Origin::List));
}

#[test]
fn the_list_is_forgiving_about_its_punctuation() {
    let config =
        config(&["MASU_CONF= decay : 1s ,, Run-Cache=1m,retain.full:4,budget:1k,budget:2k,"]);
    assert_eq!(config.decay, Delay::Millis(1000));
    assert_eq!(config.run_cache, 1 << 20);
    assert_eq!(config.retain_full, 4);
    // The last of two values counts, as in a shell.
    assert_eq!(config.budget, 2 << 10);
}

#[test]
fn mistakes_are_told_with_the_way_out() {
    assert_eq!(warning(&["MASU_CONF=decy:1s"]), "MASU_CONF: unknown key decy; did you mean decay?");
    assert_eq!(
        warning(&["MASU_SHOWSTATS=1"]),
        "unknown key MASU_SHOWSTATS; did you mean MASU_SHOW_STATS?"
    );
    assert_eq!(
        warning(&["MASU_CONF=quux"]),
        "MASU_CONF: unknown key quux; MASU_VERBOSE=1 lists the keys"
    );
    assert_eq!(warning(&["MASU_CONF=:1"]), "MASU_CONF: empty key; MASU_VERBOSE=1 lists the keys");
    assert_eq!(
        warning(&["MASU_CONF=budget"]),
        "MASU_CONF: budget: \"\" is not a size like 512KiB, 4MiB or 1GiB"
    );
    assert_eq!(
        warning(&["MASU_BUDGET=lots\nmasu: fake"]),
        "MASU_BUDGET: \"lots?masu: fake\" is not a size like 512KiB, 4MiB or 1GiB"
    );
}

#[test]
fn several_mistakes_are_several_lines_and_the_rest_counts() {
    let (config, said) =
        read(&["MASU_CONF=a:1,decay:1s,b:2", "MASU_RUN_CACHE=x", "MASU_RETAIN_FULL=3"]);
    assert_eq!(said.lines().count(), 3, "{said}");
    assert_eq!((config.decay, config.retain_full), (Delay::Millis(1000), 3));
    assert_eq!(config.run_cache, Config::DEFAULT.run_cache);
}

#[test]
fn warnings_can_be_switched_off_from_anywhere() {
    let (_, said) = read(&["MASU_CONF=nonsense:1", "MASU_SHOW_ERRORS=0"]);
    assert_eq!(said, "");
}

#[test]
fn what_is_not_ours_is_left_alone() {
    config(&[
        "MASU_LIB=libmasu.so",
        "MASU_LAB_REPEAT=3",
        "MASU_TEST_SEED=1",
        "MASU_DISABLE=0",
        "MASU_CONF=",
    ]);
    config(&["MASU_DECAY=", "MASUDA=1", "MALLOC_CONF=decay:x", "MASU_DECAY", "=", ""]);
    assert_eq!(
        warning(&["MASU_LIBRARY=x"]),
        "unknown key MASU_LIBRARY; MASU_VERBOSE=1 lists the keys"
    );
}

#[test]
fn nearest_keys() {
    for (written, key) in [
        ("decay", Some("decay")),
        ("DECAY_MS", Some("decay")),
        ("decya", Some("decay")),
        ("buget", Some("budget")),
        ("backgroundthread", Some("background_thread")),
        ("background_threads", Some("background_thread")),
        ("show-statistics", Some("show_stats")),
        ("verbos", Some("verbose")),
        ("error", None),
        ("hugecache", Some("huge_cache")),
        ("", None),
        ("x", None),
        ("a_word_that_is_longer_than_any_key_there_is", None),
    ] {
        assert_eq!(nearest(written.as_bytes()), key.map(str::as_bytes), "{written}");
    }
}

#[test]
fn verbose_shows_every_value_and_its_origin() {
    let (_, said) = read(&["MASU_VERBOSE=1", "MASU_CONF=budget:1.5MiB"]);
    assert_eq!(
        said,
        "\
masu: effective configuration
masu:   policy              default     built-in
masu:   decay               500ms       built-in
masu:   budget              1536KiB     MASU_CONF
masu:   background_thread   auto        built-in
masu:   run_cache           1MiB        built-in
masu:   huge_cache          1GiB        built-in
masu:   retain_full         32          built-in
masu:   huge_pages          on          built-in
masu:   huge_pages_from     32MiB       built-in
masu:   populate            off         built-in
masu:   limit_soft          auto        built-in
masu:   limit_hard          off         built-in
masu:   cgroup              on          built-in
masu:   show_stats          off         built-in
masu:   stats_file          stderr      built-in
masu:   prof                off         built-in
masu:   prof_rate           512KiB      built-in
masu:   prof_file           none        built-in
masu:   observe             off         built-in
masu:   verbose             on          MASU_VERBOSE
masu:   show_errors         on          built-in
masu:   on_error            abort       built-in
masu:   hardened            off         built-in
masu:   quarantine_random   16KiB       built-in
masu:   quarantine_queue    16KiB       built-in
masu:   guard_slabs         8           built-in
masu:   hardened_tags       auto        built-in
masu:   block_stacks        off         built-in
masu:   show_leaks          off         built-in
masu:   guard               off         built-in
masu:   guard_slots         256         built-in
masu:   guard_report        on          built-in
masu:   guard_file          none        built-in
"
    );
}

#[test]
fn what_the_command_has_set_is_told_from_variables_of_the_user() {
    let list = "MASU_CONF_COMMAND=DECAY:2s,BUDGET:8MiB,POPULATE:1";
    let (Config { origins, populate, .. }, said) =
        read(&[list, "MASU_DECAY=2s", "MASU_BUDGET=9MiB", "MASU_VERBOSE=1"]);
    assert_eq!((origins.decay, origins.verbose), (Origin::Command, Origin::Variable));
    // One was set anew since, and one is not set.
    assert_eq!((origins.budget, origins.populate), (Origin::Variable, Origin::BuiltIn));
    assert!(!populate && said.contains("  2s          masu's command line\n"), "{said}");
}

#[test]
fn the_environment_of_a_process() {
    let strings = ["A=b", "MASU_DECAY=3s", "MASU_VERBOSE=1"].map(|s| CString::new(s).unwrap());
    let mut envp: Vec<_> = strings.iter().map(|s| s.as_ptr()).collect();
    envp.push(core::ptr::null());
    let mut said = 0;
    // SAFETY: `envp` ends in null and its strings live to the end of the test.
    let config = unsafe { Config::parse(envp.as_ptr(), false, &mut |bytes| said += bytes.len()) };
    assert_eq!(config.decay, Delay::Millis(3000));
    assert!(said > 0);

    // SAFETY: as above.
    let config = unsafe {
        Config::parse(envp.as_ptr(), true, &mut |_| panic!("a secure process is silent"))
    };
    assert_eq!(config, Config::DEFAULT);
    // SAFETY: null is allowed.
    let config = unsafe { Config::parse(core::ptr::null(), false, &mut |_| panic!("silent")) };
    assert_eq!(config, Config::DEFAULT);
}

#[test]
fn the_environment_wins_over_what_the_program_was_compiled_with() {
    let mut program = Config { decay: Delay::Millis(7), budget: 1 << 20, ..Config::DEFAULT };
    program.origins.decay = Origin::Program;
    program.origins.budget = Origin::Program;
    let mut said = String::new();
    let mut sink = |bytes: &[u8]| said.push_str(core::str::from_utf8(bytes).unwrap());
    let variables = [b"MASU_CONF=decay:9ms,verbose:1".as_slice(), b"MASU_RETAIN_FULL=3"];
    let config = program.with_variables(variables.into_iter(), &mut sink);
    assert_eq!((config.decay, config.origins.decay), (Delay::Millis(9), Origin::List));
    assert_eq!((config.budget, config.origins.budget), (1 << 20, Origin::Program));
    assert_eq!((config.retain_full, config.origins.retain_full), (3, Origin::Variable));
    let budget = said.lines().find(|line| line.contains("budget")).unwrap();
    assert!(budget.contains("1MiB") && budget.ends_with("program"), "{budget}");
}

/// The cells of a key's row in the documentation's table of policies, if policies differ in it.
fn documented(key: &str) -> Option<Vec<String>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.split_once("\n## What each policy sets\n").expect("a section on that").1;
    let text = text.split_once("\n| key |").expect("a table of values").1;
    let row = text.lines().find(|line| line.starts_with(&std::format!("| `{key}` |")))?;
    Some(row.split('|').map(|cell| cell.trim().trim_matches('`').into()).skip(2).take(7).collect())
}

/// How a key is shown under `variables`: its value and its origin.
fn shown(variables: &[&str], key: &str) -> (String, String) {
    let variables: Vec<&str> = variables.iter().copied().chain(["MASU_VERBOSE=1"]).collect();
    let (_, said) = read(&variables);
    let line = said.lines().find(|line| line.split_whitespace().nth(1) == Some(key)).unwrap();
    let mut words = line.split_whitespace().skip(2).map(String::from);
    (words.next().unwrap(), words.next().unwrap())
}

#[test]
fn a_policy_sets_what_its_documentation_says() {
    let names =
        ["default", "low-memory", "throughput", "container", "realtime", "hardened", "debug"];
    let keys = super::keys::NAMES.split_whitespace();
    for key in keys.filter(|&key| key != "policy" && key != "verbose") {
        let default = shown(&[], key).0;
        let cells = documented(key).unwrap_or_else(|| std::vec![default.clone(); names.len()]);
        for (policy, cell) in names.iter().zip(cells) {
            for edition in ["", "@1"] {
                let variable = std::format!("MASU_POLICY={policy}{edition}");
                let (value, origin) = shown(&[&variable], key);
                assert_eq!(value, cell, "{key} under {policy}{edition}");
                if value != default {
                    assert_eq!(origin, "policy", "{key} under {policy}");
                }
            }
        }
    }
}

#[test]
fn a_key_that_is_set_wins_over_the_policy_wherever_it_stands() {
    for variables in [
        ["MASU_POLICY=realtime", "MASU_CONF=decay:2s"],
        ["MASU_CONF=decay:2s,policy:realtime", "X=y"],
        ["MASU_DECAY=2s", "MASU_CONF=policy:realtime"],
    ] {
        let config = config(&variables);
        assert_eq!(config.decay, Delay::Millis(2000), "{variables:?}");
        assert_eq!(config.background_thread, BackgroundThread::Off);
        assert_eq!(config.origins.background_thread, Origin::Policy);
    }
    let mut program = Config { decay: Delay::Millis(7), ..Config::DEFAULT };
    program.origins.decay = Origin::Program;
    let config =
        program.with_variables([b"MASU_POLICY=realtime".as_slice()].into_iter(), &mut |_| {});
    assert_eq!((config.decay, config.origins.decay), (Delay::Millis(7), Origin::Program));
    assert!(config.populate);
}

#[test]
fn a_program_s_own_policy_holds_without_an_environment() {
    let program = Config { policy: Policy::Container, ..Config::DEFAULT };
    // SAFETY: null is allowed.
    let config = unsafe { program.under_environment(core::ptr::null(), false, &mut |_| {}) };
    assert_eq!((config.run_cache, config.origins.run_cache), (512 << 10, Origin::Policy));
}

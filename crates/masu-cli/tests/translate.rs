//! `masu translate`.

mod common;

use common::{masu, stdout};

#[track_caller]
fn translate(arguments: &[&str], code: i32) -> String {
    let mut command = masu();
    for name in ["MALLOC_CONF", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES"] {
        command.env_remove(name);
    }
    let output = command.arg("translate").args(arguments).output().expect("runs");
    let said = stdout(&output) + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

#[test]
fn each_option_is_explained_and_what_is_left_is_to_be_set() {
    insta::assert_snapshot!(
        translate(&["MALLOC_CONF=dirty_decay_ms:2000,narenas:2,prof_log:true", "MALLOC_ARENA_MAX=2"], 0), @r"
    MALLOC_CONF=dirty_decay_ms:2000,narenas:2,prof_log:true (jemalloc)
      dirty_decay_ms:2000  MASU_DECAY=2s
      narenas:2            nothing to set: memory comes from one pool, and what one thread frees serves all threads
      prof_log:true        no counterpart: `masu prof -- COMMAND` shows which code allocates the memory in use

    MALLOC_ARENA_MAX=2 (glibc)
      MALLOC_ARENA_MAX=2  nothing to set: memory comes from one pool, and what one thread frees serves all threads

    Set in their place:
      MASU_DECAY=2s
    ");
}

/// masu reads `MALLOC_CONF` too, and the options that it reads from there stay there.
#[test]
fn what_is_read_under_its_own_name_stays_one_list() {
    assert_eq!(
        translate(&["--bare", "MALLOC_CONF=prof:true,dirty_decay_ms:0,lg_prof_sample:17"], 0),
        "MALLOC_CONF=prof:true,lg_prof_sample:17\nMASU_DECAY=0\n"
    );
    let dumps = "MALLOC_CONF=lg_prof_interval:30,prof_gdump:true,prof_leak_error:true,\
                 prof_thread_active_init:false";
    assert_eq!(translate(&["--bare", dumps], 0), format!("{dumps}\n"));
}

/// The form for scripts; of two options with the same meaning, the later one wins.
#[test]
fn bare_is_what_env_takes() {
    let all = "MIMALLOC_PURGE_DELAY=100 MIMALLOC_SHOW_STATS=1 TCMALLOC_HEAP_LIMIT_MB=512 \
               MALLOC_CONF=dirty_decay_ms:-1 GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.rtld.nns=4";
    assert_eq!(
        translate(&["--bare", all], 0),
        "MASU_DECAY=never\nMASU_SHOW_STATS=1\nMASU_LIMIT_HARD=512MiB\nMASU_HUGE_PAGES=on\n"
    );
}

/// mimalloc takes an option without a value for one that is switched on.
#[test]
fn an_empty_value_is_one_to_mimalloc() {
    assert_eq!(translate(&["--bare", "MIMALLOC_VERBOSE="], 0), "MASU_VERBOSE=1\n");
    assert!(translate(&["MIMALLOC_VERBOSE="], 0).contains("  MIMALLOC_VERBOSE=  MASU_VERBOSE=1\n"));
}

#[test]
fn libraries_of_others_leave_ld_preload() {
    let list = "LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2:/usr/lib/libfoo.so";
    assert!(translate(&[list], 0).contains("  LD_PRELOAD=libmasu.so.0:/usr/lib/libfoo.so\n"));
    // `masu run` puts its own library there.
    assert_eq!(translate(&["--bare", list], 0), "LD_PRELOAD=/usr/lib/libfoo.so\n");
    assert_eq!(translate(&["--bare", "LD_PRELOAD=libjemalloc.so.2"], 0), "");
}

#[test]
fn without_arguments_the_environment_is_translated() {
    let mut command = masu();
    for (name, _) in std::env::vars() {
        if ["MALLOC_", "MIMALLOC_", "TCMALLOC_", "GLIBC_"]
            .iter()
            .any(|begin| name.starts_with(begin))
        {
            command.env_remove(name);
        }
    }
    command.arg("translate");
    assert_eq!(
        stdout(&command.output().unwrap()),
        "No variable here sets an option of another allocator.\n"
    );
    command.args(["--bare"]).env("MALLOC_CONF", "background_thread:true");
    assert_eq!(stdout(&command.output().unwrap()), "MASU_BACKGROUND_THREAD=on\n");
}

#[test]
fn mistakes_name_the_way_out() {
    assert!(
        translate(&["MALLOC_CONF=dirty_decay_m:1"], 1)
            .contains("not known; did you mean dirty_decay_ms?")
    );
    let words = "not understood: it takes always or never or default\n";
    assert!(translate(&["MALLOC_CONF=thp:maybe"], 1).contains(words));
    // In bytes it would be no number that masu takes.
    for (mib, code) in [(u64::MAX >> 20, 0), ((u64::MAX >> 20) + 1, 1)] {
        translate(&[&format!("TCMALLOC_HEAP_LIMIT_MB={mib}")], code);
    }
    let pages = translate(&["GLIBC_TUNABLES=glibc.malloc.hugetlb=2"], 0);
    assert!(pages.contains("MASU_HUGE_PAGES=on: hugetlbfs has no counterpart"), "{pages}");
    let mixed = translate(&["MALLOC_CONF=thp:maybe,bogus:1,thp:always"], 1);
    assert!(mixed.ends_with("  MASU_HUGE_PAGES=on\n\n2 options were not understood.\n"), "{mixed}");
    assert_eq!(
        translate(&["--bare", "MALLOC_CONF=bogus:1"], 1),
        "masu: warning: `bogus:1`: not known\n"
    );
    assert!(!translate(&["MALLOC_CONF=bogus:1"], 1).contains("Nothing is left"));
    assert!(translate(&["MALLOC_ARENAS_MAX=2"], 2).contains("did you mean MALLOC_ARENA_MAX?"));
    assert!(translate(&["MASU_DECAY=2s"], 2).contains("it is masu's own"));
    for word in ["dirty_decay_ms:1", "=2"] {
        assert!(translate(&[word], 2).contains(&format!("`{word}` is not NAME=VALUE")));
    }
}

/// Every option that an allocator has in its sources, and those of earlier versions that scripts still set.
#[test]
fn every_option_of_the_others_is_known() {
    let lines = include_str!("options_of_others.txt").lines();
    let mut options = 0;
    for line in lines.filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (form, names) = line.split_once(": ").expect("FORM: NAMES");
        for name in names.split_whitespace() {
            let variable = form.replace("NAME", name);
            let output = masu().args(["translate", &variable]).output().expect("runs");
            let said = stdout(&output);
            assert!(output.status.code() != Some(2), "{variable}: {said}");
            assert!(!said.contains("not known"), "{variable}: {said}");
            options += 1;
        }
    }
    assert!(options > 200, "{options} options");
}

//! `masu run` where it works: the program runs as it would by itself, but with the library in it.

mod common;

use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::{fs, process};

use common::{Fixture, copy, masu, stdout};

#[test]
fn the_library_is_mapped_and_nothing_else_changes() {
    let fixture = Fixture::new();
    let output = fixture.run().args(["--", "cat", "/proc/self/maps"]).output().unwrap();
    assert!(output.status.success());
    assert!(stdout(&output).contains("libwitness.so"), "{}", stdout(&output));
    assert_eq!(fixture.stderr(&output), "");
}

#[test]
fn the_dashes_may_be_left_out_and_the_programs_options_are_its_own() {
    let fixture = Fixture::new();
    let output = fixture.run().args(["echo", "--stats", "-n", "--", "x"]).output().unwrap();
    assert_eq!(stdout(&output), "--stats -n -- x\n");
}

#[test]
fn the_exit_status_is_the_programs() {
    let fixture = Fixture::new();
    let status =
        |script: &str| fixture.run().args(["--", "sh", "-c", script]).output().unwrap().status;
    assert_eq!(status("exit 42").code(), Some(42));
    assert_eq!(status("kill -TERM $$").signal(), Some(15));
    assert_eq!(status("kill -KILL $$").signal(), Some(9));
}

#[test]
fn the_program_takes_the_process_over() {
    let fixture = Fixture::new();
    let mut command = process::Command::new(env!("CARGO_BIN_EXE_masu"));
    command.args(["run", "--lib"]).arg(fixture.witness()).args(["sh", "-c", "echo $$"]);
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    let id = child.id();
    assert_eq!(stdout(&child.wait_with_output().unwrap()), format!("{id}\n"));
}

/// Rust's start-up ignores SIGPIPE, its `Command` resets the signal mask, and both open closed
/// standard streams. The program must not notice any of that.
#[test]
fn signals_and_streams_are_inherited_untouched() {
    let fixture = Fixture::new();
    let witness = fixture.witness().display().to_string();
    let wrapped = ["env", env!("CARGO_BIN_EXE_masu"), "run", "--lib", &witness];
    // Shells change the mask and the streams themselves; python does only what it is told.
    let state = |setup: &str, prefix: &[&str], look: &[&str]| {
        let python = format!(
            "import os, signal, sys\n\
             signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n\
             {setup}\n\
             os.execvp(sys.argv[1], sys.argv[1:])"
        );
        let mut command = process::Command::new("python3");
        command.args(["-c", &python]).args(prefix).args(look);
        let output = command.output().unwrap();
        format!("{}{}", stdout(&output), output.status)
    };
    let signals = |setup: &str, prefix: &[&str]| {
        let lines = state(setup, prefix, &["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]);
        let mask = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
        let masks: Vec<u64> = lines.lines().filter_map(mask).collect();
        (masks[0], masks[1])
    };
    const USR1: u64 = 1 << 9;
    const PIPE: u64 = 1 << 12;
    for (setup, blocked, ignored) in [
        ("", 0, 0),
        ("signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])", USR1, 0),
        ("signal.signal(signal.SIGPIPE, signal.SIG_IGN)", 0, PIPE),
    ] {
        let bare = signals(setup, &["env"]);
        assert_eq!((bare.0 & USR1, bare.1 & PIPE), (blocked, ignored), "{setup:?} has its effect");
        assert_eq!(signals(setup, &wrapped), bare, "with {setup:?}");
    }
    for prefix in [&["env"][..], &wrapped] {
        let closed = state("os.close(0)", prefix, &["readlink", "/proc/self/fd/0"]);
        assert_eq!(closed, "exit status: 1");
    }
}

/// This is how the engine tells them from variables that the user has set.
#[test]
fn options_of_the_command_line_are_told_as_such() {
    let fixture = Fixture::new();
    let said = |command: &mut assert_cmd::Command| {
        let output = command.args(["--", "sh", "-c", "echo $MASU_CONF_COMMAND"]).output().unwrap();
        stdout(&output)
    };
    assert_eq!(said(&mut fixture.run()), "\n");
    let mut command = fixture.run();
    command.env("MASU_BUDGET", "1MiB").env("MASU_CONF_COMMAND", "DECAY:1s");
    command.args(["--conf", "decay:2s", "--policy", "container", "--stats"]);
    let list = "DECAY:1s,DECAY:2s,POLICY:container,SHOW_STATS:text,STATS_FILE:stderr\n";
    assert_eq!(said(&mut command), list);
}

#[test]
fn what_ld_preload_held_stays_behind_it() {
    let fixture = Fixture::new();
    let other = fixture.cc("libother.so", &["-shared", "-fPIC"], "int other;");
    let (witness, other) = (fixture.witness(), other.display().to_string());
    let mut command = fixture.run();
    command.env("LD_PRELOAD", &other).args(["sh", "-c", "echo $LD_PRELOAD; cat /proc/$$/maps"]);
    let seen = stdout(&command.output().unwrap());
    let expected = format!("{}:{other}", witness.display());
    assert_eq!(seen.lines().next(), Some(&*expected));
    assert!(seen.contains("libother.so ") || seen.contains("libother.so\n"), "{seen}");

    // Running masu under masu names the library once.
    let mut command = fixture.run();
    command.env("LD_PRELOAD", &witness).args(["printenv", "LD_PRELOAD"]);
    assert_eq!(stdout(&command.output().unwrap()), format!("{}\n", witness.display()));
}

#[test]
fn a_rival_in_ld_preload_is_told() {
    let fixture = Fixture::new();
    let rival = fixture.rival("libjemalloc.so.2");
    let program = fixture.program("ok", &[]);
    let said = fixture.ran(fixture.run().env("LD_PRELOAD", rival).arg(program));
    insta::assert_snapshot!(said, @"masu: warning: LD_PRELOAD names libjemalloc.so.2 too; masu comes first and serves malloc");
}

#[test]
fn paths_with_spaces_are_paths() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("my programs")).unwrap();
    let program = fixture.program("my programs/a program", &[]);
    assert_eq!(fixture.ran(fixture.run().arg(&program)), "");
    let script = format!("#!{}\n", fixture.program("plain", &[]).display());
    let script = fixture.script("my programs/a script", &script);
    assert_eq!(fixture.ran(fixture.run().arg(script)), "");
}

#[test]
fn scripts_run_and_one_without_a_first_line_goes_to_sh() {
    let fixture = Fixture::new();
    let script = fixture.script("direct", "#!/bin/sh\necho ok\n");
    assert_eq!(fixture.ran(fixture.run().arg(script)), "");
    let script = fixture.script("by-env", "#!/usr/bin/env sh\necho ok\n");
    assert_eq!(fixture.ran(fixture.run().arg(script)), "");
    let script = fixture.script("bare", "echo \"$1\"\n");
    assert_eq!(fixture.ran(fixture.run().arg(script).arg("ok")), "");
}

#[test]
fn the_library_is_found_beside_the_command() {
    for place in ["bin/libmasu.so", "lib/masu/libmasu.so", "lib/libmasu.so.0", "lib64/libmasu.so"] {
        let fixture = Fixture::new();
        let (command, library) = (fixture.path("bin/masu"), fixture.path(place));
        fs::create_dir_all(command.parent().unwrap()).unwrap();
        fs::create_dir_all(library.parent().unwrap()).unwrap();
        copy(env!("CARGO_BIN_EXE_masu"), &command);
        fs::copy(fixture.witness(), &library).unwrap();
        // The name for linking comes and goes with the headers: what is to last has the other one.
        if place.ends_with(".so.0") {
            symlink("libmasu.so.0", library.with_file_name("libmasu.so")).unwrap();
        }
        // A link elsewhere, as in /usr/local/bin, leads to the same installation.
        symlink(&command, fixture.path("link")).unwrap();
        for name in [&command, &fixture.path("link")] {
            let mut masu = process::Command::new(name);
            let output = masu.args(["run", "printenv", "LD_PRELOAD"]).output().unwrap();
            let found = stdout(&output);
            assert_eq!(found, format!("{}\n", library.display()), "{}", fixture.stderr(&output));
        }
    }
}

#[test]
fn a_relative_library_becomes_absolute() {
    let fixture = Fixture::new();
    fixture.witness();
    let mut command = masu();
    command.current_dir(fixture.path("")).args(["run", "--lib", "libwitness.so", "printenv"]);
    let output = command.arg("LD_PRELOAD").output().unwrap();
    assert_eq!(stdout(&output), format!("{}\n", fixture.witness().display()));
}

#[test]
fn options_reach_the_library_and_win_over_the_environment() {
    let fixture = Fixture::new();
    let mut command = fixture.run();
    command.env("MASU_CONF", "decay:9s").env("MASU_DECAY", "8s").env("MASU_SHOW_STATS", "0");
    command.args(["--stats", "--conf", "decay:2s,run.cache:1MiB", "--conf", "budget:8MiB"]);
    // An option for a key wins over the same key in the list.
    command.args(["--conf", "show_stats:0"]);
    let output = command.args(["sh", "-c", "env | grep ^MASU_ | sort"]).output().unwrap();
    insta::assert_snapshot!(stdout(&output), @r"
    MASU_BUDGET=8MiB
    MASU_CONF=decay:9s
    MASU_CONF_COMMAND=DECAY:2s,RUN_CACHE:1MiB,BUDGET:8MiB,SHOW_STATS:0,SHOW_STATS:text,STATS_FILE:stderr
    MASU_DECAY=2s
    MASU_RUN_CACHE=1MiB
    MASU_SHOW_STATS=text
    MASU_STATS_FILE=stderr
    ");
}

#[test]
fn limits_and_the_policy_are_options_of_their_own() {
    let fixture = Fixture::new();
    let variables = |options: &[&str]| {
        let mut command = fixture.run();
        command.env("MASU_LIMIT_HARD", "1MiB").args(["--conf", "limit.hard:2GiB"]).args(options);
        let output = command.args(["sh", "-c", "env | grep '^MASU_[LP]' | sort"]).output().unwrap();
        stdout(&output)
    };
    assert_eq!(variables(&[]), "MASU_LIMIT_HARD=2GiB\n");
    let all = ["--limit", "512MiB", "--soft-limit", "400MiB", "--policy", "container@1"];
    insta::assert_snapshot!(variables(&all), @r"
    MASU_LIMIT_HARD=512MiB
    MASU_LIMIT_SOFT=400MiB
    MASU_POLICY=container@1
    ");
    assert_eq!(variables(&["--limit", "off", "--soft-limit", "1GiB"]).lines().count(), 2);
}

#[test]
fn programs_with_an_allocator_of_their_own_run_with_a_warning() {
    let fixture = Fixture::new();
    let warned = |name: &str, flags: &[&str], extra: &str| {
        let source = format!("#include <stdio.h>\n{extra}\nint main(void) {{ puts(\"ok\"); }}");
        let program = fixture.cc(name, flags, &source);
        let said = fixture.ran(fixture.run().arg(program));
        said.trim_start_matches("masu: warning: ").to_owned()
    };
    let function = |name: &str| format!("void *{name}(unsigned long n) {{ return (void *)n; }}");
    let jemalloc = "has jemalloc built in: masu serves only what does not use it\n";

    for name in ["je_malloc", "_rjem_malloc"] {
        assert_eq!(warned(name, &[], &function(name)), format!("`{name}` {jemalloc}"));
    }
    for (function_name, known) in [
        ("mi_malloc", "mimalloc"),
        ("tc_malloc", "tcmalloc"),
        ("sn_rust_alloc", "snmalloc"),
        ("__scudo_print_stats", "Scudo"),
    ] {
        let said = warned(known, &[], &function(function_name));
        assert!(said.starts_with(&format!("`{known}` has {known} built in: ")), "{said}");
    }

    // A stripped one is recognised by its messages.
    let message = "const char *const volatile messages[] = {\"<jemalloc>: Malformed conf string\", \
        \"stats.arenas\", \"opt.narenas\"};";
    assert_eq!(warned("stripped", &["-s"], message), format!("`stripped` {jemalloc}"));

    // CPython has one that it does not use, unless it is built without the global lock.
    let python = |more: &str| {
        format!(
            "const char *const volatile messages[] = {{\"mimalloc: error: \", \"mimalloc_%s\", \
            \"Unknown PYTHONMALLOC allocator\", \"{more}\"}};"
        )
    };
    assert_eq!(warned("python3.13", &["-s"], &python("")), "");
    let said = warned("python3.13t", &["-s"], &python("experimental free-threading build (%.80s)"));
    assert!(said.starts_with("`python3.13t` has mimalloc built in: "), "{said}");

    let own = "void *__libc_malloc(unsigned long); \
        void *malloc(unsigned long n) { return __libc_malloc(n); }";
    assert_eq!(
        warned("own", &["-rdynamic"], own),
        "`own` defines malloc itself, and that one wins: masu will serve nothing\n"
    );

    // As a library it leaves malloc to masu, and with it the names that masu has too, but not names that masu lacks.
    let shared = ["-shared", "-fPIC", "-Wl,-soname,libjemalloc.so.2"];
    let functions = format!("{}\n{}", function("mallocx"), function("je_mallctl"));
    let library = fixture.cc("libjemalloc.so.2", &shared, &functions);
    let rpath = format!("-Wl,--no-as-needed,-rpath,{}", fixture.path("").display());
    let calls = |function: &str| {
        let call = format!(
            "void *{function}(unsigned long); void *volatile p;\n\
            __attribute__((constructor)) static void call(void) {{ p = {function}(0); }}"
        );
        warned(&format!("calls_{function}"), &[&rpath, library.to_str().unwrap()], &call)
    };
    assert_eq!(calls("mallocx"), "");
    let said = calls("je_mallctl");
    let own = "`calls_je_mallctl` calls jemalloc's own functions, which stay jemalloc's: ";
    assert!(said.starts_with(own), "{said}");
}

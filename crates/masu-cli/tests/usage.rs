//! The command line: help, mistakes, completions, manual pages.

mod common;

use std::fs::{self, File};
use std::process::{Command, Stdio};

use common::{Fixture, masu, stdout};

fn answer(arguments: &[&str], code: i32) -> (String, String) {
    let output = masu().args(arguments).output().unwrap();
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{said}");
    (stdout(&output), said)
}

#[test]
fn help() {
    insta::assert_snapshot!("masu", answer(&["--help"], 0).0);
    insta::assert_snapshot!("masu-run", answer(&["run", "--help"], 0).0);
    insta::assert_snapshot!("masu-bench", answer(&["bench", "--help"], 0).0);
    insta::assert_snapshot!("masu-doctor", answer(&["doctor", "--help"], 0).0);
    for verb in ["explain", "watch", "top", "stats", "purge", "prof", "export"] {
        insta::assert_snapshot!(format!("masu-{verb}"), answer(&[verb, "--help"], 0).0);
    }
    insta::assert_snapshot!("masu-unit", answer(&["unit", "--help"], 0).0);
    insta::assert_snapshot!("masu-translate", answer(&["translate", "--help"], 0).0);
    assert_eq!(answer(&["--version"], 0).0, concat!("masu ", env!("CARGO_PKG_VERSION"), "\n"));
    assert_eq!(answer(&["help"], 0), answer(&["--help"], 0));
    assert_eq!(answer(&["help", "doctor"], 0), answer(&["doctor", "--help"], 0));
    assert!(answer(&["help", "docter"], 2).1.contains("'doctor'"));
    let (out, said) = answer(&[], 2);
    assert_eq!(out, "");
    assert!(said.contains("Usage: masu <COMMAND>"), "{said}");
}

#[test]
fn mistyped_command_lines() {
    let said = answer(&["run"], 2).1;
    assert!(said.contains("<COMMAND>..."), "{said}");
    let said = answer(&["run", "--stat", "ls"], 2).1;
    assert!(said.contains("'--stats'"), "{said}");
    let said = answer(&["doctor", "--run", "-p", "1"], 2).1;
    assert!(said.contains("cannot be used with"), "{said}");
    let said = answer(&["rum", "ls"], 2).1;
    assert!(said.contains("'run'"), "{said}");
    insta::assert_snapshot!(answer(&["ls", "-l", "."], 2).1, @r"
    masu: `ls` is a program, not a command of masu
      to run it on masu:  masu run -- ls -l .
      to compare:         masu bench -- ls -l .
    ");
}

#[test]
fn a_process_in_place_of_a_program_is_told() {
    for (verb, what) in [("watch", "watch"), ("prof", "profile"), ("doctor", "check")] {
        for arguments in [&[verb, "4194305"][..], &[verb, "--", "4194305"]] {
            let said = answer(arguments, 2).1;
            let way = format!("to {what} process 4194305: masu {verb} -p 4194305\n");
            assert!(said.ends_with(&way), "{said}");
        }
    }
    assert!(!answer(&["watch", "4194305", "x"], 127).1.contains("-p"));
}

#[test]
fn an_option_behind_the_program_goes_to_it_and_that_is_said() {
    let fixture = Fixture::new();
    let program = fixture.program("program", &[]);
    let program = program.to_str().unwrap();
    let said = |arguments: &[&str]| fixture.ran(fixture.run().args(arguments));
    insta::assert_snapshot!(said(&[program, "--stats"]), @r"
    masu: warning: `--stats` comes after `program`, so it goes to program
      for masu:        masu run --stats … -- program …
      for program, without this warning: masu run -- program … --stats
    ");
    assert!(said(&[program, "x", "--limit=1GiB"]).contains("`--limit=1GiB` comes after"));
    for fine in
        [&["--", program, "--stats"][..], &[program, "--", "--stats"], &[program, "--rounds"]]
    {
        assert_eq!(said(fine), "", "{fine:?}");
    }
}

#[test]
fn mistyped_options_name_the_nearest_key() {
    let said = |conf: &str| {
        let fixture = Fixture::new();
        fixture.refused(fixture.run().args(["--conf", conf, "--", "echo", "ran"]), 2)
    };
    insta::assert_snapshot!(said("dekay:2s"), @r"
    masu: --conf: unknown key dekay; did you mean decay?
      `masu run --help` lists the keys
    ");
    insta::assert_snapshot!(said("decay:soon,speed:high"), @r#"
    masu: --conf: decay: "soon" is not a time like 500ms, 2s or never
    masu: --conf: unknown key speed
      `masu run --help` lists the keys
    "#);
    assert!(said(":1").starts_with("masu: --conf: empty key\n"), "{}", said(":1"));
    insta::assert_snapshot!(said("decay"), @r#"
    masu: --conf: decay: "" is not a time like 500ms, 2s or never
      `masu run --help` lists the keys
    "#);
}

#[test]
fn mistyped_limits_and_policies() {
    let said = |options: &[&str]| {
        let fixture = Fixture::new();
        fixture.refused(fixture.run().args(options).args(["--", "echo", "ran"]), 2)
    };
    insta::assert_snapshot!(said(&["--limit", "512 apples"]), @r#"masu: --limit: "512 apples" is not a size like 512MiB or off"#);
    insta::assert_snapshot!(said(&["--soft-limit", "512MiB,decay:1s"]), @r#"masu: --soft-limit: "512MiB;decay:1s" is not auto, a size like 512MiB or off"#);
    insta::assert_snapshot!(said(&["--policy", "fast"]), @r#"masu: --policy: "fast" is not default, low-memory, throughput, container, realtime, hardened or debug"#);
    insta::assert_snapshot!(said(&["--policy", "contianer"]), @r#"masu: --policy: "contianer" is not default, low-memory, throughput, container, realtime, hardened or debug; did you mean container?"#);
    insta::assert_snapshot!(said(&["--conf", "policy:low_memry"]), @r#"
    masu: --conf: policy: "low_memry" is not default, low-memory, throughput, container, realtime, hardened or debug; did you mean low-memory?
      `masu run --help` lists the keys
    "#);
    insta::assert_snapshot!(said(&["--limit", "0"]), @r"
    masu: --limit: 0 sets no limit
      leave --limit out; `--limit off` removes one that the environment sets
    ");
    assert!(said(&["--soft-limit", "00 KiB"]).contains("--soft-limit: 00 KiB sets no limit"));
    insta::assert_snapshot!(said(&["--limit", ""]), @r#"masu: --limit: "" is not a size like 512MiB or off"#);
    insta::assert_snapshot!(said(&["--limit", "1GiB", "--soft-limit", "2GiB"]), @r"
    masu: --soft-limit 2GiB is above --limit 1GiB, which takes effect first
      make the soft limit smaller than the hard limit
    ");
}

#[test]
fn mistyped_numbers() {
    for (arguments, option, takes) in [
        (&["export", "--most", "x"][..], "'--most <N>'", "a whole number from 0 to"),
        (&["explain", "--most", "x", "1"], "'--most <PERCENT>'", "a percentage, such as 40"),
        (&["bench", "--rounds", "x", "ls"], "'--rounds <N>'", "a whole number from 1 to 65535"),
        (&["export", "--max-age", "x"], "'--max-age <T>'", "500ms"),
        (&["purge", "-p", "1", "--wait", "x"], "'--wait <T>'", "500ms"),
        (&["top", "--every", "x"], "'--every <T>'", "500ms"),
        (&["watch", "--for", "x", "ls"], "'--for <T>'", "500ms"),
        (&["bench", "--time", "x", "ls"], "'--time <T>'", "90s"),
        (&["stats", "-p", "x"], "'--pid <PID>'", "the number of a process"),
        (&["doctor", "-p", "x"], "'--pid [<PID>...]'", "the number of a process"),
        (&["explain", "x"], "'[PID]'", "the number of a process"),
        (&["prof", "--rate", "x", "--", "ls"], "--rate", "512KiB"),
        (&["export", "--rate", "x"], "--rate", "512KiB"),
        (&["prof", "--leaks", "--most", "x", "--", "ls"], "--most", "a size like"),
    ] {
        let said = answer(arguments, 2).1;
        let has = |word: &str| said.contains(word);
        assert!(has(option) && has(takes), "{arguments:?}: {said}");
        assert!(has("'x'") || has("\"x\""), "{arguments:?}: {said}");
        assert!(!has("invalid digit") && !has("float"), "{said}");
    }
}

#[test]
fn a_limit_that_nothing_starts_under_is_told() {
    let fixture = Fixture::new();
    let program = fixture.program("program", &[]);
    let said = |limit: &str| fixture.ran(fixture.run().args(["--limit", limit]).arg(&program));
    assert_eq!(said("2MiB"), "");
    insta::assert_snapshot!(said("1MiB"), @"masu: warning: --limit 1MiB is less than programs need (a shell 2 MiB, Python 4, Ruby 8): malloc will fail from the start");
    assert!(said("1").contains("--limit 1 (1 byte; did you mean 1MiB?) is less than"));
    assert!(said("512").contains("--limit 512 (512 bytes; did you mean 512MiB?) is less than"));
}

#[test]
fn completions_know_the_options() {
    for shell in ["bash", "zsh", "fish", "elvish"] {
        let script = answer(&["completions", shell], 0).0;
        assert!(script.contains("stats") && script.contains("conf"), "{shell}");
    }
    let bash = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn();
    let mut bash = bash.unwrap();
    let script = answer(&["completions", "bash"], 0).0;
    std::io::Write::write_all(&mut bash.stdin.take().unwrap(), script.as_bytes()).unwrap();
    assert!(bash.wait().unwrap().success());
}

/// Those that only tests and masu itself use.
#[test]
fn completions_do_not_offer_hidden_options() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = answer(&["completions", shell], 0).0;
        let dashes = if shell == "fish" { "-l " } else { "--" };
        let has = |option: &str| script.contains(&format!("{dashes}{option}"));
        assert!(["remove", "schema", "help", "version"].into_iter().all(has), "{shell}");
        assert!(!has("root") && !has("service"), "{shell}");
    }
}

#[test]
fn manual_pages_are_written() {
    let fixture = Fixture::new();
    let directory = fixture.path("share/man");
    answer(&["man", "--dir", directory.to_str().unwrap()], 0);
    let page = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
    let run = page("masu-run.1");
    assert!(run.contains(".SH \"EXIT STATUS\"") && run.contains("decay:500ms"), "{run}");
    let bench = page("masu-bench.1");
    assert!(bench.contains(".SH EXAMPLES") && bench.contains("larson"), "{bench}");
    for verb in ["doctor", "prof", "watch"] {
        assert!(page(&format!("masu-{verb}.1")).contains(".SH \"EXIT STATUS\""), "{verb}");
    }
    assert!(page("masu.1").contains(".TH masu 1"));
    // Options are shown with their values.
    assert!(run.contains("[\\fB\\-\\-limit\\fR \\fISIZE\\fR]"), "{run}");
    assert!(run.contains("[\\fB\\-\\-stats\\fR[=\\fIFILE\\fR]]"), "{run}");
    let explain = page("masu-explain.1");
    assert!(explain.contains("[\\-\\-most PERCENT] [\\-p] PID"), "{explain}");
    for name in ["libmasu.3", "masu-conf.7"] {
        let page = page(name);
        assert!(page.contains("MASU_CONF") && page.contains("MASU_SHOW_STATS"), "{page}");
        assert!(!page.contains("@KEYS@") && !page.contains("@VERSION@"), "{name} has a mark left");
    }
    assert!(page("masu-conf.7").contains("MASU_RETAIN_FULL"));
    // The page on stdout is the same.
    assert_eq!(answer(&["man", "run"], 0).0, run);
    assert_eq!(answer(&["man", "masu-run"], 0).0, run);
    assert!(answer(&["man", "rum"], 2).1.contains("there are masu-run, "));
}

/// Runs `masu man run` in a separate terminal, with only `viewers` in the path; returns the exit code and what the
/// terminal shows.
fn man_in_a_terminal(fixture: &Fixture) -> Option<(i32, String)> {
    let command = format!("{} man run", env!("CARGO_BIN_EXE_masu"));
    let script = ["/usr/bin/script", "/bin/script"].iter().find(|path| fs::exists(path).unwrap());
    let Some(script) = script else {
        eprintln!("left out: there is no `script`, which makes a terminal");
        return None;
    };
    let output = Command::new(script)
        .args(["-qec", &command, "/dev/null"])
        .env("PATH", fixture.path("viewers"))
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Some((output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap()))
}

#[test]
fn a_terminal_gets_a_page_and_no_source() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("viewers")).unwrap();
    let Some((code, said)) = man_in_a_terminal(&fixture) else { return };
    assert!(code == 1 && said.contains("neither man nor mandoc nor groff"), "{code}: {said}");
    assert!(said.contains("masu man masu-run > masu-run.1"), "{said}");
    assert!(!said.contains(".TH"), "{said}");

    let first = "read first; echo \"$0 $*: $first\"";
    fixture.script("viewers/groff", &format!("#!/bin/sh\n{first}"));
    let (code, said) = man_in_a_terminal(&fixture).unwrap();
    assert!(code == 0 && said.contains("groff -man -Kutf8 -Tutf8: .ie"), "{code}: {said}");
    // A viewer that does not know -l is skipped.
    fixture.script("viewers/man", "#!/bin/sh\nexit 1");
    assert!(man_in_a_terminal(&fixture).unwrap().1.contains("groff -man"));
    fixture.script("viewers/man", &format!("#!/bin/sh\n{first}"));
    let (code, said) = man_in_a_terminal(&fixture).unwrap();
    assert!(code == 0 && said.contains("man -l -: .ie"), "{code}: {said}");
}

/// groff reports what is wrong with a page.
#[test]
fn manual_pages_are_sound() {
    let fixture = Fixture::new();
    let directory = fixture.path("man");
    answer(&["man", "--dir", directory.to_str().unwrap()], 0);
    for page in fs::read_dir(directory).unwrap() {
        let page = page.unwrap().path();
        let groff =
            Command::new("groff").args(["-man", "-Kutf8", "-Tutf8", "-ww"]).arg(&page).output();
        // Without groff only the text can be checked.
        let Ok(output) = groff else { return };
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.is_empty(), "{}: {said}", page.display());
        assert!(output.stdout.len() > 500, "{}", page.display());
    }
}

#[test]
fn a_full_disk_is_an_error_and_a_closed_pipe_is_not() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    // An error that cannot be told is one all the same.
    let mut command = Command::new(env!("CARGO_BIN_EXE_masu"));
    command.args(["watch", "-p", "4194305"]).stderr(full.try_clone().unwrap());
    assert_eq!(command.status().unwrap().code(), Some(2));
    let mut command = Command::new(env!("CARGO_BIN_EXE_masu"));
    let output = command.args(["completions", "bash"]).stdout(full).output().unwrap();
    // `masu explain` and others exit with 1 for what they have found.
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("masu: cannot write the output: "));

    let script = format!("{} completions bash | head -n 1", env!("CARGO_BIN_EXE_masu"));
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

/// std takes what is written there for written, and a file that is opened later gets the number.
#[test]
fn a_closed_stdout_is_an_error() {
    let masu = env!("CARGO_BIN_EXE_masu");
    for words in ["completions bash", "man run", "translate MALLOC_CONF=thp:never", "top", "--help"]
    {
        let output =
            Command::new("sh").args(["-c", &format!("{masu} {words} >&-")]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{words}: {said}");
        assert!(said.starts_with("masu: cannot write the output: "), "{words}: {said}");
    }
    // Nothing is written there.
    let fixture = Fixture::new();
    let script = format!("{masu} man --dir {} >&- 2>&- <&-", fixture.path("man").display());
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
}

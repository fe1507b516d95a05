//! `masu doctor -- COMMAND`: each way in which a program and masu do not work together.

mod common;

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command as Process;

use assert_cmd::Command;
use common::doctor::{Finding, Severity, answer, finding, findings};
use common::{Fixture, copy, masu, set_mode, stdout};
use serde_json::Value;

const NOBODY: u32 = 65534;

fn doctor(fixture: &Fixture) -> Command {
    let mut command = masu();
    command.env_remove("LD_LIBRARY_PATH").current_dir(fixture.path(""));
    command.arg("doctor").arg("--lib").arg(fixture.witness());
    command
}

fn about(fixture: &Fixture, program: &Path, code: i32) -> Value {
    let mut command = doctor(fixture);
    command.arg("--json").arg("--").arg(program);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{}", stdout(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The problem `id`, which must stop masu in `program`.
#[track_caller]
fn stopped(fixture: &Fixture, program: &Path, id: &str) -> Finding {
    let json = about(fixture, program, 1);
    assert_eq!(json["effect"], false);
    let found = finding(&json, id);
    assert_eq!(found.severity, Severity::Problem, "{found:?}");
    found
}

#[test]
fn a_program_like_most() {
    let fixture = Fixture::new();
    let program = fixture.program("plain", &[]);
    let json = about(&fixture, &program, 0);
    assert_eq!(json["effect"], true);
    let malloc = finding(&json, "program.malloc");
    assert_eq!(malloc.severity, Severity::Ok);
    assert!(malloc.sentence.starts_with("`malloc` is bound to masu in "), "{}", malloc.sentence);
    let served = json["program"]["served"].as_array().unwrap();
    assert!(served.iter().any(|file| file.as_str().unwrap().ends_with("libc.so.6")), "{served:?}");
    assert_eq!(json["program"]["elsewhere"], serde_json::json!([]));
    let preload = finding(&json, "environment.preload");
    assert_eq!(preload.severity, Severity::Note);
    assert!(preload.fix.contains("LD_PRELOAD=") && preload.fix.contains("masu run -- "));

    // A library that LD_PRELOAD already names needs no advice.
    let mut command = doctor(&fixture);
    command.env("LD_PRELOAD", fixture.witness()).arg("--json").arg("--").arg(&program);
    let json: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    assert_eq!((&json["effect"], &json["program"]["preloaded"]), (&true.into(), &true.into()));
    assert!(findings(&json, "environment.preload").is_empty(), "{json:#}");

    let output = doctor(&fixture).arg("--").arg(program).output().unwrap();
    let first = stdout(&output).lines().next().unwrap().to_owned();
    // The machine itself may have findings.
    let first = fixture.plain(&first);
    let said = first.strip_prefix("masu would take effect in `plain`; ").expect("that it would");
    assert!(["there are no problems.", "something could be improved."].contains(&said), "{said}");
}

/// An executable at a fixed address that takes the address of `malloc` defines it for all: the loader binds the
/// libraries to the executable, and they get masu's nevertheless.
#[test]
fn a_program_at_a_fixed_address() {
    let fixture = Fixture::new();
    let source = "#include <stdlib.h>\nvoid *(*volatile taken)(size_t);\n\
        int main(void) { taken = malloc; free(malloc(8)); return taken == 0; }";
    let program = fixture.cc("fixed", &["-no-pie", "-fno-pie", "-O0"], source);
    let json = about(&fixture, &program, 0);
    assert_eq!(json["program"]["elsewhere"], serde_json::json!([]), "{json:#}");
    assert!(json["program"]["served"].as_array().unwrap().len() >= 2);
}

/// The dynamic loader is asked; neither the program nor its libraries run.
#[test]
fn nothing_of_the_program_is_run_unless_asked() {
    let fixture = Fixture::new();
    let mark = fixture.path("mark");
    let source = format!(
        "#include <fcntl.h>\n\
         __attribute__((constructor)) static void start(void) {{ creat(\"{}\", 0600); }}\n\
         int main(void) {{ start(); }}",
        mark.display()
    );
    let program = fixture.cc("marks", &[], &source);
    about(&fixture, &program, 0);
    assert!(!mark.exists(), "the program ran");
    // The witness does not print what masu prints, so the trial ends with a problem.
    let output = doctor(&fixture).args(["--run", "--"]).arg(&program).output().unwrap();
    assert!(mark.exists(), "the program did not run");
    let said = stdout(&output);
    assert!(said.contains("masu was not active in it"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

/// `env -i` does not find `masu` in a directory of the caller's PATH.
#[test]
fn a_launcher_with_an_environment_of_its_own() {
    let fixture = Fixture::new();
    let mut command = doctor(&fixture);
    let output = command.args(["--json", "--", "env", "-i", "ls"]).output().unwrap();
    let json = serde_json::from_slice(&output.stdout).unwrap();
    let fix = finding(&json, "program.launcher").fix;
    assert_eq!(fix, format!("env -i {} run -- ls", env!("CARGO_BIN_EXE_masu")));
}

#[test]
fn static_programs() {
    let fixture = Fixture::new();
    for flag in ["-static", "-static-pie"] {
        let found = stopped(&fixture, &fixture.program(flag, &[flag]), "program.linkage");
        assert!(found.sentence.contains("is statically linked"), "{}", found.sentence);
        assert!(found.fix.starts_with("link libmasu.a into it"), "{}", found.fix);
    }
}

const GO: &str = "__attribute__((section(\".go.buildinfo\"), used)) static const int go = 1;\n\
    int main(void) { return go - 1; }";

#[test]
fn go_programs() {
    let fixture = Fixture::new();
    let found = stopped(&fixture, &fixture.cc("go", &["-static"], GO), "program.linkage");
    assert!(found.fix.contains("GOMEMLIMIT"), "{}", found.fix);
    let json = about(&fixture, &fixture.cc("cgo", &[], GO), 0);
    let found = finding(&json, "program.allocator");
    assert_eq!(found.severity, Severity::Warning);
    assert!(found.sentence.contains("Go's own memory stays Go's"), "{}", found.sentence);
}

/// Needs another user's file, which only root can make. Others use the system's `su`.
#[test]
fn programs_with_rights() {
    let fixture = Fixture::new();
    if !rustix::process::geteuid().is_root() {
        stopped(&fixture, Path::new("su"), "program.rights");
        return;
    }
    let program = fixture.program("privileged", &[]);
    chown(&program, Some(NOBODY), None).unwrap();
    set_mode(&program, 0o4755);
    let found = stopped(&fixture, &program, "program.rights");
    assert!(found.sentence.contains("set-user-ID"), "{}", found.sentence);
    assert!(found.fix.contains("/etc/ld.so.preload"), "{}", found.fix);
    chown(&program, Some(0), Some(NOBODY)).unwrap();
    set_mode(&program, 0o2755);
    let found = stopped(&fixture, &program, "program.rights");
    assert!(found.sentence.contains("set-group-ID"), "{}", found.sentence);

    // Capabilities change nothing for root, so another user asks.
    let program = fixture.program("capable", &[]);
    // struct vfs_cap_data, revision 2 and effective: CAP_NET_BIND_SERVICE permitted.
    let mut capability = [0_u8; 20];
    (capability[0], capability[3], capability[5]) = (1, 2, 4);
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&program, "security.capability", &capability, flags).unwrap();
    about(&fixture, &program, 0);
    set_mode(&fixture.path(""), 0o755);
    let masu = fixture.path("masu");
    copy(env!("CARGO_BIN_EXE_masu"), &masu);
    let mut command = Process::new(masu);
    command.uid(NOBODY).gid(NOBODY).arg("doctor").arg("--lib").arg(fixture.witness());
    let output = command.arg("--").arg(program).output().unwrap();
    assert!(stdout(&output).contains("`capable` has file capabilities"), "{}", stdout(&output));
    assert_eq!(output.status.code(), Some(1));
}

/// Root may read every file, so another user asks.
#[test]
fn a_program_that_cannot_be_read() {
    let fixture = Fixture::new();
    let library = fixture.cc(
        "libmasu.so",
        &["-shared", "-fPIC"],
        "#include <stdio.h>\nvoid *malloc(unsigned long n) { (void)n; return 0; }\n\
         __attribute__((constructor)) static void start(void) {\n\
         fputs(\"masu: effective configuration\\n\", stderr); }",
    );
    let source = "#include <unistd.h>\nint main(void) { return write(1, \"ok\", 2) < 0; }";
    let program = fixture.cc("closed", &[], source);
    set_mode(&program, 0o111);
    set_mode(&fixture.path(""), 0o755);
    let masu = fixture.path("masu");
    copy(env!("CARGO_BIN_EXE_masu"), &masu);
    let ask = |options: &[&str], code: i32| -> Value {
        let mut command = Process::new(&masu);
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.args(["doctor", "--json", "--lib"]).arg(&library).args(options);
        command.env_remove("LD_LIBRARY_PATH").current_dir(fixture.path(""));
        let output = command.arg("--").arg(&program).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", stdout(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let json = ask(&[], 1);
    assert_eq!(json["effect"], Value::Null);
    let headline = json["headline"].as_str().unwrap();
    assert!(headline.starts_with("It is not known whether masu would take effect"), "{headline}");
    let all = json["findings"].as_array().unwrap();
    let about: Vec<_> =
        all.iter().filter(|it| it["id"].as_str().unwrap().starts_with("program.")).collect();
    assert_eq!(about.len(), 1, "{about:?}");
    let found = finding(&json, "program.readable");
    assert!(found.sentence.starts_with("`closed` cannot be read (Permission denied"), "{found:?}");
    // Starting it takes no right to read it.
    let json = ask(&["--run"], 0);
    assert_eq!(json["effect"], true);
    assert!(findings(&json, "program.readable").is_empty());
}

#[test]
fn programs_of_other_worlds() {
    let fixture = Fixture::new();
    let foreign = fixture.foreign();
    let found = stopped(&fixture, &foreign, "program.machine");
    assert_eq!(found.fix, "use a masu built for that machine");

    let interpreter = "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1";
    let musl = fixture.program("on-musl", &[interpreter]);
    let found = stopped(&fixture, &musl, "program.libc");
    assert!(found.sentence.contains("needs glibc"), "{}", found.sentence);

    let bytes = fs::read(&foreign).unwrap();
    fs::write(&foreign, &bytes[..100]).unwrap();
    stopped(&fixture, &foreign, "program.readable");
}

/// With musl's own compiler, if installed: musl's loader is asked in a different way.
#[test]
fn a_program_on_musl_and_a_library_that_needs_no_libc() {
    let fixture = Fixture::new();
    let library = fixture.cc(
        "libmasu.so",
        &["-shared", "-fPIC", "-nostdlib"],
        "void *malloc(unsigned long n) { return (void *)n; }",
    );
    fs::write(fixture.path("main.c"), "int main(void) { return 0; }").unwrap();
    let mut compiler = Process::new("musl-gcc");
    compiler.arg(fixture.path("main.c")).arg("-o").arg(fixture.path("on-musl"));
    if !compiler.status().is_ok_and(|status| status.success()) {
        return;
    }
    let mut command = masu();
    command.args(["doctor", "--json", "--lib"]).arg(library).arg("--");
    let output = command.arg(fixture.path("on-musl")).output().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["effect"], true, "{json:#}");
    let malloc = finding(&json, "program.malloc");
    assert!(malloc.sentence.starts_with("masu is the first library"), "{}", malloc.sentence);
    assert!(finding(&json, "program.linkage").sentence.ends_with("for musl."));
}

#[test]
fn programs_with_an_allocator_of_their_own() {
    let fixture = Fixture::new();
    let with = |name: &str, flags: &[&str], extra: &str| {
        fixture.cc(name, flags, &format!("{extra}\nint main(void) {{ return 0; }}"))
    };
    let je = "void *_rjem_malloc(unsigned long n) { return (void *)n; }";
    let json = about(&fixture, &with("inside", &[], je), 0);
    let found = finding(&json, "program.allocator");
    assert_eq!((found.severity, &json["effect"]), (Severity::Warning, &true.into()));
    assert!(found.sentence.contains("has jemalloc built in"), "{}", found.sentence);
    assert!(found.fix.contains("build it without"), "{}", found.fix);

    let own = "void *__libc_malloc(unsigned long); \
        void *malloc(unsigned long n) { return __libc_malloc(n); }";
    let program = with("own", &["-rdynamic"], own);
    let found = stopped(&fixture, &program, "program.allocator");
    assert!(found.sentence.contains("defines malloc itself"), "{}", found.sentence);
    // The loader says the same.
    let malloc = finding(&about(&fixture, &program, 1), "program.malloc");
    assert_eq!(malloc.severity, Severity::Problem);
    assert!(malloc.sentence.contains("not to masu"), "{}", malloc.sentence);

    let asan = with("asan", &[], "void __asan_init(void) {}");
    stopped(&fixture, &asan, "program.sanitizer");
}

#[test]
fn libraries_of_the_program() {
    let fixture = Fixture::new();
    let directory = fixture.path("");
    let rpath = format!("-Wl,--no-as-needed,-rpath,{}", directory.display());
    let library = |name: &str, source: &str| {
        let soname = format!("-Wl,-soname,{name}");
        fixture.cc(name, &["-shared", "-fPIC", &soname], source)
    };
    let inside =
        library("libengine.so.1", "void *mi_malloc(unsigned long n) { return (void *)n; }");
    let program = fixture.program("uses", &[&rpath, inside.to_str().unwrap()]);
    let json = about(&fixture, &program, 0);
    let found = finding(&json, "program.libraries");
    assert_eq!(found.severity, Severity::Note);
    assert!(found.sentence.ends_with("libengine.so.1 has mimalloc inside, for its own use."));

    let gone = library("libgone.so.1", "int gone;");
    let program = fixture.program("lacks", &[&rpath, gone.to_str().unwrap()]);
    fs::remove_file(gone).unwrap();
    let found = stopped(&fixture, &program, "program.libraries");
    assert!(found.sentence.contains("needs libgone.so.1, which does not exist"));
    assert!(found.fix.starts_with("install libgone.so.1"), "{}", found.fix);
}

#[test]
fn what_ld_preload_names() {
    let fixture = Fixture::new();
    let rival = fixture.rival("libjemalloc.so.2");
    let program = fixture.program("plain", &[]);
    let (masu, rival) = (fixture.witness().display().to_string(), rival.display().to_string());
    let with = |value: &str, code: i32| {
        let mut command = doctor(&fixture);
        command.env("LD_PRELOAD", value).arg("--json").arg("--").arg(&program);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", stdout(&output));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let first = finding(&with(&format!("{rival}:{masu}"), 1), "environment.rival");
    assert_eq!(first.severity, Severity::Problem);
    assert!(first.sentence.contains("jemalloc before masu"), "{}", first.sentence);
    let behind = finding(&with(&format!("{masu}:{rival}"), 0), "environment.rival");
    assert_eq!(behind.severity, Severity::Warning);
    assert!(behind.fix.starts_with("take "), "{}", behind.fix);
    // `masu run` would come first.
    assert_eq!(finding(&with(&rival, 0), "environment.rival").severity, Severity::Warning);

    let absent = finding(&with(&format!("{masu}:/no/such.so"), 0), "environment.preload");
    assert_eq!(absent.severity, Severity::Warning);
    assert!(absent.sentence.contains("cannot preload /no/such.so"), "{}", absent.sentence);
    let json = with("/no/libmasu.so", 1);
    assert_eq!(json["effect"], false);
    assert_eq!(finding(&json, "environment.preload").severity, Severity::Problem);
    assert_eq!(finding(&json, "program.malloc").severity, Severity::Problem);
}

#[test]
fn scripts() {
    let fixture = Fixture::new();
    let script = |name: &str, text: &str| fixture.script(name, text);
    let json = about(&fixture, &script("good", "#!/bin/sh\n"), 0);
    assert_eq!(json["program"]["binary"], "/bin/sh");
    let linkage = finding(&json, "program.linkage").sentence;
    assert!(linkage.starts_with("/bin/sh, which runs `"), "{linkage}");
    let lost = script("lost", "#!/no/interpreter\n");
    let found = stopped(&fixture, &lost, "program.interpreter");
    assert!(found.sentence.contains("asks for the interpreter `/no/interpreter`"));
    let clears = script("clears", "#!/usr/bin/env -S -i sh\n");
    let found = stopped(&fixture, &clears, "program.interpreter");
    assert!(found.sentence.contains("clears the environment"), "{}", found.sentence);
    let bare = script("bare", "echo ok\n");
    assert_eq!(finding(&about(&fixture, &bare, 0), "program.linkage").severity, Severity::Note);
}

#[test]
fn mistaken_questions() {
    let fixture = Fixture::new();
    let said = |arguments: &[&str]| {
        let output = doctor(&fixture).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
        fixture.stderr(&output)
    };
    assert!(said(&["--", "no-such-program"]).contains("`no-such-program`: no such program"));
    assert!(said(&["-p", "1", "--", "ls"]).contains("cannot be used with"));
    assert!(said(&["--run"]).contains("<COMMAND>"));
    insta::assert_snapshot!(said(&["-p", "4194305"]), @r"
    masu: there is no process 4194305
      `pgrep -a NAME` finds processes; `masu top` lists those on masu
    ");
}

#[test]
fn options_in_the_environment() {
    let fixture = Fixture::new();
    let mut command = doctor(&fixture);
    command.env("MASU_DEKAY", "1s").env("MASU_BUDGET", "much").env("MALLOC_ARENA_MAX", "2");
    let json = answer(&mut command, 0);
    let mistakes = findings(&json, "environment.options");
    let sentences: Vec<_> = mistakes.iter().map(|found| &*found.sentence).collect();
    assert_eq!(sentences.len(), 2, "{sentences:?}");
    assert!(
        sentences
            .contains(&"Unknown key MASU_DEKAY; did you mean MASU_DECAY? The default applies.")
    );
    assert!(mistakes.iter().all(|found| found.severity == Severity::Warning));
    let other = finding(&json, "environment.others");
    assert_eq!((other.severity, &*other.fix), (Severity::Note, "unset MALLOC_ARENA_MAX"));
}

#[test]
fn the_library() {
    let fixture = Fixture::new();
    let library = fixture.witness();
    set_mode(&library, 0o600);
    let found = finding(&answer(&mut doctor(&fixture), 0), "library.readable");
    assert_eq!(found.severity, Severity::Note);
    assert_eq!(fixture.plain(&found.fix), "chmod o+r libwitness.so");
    set_mode(&library, 0o644);
    assert!(findings(&answer(&mut doctor(&fixture), 0), "library.readable").is_empty());

    fs::create_dir(fixture.path("other")).unwrap();
    let copy = fixture.path("other/libmasu.so");
    fs::copy(&library, &copy).unwrap();
    let mut command = doctor(&fixture);
    let found =
        finding(&answer(command.env("LD_LIBRARY_PATH", fixture.path("other")), 0), "library.other");
    assert!(found.sentence.contains("other/libmasu.so"), "{}", found.sentence);
    // A link to the same file does not count as another.
    fs::remove_file(&copy).unwrap();
    symlink(&library, &copy).unwrap();
    let mut command = doctor(&fixture);
    let json = answer(command.env("LD_LIBRARY_PATH", fixture.path("other")), 0);
    assert!(findings(&json, "library.other").is_empty());

    fs::create_dir_all(fixture.path("root/etc")).unwrap();
    fs::write(fixture.path("root/etc/ld.so.preload"), "/usr/lib/libmasu.so\n").unwrap();
    let mut command = doctor(&fixture);
    let json = answer(command.arg("--root").arg(fixture.path("root")), 0);
    assert_eq!(finding(&json, "library.system").severity, Severity::Ok);
}

/// Mounting needs root, in a separate mount namespace.
#[test]
fn a_library_on_a_file_system_without_execution() {
    let fixture = Fixture::new();
    let library = fixture.witness();
    fs::create_dir(fixture.path("mount")).unwrap();
    let script = format!(
        "mount -t tmpfs -o noexec none mount || exit 77; cp {} mount/libmasu.so && exec {} doctor \
         --json --lib mount/libmasu.so",
        library.display(),
        env!("CARGO_BIN_EXE_masu")
    );
    let mut command = Process::new("unshare");
    let output =
        command.args(["-m", "sh", "-c", &script]).current_dir(fixture.path("")).output().unwrap();
    if output.stdout.is_empty() && !rustix::process::geteuid().is_root() {
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = finding(&json, "library.mount");
    assert_eq!(found.severity, Severity::Problem);
    assert!(found.sentence.contains("mounted noexec"), "{}", found.sentence);
}

#[test]
fn no_library_at_all() {
    let fixture = Fixture::new();
    let command = fixture.path("masu");
    copy(env!("CARGO_BIN_EXE_masu"), &command);
    let mut run = Process::new(command);
    let output = run.env_remove("LD_LIBRARY_PATH").args(["doctor", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = finding(&json, "library.file");
    assert_eq!(found.severity, Severity::Problem);
    assert_eq!(found.sentence, "libmasu.so is in none of these directories.");
    assert!(found.fix.ends_with("name it with --lib PATH"), "{}", found.fix);
}

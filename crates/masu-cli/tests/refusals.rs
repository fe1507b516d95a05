//! `masu run` where it cannot work: the reason, what to do, and the exit code.

mod common;

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Fixture, copy, masu, set_mode};

const NOBODY: u32 = 65534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn static_programs() {
    let fixture = Fixture::new();
    let program = fixture.program("static", &["-static"]);
    insta::assert_snapshot!(fixture.refused(fixture.run().arg(program), 125), @r"
    masu: `static` is statically linked, so no library can be preloaded into it
      link libmasu.a into it, or build it dynamically linked
    ");
    let program = fixture.program("static-pie", &["-static-pie"]);
    let said = fixture.refused(fixture.run().arg(program), 125);
    assert!(said.contains("is statically linked"), "{said}");
}

#[test]
fn programs_for_another_machine() {
    let fixture = Fixture::new();
    let said = fixture.refused(fixture.run().arg(fixture.foreign()), 125);
    let (own, other) = if cfg!(target_arch = "aarch64") { ("ARM", "x86") } else { ("x86", "ARM") };
    assert_eq!(
        said,
        format!(
            "masu: `foreign` is a 64-bit {other} program, and this masu is 64-bit {own}\n  \
             use a masu built for that machine\n"
        )
    );

    // The bare header of an i386 program: class 32, little endian, version, executable, 386.
    let mut header = vec![0; 52];
    header[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 1, 1, 1]);
    (header[16], header[18], header[20], header[40]) = (2, 3, 1, 52);
    let narrow = fixture.script("narrow", "");
    fs::write(&narrow, header).unwrap();
    let said = fixture.refused(fixture.run().arg(narrow), 125);
    assert!(said.contains("`narrow` is a 32-bit x86 program, and this masu is 64-bit"), "{said}");
    assert!(
        said.contains("\n  build the program for 64 bits: masu has no library for 32\n"),
        "{said}"
    );
}

/// The library under test needs no libc, so it serves musl's programs too; one that needs glibc
/// would stop them before `main`.
#[test]
fn a_library_for_glibc_and_a_program_on_musl() {
    let fixture = Fixture::new();
    let interpreter = "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1";
    let program = fixture.program("on-musl", &[interpreter]);
    let said = fixture.refused(fixture.run().arg(program), 125);
    assert!(
        said.starts_with("masu: `on-musl` runs on musl, and `libwitness.so` needs glibc\n"),
        "{said}"
    );
}

#[test]
fn sanitizers_that_insist_on_coming_first() {
    let fixture = Fixture::new();
    fixture.cc("libasan.so.8", &["-shared", "-fPIC", "-Wl,-soname,libasan.so.8"], "int asan;");
    let library = fixture.path("libasan.so.8");
    let program = fixture.program("asan", &["-Wl,--no-as-needed", library.to_str().unwrap()]);
    insta::assert_snapshot!(fixture.refused(fixture.run().arg(program), 125), @r"
    masu: `asan` is built with AddressSanitizer, which must be its malloc
      run it without masu, or build it without the sanitizer
    ");
}

/// Needs another user's file, which only root can make. Others use the system's `su`.
#[test]
fn programs_that_change_the_user_or_group() {
    let fixture = Fixture::new();
    if !is_root() {
        let said = fixture.refused(fixture.run().arg("su"), 125);
        assert!(said.contains("runs as another user (set-user-ID)"), "{said}");
        return;
    }
    let program = fixture.program("privileged", &[]);
    chown(&program, Some(NOBODY), None).unwrap();
    set_mode(&program, 0o4755);
    insta::assert_snapshot!(fixture.refused(fixture.run().arg(&program), 125), @r"
    masu: `privileged` runs as another user (set-user-ID), so the dynamic loader ignores LD_PRELOAD
      run it as the user it changes to, or let the administrator name libmasu.so in
      /etc/ld.so.preload, which applies to every program of the system
    ");
    chown(&program, Some(0), Some(NOBODY)).unwrap();
    set_mode(&program, 0o2755);
    let said = fixture.refused(fixture.run().arg(&program), 125);
    assert!(said.contains("runs as another group (set-group-ID)"), "{said}");
    // The bit alone is no reason: root's own set-user-ID program changes nothing for root.
    chown(&program, Some(0), Some(0)).unwrap();
    set_mode(&program, 0o6755);
    assert_eq!(fixture.ran(fixture.run().arg(&program)), "");
}

/// A script's own bits mean nothing to the kernel; its interpreter's do.
#[test]
fn a_privileged_interpreter_counts_and_a_privileged_script_does_not() {
    let fixture = Fixture::new();
    if !is_root() {
        return;
    }
    let script = fixture.script("script", "#!/bin/sh\necho ok\n");
    chown(&script, Some(NOBODY), None).unwrap();
    set_mode(&script, 0o4755);
    assert_eq!(fixture.ran(fixture.run().arg(script)), "");

    let interpreter = fixture.program("interpreter", &[]);
    chown(&interpreter, Some(NOBODY), None).unwrap();
    set_mode(&interpreter, 0o4755);
    let script = fixture.script("script", &format!("#!{}\n", interpreter.display()));
    let said = fixture.refused(fixture.run().arg(script), 125);
    assert!(said.starts_with("masu: `interpreter` runs as another user"), "{said}");
}

/// Capabilities change nothing for root, so another user has to start masu.
#[test]
fn programs_with_capabilities() {
    let fixture = Fixture::new();
    if !is_root() {
        return;
    }
    let program = fixture.program("capable", &[]);
    // struct vfs_cap_data, revision 2 and effective: CAP_NET_BIND_SERVICE permitted.
    let mut capability = [0_u8; 20];
    (capability[0], capability[3], capability[5]) = (1, 2, 4);
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&program, "security.capability", &capability, flags).unwrap();
    assert_eq!(fixture.ran(fixture.run().arg(&program)), "");

    set_mode(&fixture.path(""), 0o755);
    let masu = fixture.path("masu");
    copy(env!("CARGO_BIN_EXE_masu"), &masu);
    let mut command = Command::new(masu);
    command.uid(NOBODY).gid(NOBODY).arg("run").arg("--lib").arg(fixture.witness()).arg(program);
    let said = fixture.stderr(&command.output().unwrap());
    assert!(said.starts_with("masu: `capable` has file capabilities"), "{said}");
}

#[test]
fn scripts_are_judged_by_their_interpreter() {
    let fixture = Fixture::new();
    let interpreter = fixture.program("interpreter", &["-static"]);
    let directory = interpreter.parent().unwrap();
    let said = |name: &str, text: &str, code: i32| {
        let script = fixture.script(name, text);
        let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
        fixture.refused(fixture.run().env("PATH", path).arg(script), code)
    };
    let reason = "masu: `interpreter` is statically linked";
    let direct = format!("#!{}\n", interpreter.display());
    assert!(said("direct", &direct, 125).starts_with(reason));
    assert!(said("by-env", "#!/usr/bin/env interpreter\n", 125).starts_with(reason));
    assert!(said("split", "#!/usr/bin/env -S A=1 interpreter -x\n", 125).starts_with(reason));
    let nested = format!("#!{}\n", fixture.path("direct").display());
    assert!(said("nested", &nested, 125).starts_with(reason));
    insta::assert_snapshot!(said("cleared", "#!/usr/bin/env -S -i sh\n", 125), @r"
    masu: `cleared` clears the environment with `env -i`, and LD_PRELOAD with it
      name the interpreter on the command line, before the script
    ");
    insta::assert_snapshot!(said("lost", "#!/no/such/interpreter\n", 126), @r"
    masu: `lost` asks for the interpreter `/no/such/interpreter`: No such file or directory (os error 2)
      install it, or correct the first line of the script
    ");
}

/// An executable pipe that nobody writes to.
fn pipe(fixture: &Fixture) -> PathBuf {
    let path = fixture.path("pipe");
    let made = Command::new("mkfifo").args(["-m", "755"]).arg(&path).status().unwrap();
    assert!(made.success());
    path
}

#[test]
fn programs_that_are_not_there_or_not_executable() {
    let fixture = Fixture::new();
    insta::assert_snapshot!(fixture.refused(fixture.run().arg("no-such-program"), 127), @r"
    masu: `no-such-program`: no such program
      it is not in any directory of PATH; give its path, like ./program
    ");
    insta::assert_snapshot!(fixture.refused(fixture.run().arg("ehco"), 127), @r"
    masu: `ehco`: no such program
      did you mean echo?
    ");
    // Two changes away from `touch`, so there is no suggestion.
    let said = fixture.refused(fixture.run().arg("nosuch"), 127);
    assert!(said.contains("it is not in any directory of PATH"), "{said}");
    let said = fixture.refused(fixture.run().arg("./no-such-program"), 127);
    assert_eq!(said, "masu: `./no-such-program`: no such program\n");
    assert_eq!(fixture.refused(fixture.run().arg(""), 127), "masu: ``: no such program\n");

    fs::write(fixture.path("plain"), "text").unwrap();
    let said = fixture.refused(fixture.run().arg("./plain"), 126);
    assert!(said.starts_with("masu: `./plain` cannot be executed: Permission denied"), "{said}");
    let said = fixture.refused(fixture.run().arg("./"), 126);
    assert!(said.starts_with("masu: `./` cannot be executed: is a directory"), "{said}");
    let said = fixture.refused(fixture.run().arg(pipe(&fixture)), 126);
    assert_eq!(said, "masu: `pipe` cannot be executed: is not a regular file\n");
    // The search goes on after a file that cannot be executed, and remembers it.
    let mut command = fixture.run();
    let path = format!("{}:/usr/bin", fixture.path("").display());
    let said = fixture.refused(command.env("PATH", path).arg("plain"), 126);
    assert!(said.contains("cannot be executed: Permission denied"), "{said}");

    let damaged = fixture.script("damaged", "");
    let bytes = fs::read(fixture.program("whole", &[])).unwrap();
    fs::write(&damaged, &bytes[..100]).unwrap();
    let said = fixture.refused(fixture.run().arg(damaged), 125);
    assert!(said.starts_with("masu: `damaged` is damaged: "), "{said}");
}

#[test]
fn libraries_that_cannot_be_preloaded() {
    let fixture = Fixture::new();
    let said = |library: &Path| {
        let mut command = masu();
        command.arg("run").arg("--lib").arg(library).args(["--", "echo", "ran"]);
        fixture.refused(&mut command, 2)
    };
    let none = said(&fixture.path("none.so"));
    assert!(none.starts_with("masu: `none.so` cannot be opened: No such file"), "{none}");
    let other = fixture.cc("libother.so", &["-shared", "-fPIC"], "int other;");
    let takes = "  --lib takes an allocator's shared library, such as libmasu.so\n";
    let no_malloc = "masu: `libother.so` is not an allocator: it defines no malloc\n";
    assert_eq!(said(&other), format!("{no_malloc}{takes}"));
    fs::write(fixture.path("text"), "text").unwrap();
    let text = said(&fixture.path("text"));
    assert_eq!(text, format!("masu: `text` is not a shared library\n{takes}"));
    assert_eq!(said(&pipe(&fixture)), format!("masu: `pipe` is not a shared library\n{takes}"));
    let spaced = fixture.path("my lib.so");
    fs::copy(fixture.witness(), &spaced).unwrap();
    insta::assert_snapshot!(said(&spaced), @r"
    masu: `my lib.so` cannot be preloaded: LD_PRELOAD cannot hold a space or a colon
      link it to a path without them and name that one with --lib
    ");
}

#[test]
fn no_library_at_all() {
    let fixture = Fixture::new();
    let command = fixture.path("masu");
    copy(env!("CARGO_BIN_EXE_masu"), &command);
    // Cargo's own library path contains its builds.
    let mut run = Command::new(command);
    let output = run.env_remove("LD_LIBRARY_PATH").args(["run", "true"]).output().unwrap();
    let said = fixture.stderr(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.starts_with("masu: libmasu.so is in none of these directories:\n"), "{said}");
    assert!(said.ends_with("\n  name it with --lib PATH\n"), "{said}");
}

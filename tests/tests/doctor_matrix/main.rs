//! The doctor's answers against the truth, for every way in which a malloc comes into a program. Each program runs
//! alone and under `masu run`, and the allocators say which of them served it (`truth`); `masu doctor` is asked before
//! the start and about the process (`case`).
//!
//! Cases that need large tools (Go, Java, Python's packages) are left out where those are missing, with a line each.
//! `MASU_TEST_PYTHON` names a Python that has pyarrow or polars.

mod case;
mod languages;
mod places;
mod truth;

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use case::{Case, Refused, Served, has_file, left_out};
use masu_tests::{Compile, Program, archive, library, scratch};
use truth::LIBC;

const SYSTEM: &str = "/usr/lib/x86_64-linux-gnu";

/// The program that allocates, in C.
pub fn probe(compile: Compile) -> Program {
    compile.file("c/doctor_probe.c").build()
}

fn gcc() -> Compile {
    Compile::with("gcc")
}

/// A program like it without symbols.
fn stripped(program: Program) -> Program {
    let done = Command::new("strip").arg(program.path()).status().expect("binutils");
    assert!(done.success());
    program
}

fn command(program: &Program) -> [&Path; 1] {
    [program.path()]
}

fn masus() -> PathBuf {
    archive().expect("masu's archive")
}

#[test]
fn programs_as_most_are() {
    let program = probe(gcc());
    Case::new("dynamic", command(&program), LIBC, Served("masu")).check();
    let program = probe(gcc().flags(["-no-pie", "-fno-pie"]));
    Case::new("at a fixed address", command(&program), LIBC, Served("masu")).check();
    for flag in ["-static", "-static-pie"] {
        let program = probe(gcc().flag(flag));
        Case::new(flag, command(&program), LIBC, Refused).check();
    }
}

#[test]
fn preloaded() {
    let program = probe(gcc());
    let masu = library().expect("masu");
    let with = |value: OsString, alone: &'static str| Case {
        preload: Some(value),
        ..Case::new("preload", command(&program), alone, Served("masu"))
    };
    with(masu.into(), "masu").check_alone();
    // By another name, and by a link to it.
    let place = scratch();
    let compat = place.path().join("libjemalloc.so.2");
    symlink(masu, &compat).expect("a link");
    with(compat.into(), "masu").check_alone();
    let copy = place.path().join("allocator.so");
    std::fs::copy(masu, &copy).expect("a copy");
    with(copy.into(), "masu").check_alone();
    let jemalloc = format!("{SYSTEM}/libjemalloc.so.2");
    if has_file(&jemalloc, "jemalloc preloaded") {
        with(jemalloc.clone().into(), "jemalloc").check_alone();
        with(format!("{jemalloc}:{}", masu.display()).into(), "jemalloc").check_alone();
        with(format!("{}:{jemalloc}", masu.display()).into(), "masu").check_alone();
    }
}

#[test]
fn linked_with_the_archive() {
    for (name, flags) in [
        ("libmasu.a", &["-pie"][..]),
        ("libmasu.a at a fixed address", &["-no-pie", "-fno-pie"]),
        ("libmasu.a, static", &["-static"]),
        ("libmasu.a, static and position-independent", &["-static-pie"]),
        ("libmasu.a, what is not needed thrown away", &["-static", "-Wl,--gc-sections"]),
        ("libmasu.a, its malloc hidden from libraries", &["-Wl,--exclude-libs,ALL"]),
    ] {
        let program = gcc().flags(flags).file("c/doctor_probe.c").file(masus()).build();
        Case::new(name, command(&program), "masu", Served("masu")).check();
        let program = stripped(program);
        Case::new(name, command(&program), "masu", Served("masu")).check();
    }
}

/// `-lmasu`, as installed: found by the program's own path, or by `LD_LIBRARY_PATH`.
#[test]
fn linked_with_the_library() {
    let place = scratch();
    let directory = place.path().to_str().expect("a directory");
    for name in ["libmasu.so", "libmasu.so.0"] {
        symlink(library().expect("masu"), place.path().join(name)).expect("a link");
    }
    let compile = || gcc().file("c/doctor_probe.c").flag(format!("-L{directory}"));
    let program = compile().flag("-lmasu").flag(format!("-Wl,-rpath,{directory}")).build();
    Case::new("-lmasu", command(&program), "masu", Served("masu")).check();
    let program = stripped(program);
    Case::new("-lmasu, stripped", command(&program), "masu", Served("masu")).check();
}

#[test]
fn jemalloc_in_a_program() {
    if !has_file(format!("{SYSTEM}/libjemalloc.a"), "jemalloc linked in") {
        return;
    }
    let archive = format!("{SYSTEM}/libjemalloc.a");
    let compile = || gcc().file("c/doctor_probe.c");
    let program = compile().flag("-ljemalloc").build();
    Case::new("-ljemalloc", command(&program), "jemalloc", Served("masu")).check();
    let program = compile().file(&archive).flags(["-lm", "-ldl"]).build();
    Case::new("libjemalloc.a", command(&program), "jemalloc", Served("jemalloc")).check();
    Case::new("libjemalloc.a", command(&stripped(program)), "jemalloc", Served("jemalloc")).check();
    let program = compile().flag("-static").file(&archive).flags(["-lm", "-ldl"]).build();
    Case::new("jemalloc, static", command(&stripped(program)), "jemalloc", Refused).check();
}

/// masu under jemalloc's names is still masu, and private to one library.
#[test]
fn masu_under_names_of_its_own() {
    let program = gcc().flag("-DOWN=je_malloc").file("c/doctor_probe.c").file(private()).build();
    // It served the program; `malloc` is another's.
    Case::new("je_malloc of masu", command(&program), "masu", Served("masu"))
        .check_inside(&["masu"]);
}

/// masu's archive under private names.
fn private() -> PathBuf {
    let script = masu_tests::workspace().join("crates/libmasu/private-archive");
    let out = scratch().keep().join("libprivate.a");
    let mut make = Command::new(script);
    let done = make.args(["--prefix", "je_"]).arg(masus()).arg(&out).status().expect("bash");
    assert!(done.success());
    out
}

#[test]
fn mimalloc_in_a_program() {
    if has_file(format!("{SYSTEM}/libmimalloc.so"), "mimalloc as a library") {
        let program = gcc().flag("-Wl,--no-as-needed").file("c/doctor_probe.c").flag("-lmimalloc");
        let program = program.build();
        Case::new("-lmimalloc", command(&program), "mimalloc", Served("masu")).check();
    }
    let Some(source) = mimalloc_source() else {
        left_out("mimalloc linked in", "there are no sources of libmimalloc-sys");
        return;
    };
    let compile = |flags: &[&str]| {
        gcc()
            .flags(flags)
            .flag("-DMI_MALLOC_OVERRIDE")
            .flag("-w")
            .flag("-O2")
            .flag(format!("-I{}", source.join("include").display()))
            .file("c/doctor_probe.c")
            .file(source.join("src/static.c"))
            .build()
    };
    let program = stripped(compile(&[]));
    Case::new("mimalloc inside", command(&program), "mimalloc", Served("mimalloc")).check();
    let program = stripped(compile(&["-static"]));
    Case::new("mimalloc, static", command(&program), "mimalloc", Refused).check();
}

/// mimalloc's sources, if Cargo has the crate that contains them.
fn mimalloc_source() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))?;
    let registries = std::fs::read_dir(home.join("registry/src")).ok()?.flatten();
    let crates = registries.flat_map(|entry| std::fs::read_dir(entry.path())).flatten().flatten();
    let named = |path: &PathBuf| path.to_string_lossy().contains("/libmimalloc-sys-");
    let roots = crates.map(|entry| entry.path()).filter(named);
    let versions = ["c_src/mimalloc/v2", "c_src/mimalloc"];
    let mut sources = roots.flat_map(|root| versions.map(|version| root.join(version)));
    sources.find(|source| source.join("src/static.c").is_file())
}

#[test]
fn tcmalloc_in_a_program() {
    if !has_file(format!("{SYSTEM}/libtcmalloc_minimal.a"), "tcmalloc linked in") {
        return;
    }
    let compile = || gcc().flag("-Wl,--no-as-needed").file("c/doctor_probe.c");
    let program = compile().flag("-ltcmalloc_minimal").build();
    Case::new("-ltcmalloc_minimal", command(&program), "tcmalloc", Served("masu")).check();
    let archive = format!("{SYSTEM}/libtcmalloc_minimal.a");
    let program = stripped(compile().file(&archive).flags(["-lstdc++", "-lm"]).build());
    Case::new("libtcmalloc.a", command(&program), "tcmalloc", Served("tcmalloc")).check();
    let program =
        stripped(compile().flag("-static").file(&archive).flags(["-lstdc++", "-lm"]).build());
    Case::new("tcmalloc, static", command(&program), "tcmalloc", Refused).check();
}

#[test]
fn programs_on_musl() {
    let musl = || Compile::with("musl-gcc");
    let program = probe(musl());
    Case::new("musl", command(&program), LIBC, Served("masu")).check();
    let program = probe(musl().flag("-static"));
    Case::new("musl, static", command(&program), LIBC, Refused).check();
    let program = stripped(musl().flag("-static").file("c/doctor_probe.c").file(masus()).build());
    Case::new("musl with libmasu.a", command(&program), "masu", Served("masu")).check();
}

//! Versions of symbols: jemalloc's names and masu's own have one, which programs linked with the library ask for;
//! programs linked with something else are served all the same.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;

use masu_tests::{Compile, Program, Run, is_masu, library, scratch, workspace};

const VERSION: &str = "MASU_0.1";

/// The names that have a version.
const VERSIONED: [&str; 15] = [
    "dallocx",
    "mallctl",
    "mallctlbymib",
    "mallctlnametomib",
    "malloc_message",
    "malloc_stats_print",
    "mallocx",
    "masu_get_limits",
    "masu_set_limit_callback",
    "masu_set_limits",
    "nallocx",
    "rallocx",
    "sallocx",
    "sdallocx",
    "xallocx",
];

/// Whether the library under test has versions: masu, if Rust used a linker that supports them.
fn versioned() -> bool {
    let has = is_masu() && cfg!(target_env = "gnu");
    if !has {
        println!("only masu has versions, and only with glibc");
    }
    has
}

/// The symbols that `file` takes from others (`UND`) or defines, as readelf writes them.
fn symbols(file: &std::path::Path, undefined: bool) -> BTreeSet<String> {
    let table = Run::new("readelf").bare().args(["-W", "--dyn-syms"]).arg(file).run().success();
    let rows = table.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let rows = rows.filter(|row| row.len() >= 8 && (row[6] == "UND") == undefined);
    rows.filter(|row| row[4] != "LOCAL").map(|row| row[7].to_owned()).collect()
}

/// `tests/c/jemalloc/versions.c`, linked against `library`. A program that is not position-independent copies a
/// variable of the library.
fn program(library: &std::path::Path, place: &str) -> Program {
    let compile = Compile::c("c/jemalloc/versions.c").flags(["-fno-lto", place, "-I"]);
    compile.flag(workspace().join("crates/libmasu/include/masu/compat")).file(library).build()
}

const PLACES: [&str; 2] = ["-pie", "-no-pie"];

/// Names that glibc and the C++ library export have their versions, which programs ask for: the loader accepts such a
/// name from a symbol without a version, not from one with another.
#[test]
fn names_beyond_the_standard_library_have_a_version() {
    if !versioned() {
        return;
    }
    let defined = symbols(library().expect("masu is a library"), false);
    let with: BTreeSet<_> = defined.iter().filter(|name| name.contains('@')).cloned().collect();
    let wanted = VERSIONED.map(|name| format!("{name}@@{VERSION}"));
    assert_eq!(with, BTreeSet::from(wanted));
    for name in ["malloc", "free", "__libc_malloc", "_Znwm", "_ZdlPvm", "malloc_usable_size"] {
        assert!(defined.contains(name), "{name}: {defined:?}");
    }
}

#[test]
fn programs_ask_for_the_version_they_were_linked_with() {
    if !versioned() {
        return;
    }
    for place in PLACES {
        let program = program(library().expect("masu is a library"), place);
        let needs = Run::new("readelf").bare().arg("-VW").arg(program.path()).run().success();
        let needs = needs.stdout.split("File: ").find(|part| part.starts_with("libmasu.so.0"));
        let needs = needs.expect("a library that is needed");
        assert!(needs.contains(&format!("Name: {VERSION} ")), "{needs}");
        let asked = symbols(program.path(), true);
        assert!(asked.contains(&format!("mallocx@{VERSION}")), "{asked:?}");
        // Any library may define it, the C library included.
        assert!(asked.contains("malloc"), "{asked:?}");
        assert_eq!(Run::program(&program).run().success().stdout, "5.3.1-0-gmasu\n", "{place}");
    }
}

/// A program linked with jemalloc asks for names without versions.
#[test]
fn programs_that_ask_for_no_version_are_served() {
    if !is_masu() {
        println!("only masu stands in for others");
        return;
    }
    let other = Compile::c("c/jemalloc/unversioned.c")
        .flags(["-shared", "-fPIC", "-Wl,-soname,libjemalloc.so.2"])
        .build();
    let place = scratch();
    symlink(library().expect("masu is a library"), place.path().join("libjemalloc.so.2"))
        .expect("a link");
    for place_of_program in PLACES {
        let program = program(other.path(), place_of_program);
        let asked = symbols(program.path(), true);
        assert!(asked.contains("mallocx"), "{asked:?}");
        assert!(asked.iter().any(|name| name.starts_with("malloc@GLIBC")), "{asked:?}");
        // In front of the library that it was linked with, or in place of it.
        let there = scratch();
        symlink(other.path(), there.path().join("libjemalloc.so.2")).expect("a link");
        let preloaded = Run::program(&program).env("LD_LIBRARY_PATH", there.path()).run();
        let replaced = Run::program(&program).bare().env("LD_LIBRARY_PATH", place.path()).run();
        for outcome in [preloaded.success(), replaced.success()] {
            assert_eq!(outcome.stdout, "5.3.1-0-gmasu\n", "{place_of_program}");
        }
    }
}

//! What the crate adds to a program, in bytes of its file.
#![cfg(target_arch = "x86_64")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The most that it adds: by default, with the engine optimised for size, and with every part that
/// the crate leaves out by default. How the compiler divides the engine into units moves the first and the last by up
/// to 4 KiB when a line changes: what is inlined changes with it.
const LARGEST: u64 = 226 << 10;
const LARGEST_FOR_SIZE: u64 = 174 << 10;
const LARGEST_WITH_ALL: u64 = 416 << 10;

const PROGRAM: &str = "fn main() {\n    println!(\"{}\", String::from(\"hello\"));\n}\n";
const GLOBAL: &str = "#[global_allocator]\nstatic GLOBAL: masu::Masu = masu::Masu;\n\n";
const FOR_SIZE: &str =
    "[profile.release.package.masu-core]\nopt-level = \"s\"\ncodegen-units = 1\n";

/// The smallest program that prints a line, built for release and stripped.
fn program(name: &str, global: &str, features: Option<&str>, profile: &str) -> PathBuf {
    let source = format!("{global}{PROGRAM}");
    common::program(name, &source, features, &format!("strip = true\n{profile}"))
}

fn bytes(program: &Path) -> u64 {
    fs::metadata(program).expect("the program").len()
}

#[test]
fn the_crate_adds_no_more_than_is_said() {
    let without = bytes(&program("without", "", None, ""));
    let with = program("with", GLOBAL, Some(""), "");
    let small = program("small", GLOBAL, Some(""), FOR_SIZE);
    let all = program("all", GLOBAL, Some(r#""guard", "hardened", "prof""#), "");
    let [added, for_size, with_all] = [&with, &small, &all].map(|program| bytes(program) - without);
    println!("added {added} B, for size {for_size} B, with all features {with_all} B");
    assert!(added <= LARGEST, "{added} B are added");
    assert!(for_size <= LARGEST_FOR_SIZE, "{for_size} B are added for size");
    assert!(with_all <= LARGEST_WITH_ALL, "{with_all} B are added with all features");
    what_is_left_out_is_told(&with);
    nothing_is_told_of_what_is_there(&all);
}

/// What a program writes to stderr under a policy that needs every part.
fn said(program: &Path) -> String {
    let output = Command::new(program).env("MASU_CONF", "policy:debug").output().expect("it runs");
    assert_eq!(output.stdout, b"hello\n", "{output:?}");
    String::from_utf8(output.stderr).expect("text")
}

fn what_is_left_out_is_told(program: &Path) {
    let said = said(program);
    for part in ["hardened", "guard", "prof"] {
        let end = format!("enable the crate masu's feature {part}\n");
        assert!(
            said.contains(&format!("masu: warning: {part}: ")) && said.contains(&end),
            "{said}"
        );
    }
    assert_eq!(said.lines().count(), 3, "{said}");
}

fn nothing_is_told_of_what_is_there(program: &Path) {
    let said = said(program);
    assert!(!said.contains("warning"), "{said}");
}

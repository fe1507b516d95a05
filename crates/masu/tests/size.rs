//! What the crate adds to a program, in bytes of its file.
#![cfg(target_arch = "x86_64")]

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

/// Most that it adds where the program says nothing of it, and where it asks for a small engine.
const LARGEST: u64 = 404 << 10;
const LARGEST_FOR_SIZE: u64 = 292 << 10;

const PROGRAM: &str = "fn main() {\n    println!(\"{}\", String::from(\"hello\"));\n}\n";
const GLOBAL: &str = "#[global_allocator]\nstatic GLOBAL: masu::Masu = masu::Masu;\n\n";
const FOR_SIZE: &str = "[profile.release.package.masu-core]\nopt-level = \"s\"\n";

/// Bytes of the smallest program that prints a line, built for release and stripped.
fn bytes(name: &str, global: &str, dependency: &str, profile: &str) -> u64 {
    let place = common::target().join("size").join(name);
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::create_dir_all(place.join("src")).expect("a place to build in");
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [profile.release]\nstrip = true\n\n{profile}\n[dependencies]\n{dependency}\n"
    );
    fs::write(place.join("Cargo.toml"), manifest).expect("a manifest");
    fs::write(place.join("src/main.rs"), format!("{global}{PROGRAM}")).expect("a program");
    // The versions that the workspace has, which are at hand.
    fs::copy(own.join("../../Cargo.lock"), place.join("Cargo.lock")).expect("a lock file");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release", "--offline", "--quiet"]).current_dir(&place);
    for (variable, _) in std::env::vars().filter(|(name, _)| name.starts_with("CARGO_PROFILE_")) {
        cargo.env_remove(variable);
    }
    cargo.env_remove("RUSTFLAGS").env("CARGO_TARGET_DIR", place.join("target"));
    common::output(&mut cargo);
    fs::metadata(place.join("target/release").join(name)).expect("the program").len()
}

#[test]
fn the_crate_adds_no_more_than_is_said() {
    let masu = format!("masu = {{ path = {:?} }}", env!("CARGO_MANIFEST_DIR"));
    let without = bytes("without", "", "", "");
    let with = bytes("with", GLOBAL, &masu, "");
    let small = bytes("small", GLOBAL, &masu, FOR_SIZE);
    println!("added {} B, for size {} B", with - without, small - without);
    assert!(with - without <= LARGEST, "{} B are added", with - without);
    assert!(small - without <= LARGEST_FOR_SIZE, "{} B are added for size", small - without);
}

//! A Rust program that serves its own heap profile, as `crates/masu/examples/profile_server.rs` does with
//! `masu::prof::pprof`.

use std::path::{Path, PathBuf};
use std::process::Command;

use masu_tests::pprof::{Decoded, go};
use masu_tests::{is_masu, workspace};

use crate::client::{Running, get};

/// Requests that allocate much more than a sample in 512 KiB needs.
const REQUESTS: usize = 400;

/// Builds the example, beside this test.
fn profile_server() -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release", "--quiet", "--package", "masu", "--features", "prof"]);
    cargo.args(["--example", "profile_server"]).current_dir(workspace());
    assert!(cargo.status().expect("cargo").success(), "the example is built");
    let me = std::env::current_exe().expect("a path");
    let release = me.ancestors().nth(2).map(Path::to_path_buf).expect("TARGET/release/deps/test");
    release.join("examples/profile_server")
}

#[test]
fn the_profile_that_a_program_serves_itself_is_read_by_all() {
    if !is_masu() {
        return;
    }
    let (_server, line) = Running::start(Command::new(profile_server()).arg("127.0.0.1:0"));
    let address = line.trim().strip_prefix("http://").expect("its address");
    let (address, path) = address.split_once('/').expect("a path");
    let path = format!("/{path}");
    for _ in 0..REQUESTS {
        assert_eq!(get(address, &path).status, 200);
    }
    let answer = get(address, &path);
    let profile = Decoded::for_collectors(&answer.body);
    let types = ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"];
    assert_eq!(profile.types, types);
    assert_eq!((&*profile.default, profile.period), ("inuse_space", 512 << 10));
    profile.names_files("/profile_server");
    let allocated: i64 = profile.samples.iter().map(|sample| sample.values[1]).sum();
    assert!(allocated > 1 << 20, "{allocated} bytes");
    for kind in types {
        let top = go(&["-top", &format!("-sample_index={kind}")], &answer.body);
        assert!(top.contains(&format!("Type: {kind}\n")), "{top}");
        // Without the crate's feature `flamegraph` a place has the name of its file.
        let has_place = top.contains(" [profile_server]\n");
        assert!(has_place || !kind.starts_with("alloc"), "{top}");
    }
}

//! What would be published: the crate and the engine, without a warning, each with its licences, and
//! nothing that only the workspace has is needed to build them.

mod common;

use std::path::Path;
use std::process::Command;

/// `cargo package` of both; what it says.
fn package(place: &Path, arguments: &[&str]) -> String {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["package", "--offline", "--allow-dirty", "-p", "masu-core", "-p", "masu"]);
    cargo.arg("--target-dir").arg(place).args(arguments);
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).env_remove("RUSTFLAGS");
    let output = cargo.output().expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("warning"), "{said}");
    said
}

#[test]
fn packages_are_made_without_a_warning() {
    let place = common::target().join("packages");
    let said = package(&place, &["--no-verify"]);
    assert_eq!(said.matches("Packaged").count(), 2, "{said}");
    for name in ["masu", "masu-core"] {
        let package = place.join(format!("package/{name}-{0}.crate", env!("CARGO_PKG_VERSION")));
        let list = common::output(Command::new("tar").arg("-tzf").arg(package));
        for file in ["LICENSE-MIT", "LICENSE-APACHE", "README.md", "src/lib.rs"] {
            let file = format!("{name}-{}/{file}", env!("CARGO_PKG_VERSION"));
            assert!(list.lines().any(|line| line == file), "no {file} in {list}");
        }
    }
}

#[test]
fn packages_build_on_their_own() {
    if std::env::var_os("MASU_TEST_LONG").is_none() {
        println!("they are built with MASU_TEST_LONG=1 only");
        return;
    }
    let said = package(&common::target().join("packages-built"), &[]);
    assert_eq!(said.matches("Verifying").count(), 2, "{said}");
}

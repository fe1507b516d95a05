//! Nix, with a store of its own in a directory, without the network and without its daemon.

use std::fs;
use std::path::Path;
use std::process::Command;

use masu_tests::{optional_tool, scratch, source, workspace};

use crate::succeed;

/// Nix evaluates all of the flake, with what stands in for nixpkgs: both packages are derivations of the recipe, and the
/// module is a function.
#[test]
fn nix_evaluates_the_flake() {
    let Some(nix) = optional_tool("nix", "the flake for Nix") else { return };
    let place = scratch();
    let place = place.path().canonicalize().expect("a directory");
    let tree = tree(&place);
    let nix = |verb: &[&str], what: &str| {
        let mut command = Command::new(&nix);
        command.env("HOME", &place).arg("--store").arg(place.join("root"));
        command.args(["--extra-experimental-features", "nix-command flakes"]);
        command.args(["--option", "build-users-group", ""]).args(verb);
        let flake = format!("git+file://{}?dir=packaging/nix{what}", tree.display());
        command.args(["--no-write-lock-file", "--override-input", "nixpkgs"]);
        succeed(command.arg(format!("path:{}", source("stand-ins/nixpkgs").display())).arg(flake))
    };
    nix(&["flake", "check", "--no-build"], "");
    for system in ["x86_64-linux", "aarch64-linux"] {
        let package =
            |name: &str| nix(&["eval", "--raw"], &format!("#packages.{system}.default.{name}"));
        assert_eq!(package("name"), format!("masu-{}", env!("CARGO_PKG_VERSION")));
        assert!(package("drvPath").ends_with(".drv"));
        assert_eq!(package("meta.mainProgram"), "masu");
    }
}

/// What the flake reads of this workspace, as a repository: Nix takes what lies above a flake from there alone.
fn tree(place: &Path) -> std::path::PathBuf {
    let tree = place.join("tree");
    fs::create_dir_all(tree.join("packaging/nix")).expect("made");
    for file in ["Cargo.lock", "Makefile", "packaging/nix/flake.nix", "packaging/nix/package.nix"] {
        fs::copy(workspace().join(file), tree.join(file)).expect(file);
    }
    for arguments in [&["init", "--quiet"][..], &["add", "--all"]] {
        succeed(Command::new("git").arg("-C").arg(&tree).args(arguments));
    }
    tree
}

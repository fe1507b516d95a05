//! The recipes for other build systems: their versions, and what the tools of those systems read in them.

use std::fs;
use std::process::Command;

use masu_tests::{optional_tool, scratch, workspace};

use crate::succeed;

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn read(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).expect(path)
}

/// Each names the version that is released.
#[test]
fn every_recipe_has_the_version_of_the_workspace() {
    for (path, line) in [
        ("packaging/debian/changelog", format!("masu ({VERSION}) ")),
        ("packaging/rpm/masu.spec", format!("Version:        {VERSION}\n")),
        ("packaging/alpine/APKBUILD", format!("\npkgver={VERSION}\n")),
        ("packaging/aur/PKGBUILD", format!("\npkgver={VERSION}\n")),
        ("packaging/nix/package.nix", format!("version = \"{VERSION}\";")),
        ("packaging/vcpkg/vcpkg.json", format!("\"version\": \"{VERSION}\"")),
        ("packaging/conan/conanfile.py", format!("version = \"{VERSION}\"")),
        ("CHANGELOG.md", format!("\n## {VERSION} ")),
    ] {
        assert!(read(path).contains(&line), "{path} has no `{}`", line.trim());
    }
    let manifest = read("Cargo.toml");
    let ours = manifest.lines().filter(|line| line.starts_with("masu") && line.contains("version"));
    let ours: Vec<_> = ours.collect();
    assert!(ours.len() >= 5, "{ours:?}");
    for line in ours {
        assert!(line.contains(&format!("version = \"{VERSION}\"")), "{line}");
    }
}

/// Reads files of `packaging` with a tool, if that is installed.
#[track_caller]
fn reads(tool: &str, arguments: &[&str], files: &[&str]) {
    let Some(tool) = optional_tool(tool, &files.join(" and ")) else { return };
    for file in files {
        let path = workspace().join("packaging").join(file);
        succeed(Command::new(&tool).args(arguments).arg(path));
    }
}

#[test]
fn recipes_for_arch_and_alpine_are_sound_scripts() {
    reads("bash", &["-n"], &["aur/PKGBUILD", "alpine/APKBUILD"]);
    reads("shellcheck", &["-sbash", "-eSC2034,SC2154,SC2164"], &["aur/PKGBUILD"]);
    reads("shellcheck", &["-ssh", "-eSC2034,SC2154,SC3043"], &["alpine/APKBUILD"]);
}

#[test]
fn rpm_can_read_the_specification_and_its_linter_finds_nothing() {
    reads("rpmspec", &["--parse"], &["rpm/masu.spec"]);
    let filters = workspace().join("packaging/rpm/masu.rpmlintrc");
    reads("rpmlint", &["--strict", "--rpmlintrc", &filters.to_string_lossy()], &["rpm/masu.spec"]);
}

#[test]
fn nix_can_read_the_recipe() {
    reads("nix-instantiate", &["--parse"], &["nix/flake.nix", "nix/package.nix"]);
}

#[test]
fn conan_can_read_the_recipe() {
    let Some(conan) = optional_tool("conan", "Conan's view of its recipe") else { return };
    let home = scratch();
    let mut inspect = Command::new(conan);
    inspect.env("CONAN_HOME", home.path()).args(["inspect", "--format=json"]);
    let said = succeed(inspect.arg(workspace().join("packaging/conan")));
    let recipe: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((&recipe["name"], &recipe["version"]), (&"masu".into(), &VERSION.into()));
    assert_eq!(recipe["package_type"], "library");
    assert_eq!(recipe["options_definitions"]["shared"], serde_json::json!(["True", "False"]));
}

/// vcpkg refuses a manifest with a field that it does not know. These are the ones of its schema that a port needs.
#[test]
fn the_manifest_for_vcpkg_has_known_fields() {
    const KNOWN: [&str; 8] = [
        "name",
        "version",
        "description",
        "homepage",
        "license",
        "supports",
        "dependencies",
        "features",
    ];
    let manifest: serde_json::Value =
        serde_json::from_str(&read("packaging/vcpkg/vcpkg.json")).expect("JSON");
    for (field, value) in manifest.as_object().expect("an object") {
        assert!(KNOWN.contains(&&**field), "{field}");
        assert!(value.as_str().is_some_and(|text| !text.is_empty()), "{field}: {value}");
    }
    assert_eq!(manifest["name"], "masu");
}

//! The recipes for other build systems, and the bill of materials.

use std::fs;
use std::process::Command;

use masu_tests::{scratch, tool, workspace};

use crate::{output, package, succeed, text};

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

/// The tools of their build systems can read them, if those are installed.
#[test]
fn recipes_can_be_read() {
    serde_json::from_str::<serde_json::Value>(&read("packaging/vcpkg/vcpkg.json")).expect("JSON");
    let mut python = Command::new(tool("python3"));
    succeed(
        python
            .args(["-c", "import ast, sys; ast.parse(open(sys.argv[1]).read())"])
            .arg(workspace().join("packaging/conan/conanfile.py")),
    );
    for (program, arguments, file) in [
        ("shellcheck", &["-sbash", "-eSC2034,SC2154,SC2164"][..], "packaging/aur/PKGBUILD"),
        ("shellcheck", &["-ssh", "-eSC2034,SC2154,SC3043"], "packaging/alpine/APKBUILD"),
        ("rpmspec", &["--parse"], "packaging/rpm/masu.spec"),
        ("nix-instantiate", &["--parse"], "packaging/nix/flake.nix"),
        ("nix-instantiate", &["--parse"], "packaging/nix/package.nix"),
    ] {
        if Command::new(program).arg("--version").output().is_err() {
            println!("{program} is not installed; {file} was not read");
            continue;
        }
        let done = output(Command::new(program).args(arguments).arg(workspace().join(file)));
        assert!(done.status.success(), "{file}: {}{}", text(&done.stdout), text(&done.stderr));
    }
}

/// What the recipe for Conan does, with nothing behind Conan's functions: which files it takes out, and which library it
/// names for the generators, shared and static.
#[test]
fn a_conan_package_has_the_one_library_that_was_asked_for() {
    let program = r#"
import sys
from types import ModuleType, SimpleNamespace
said = []
def nothing(*_, **__): pass
def module(name, **names):
    sys.modules[name] = ModuleType(name)
    vars(sys.modules[name]).update(names)
module("conan", ConanFile=object)
module("conan.errors", ConanInvalidConfiguration=Exception)
module("conan.tools.build", cross_building=nothing)
module("conan.tools.files", copy=nothing, rmdir=nothing, rm=lambda _, name, place: said.append(name))
exec(open(sys.argv[1]).read())
for shared in True, False:
    recipe = Masu()
    recipe.options = SimpleNamespace(shared=shared)
    recipe.package_folder, recipe.build_folder, recipe.source_folder, recipe.run = "p", "b", "s", nothing
    recipe.cpp_info = SimpleNamespace(set_property=nothing)
    recipe.package()
    recipe.package_info()
    said += recipe.cpp_info.libs
print(*said)
"#;
    let mut python = Command::new(tool("python3"));
    python.args(["-c", program]).arg(workspace().join("packaging/conan/conanfile.py"));
    assert_eq!(succeed(&mut python), "libmasu.a masu libmasu.so* masu\n");
}

/// Packages need it for the licences in them, even those of a finished build.
#[test]
fn a_bill_of_materials_without_cargo_says_so() {
    // Not before Python runs: that may be a script itself.
    let program = "import os, runpy, sys\n\
                   os.environ['PATH'] = '/nowhere'\n\
                   runpy.run_path(sys.argv.pop(1), run_name='__main__')";
    let mut bill = Command::new(tool("python3"));
    let done = output(bill.args(["-c", program]).arg(workspace().join("packaging/sbom")));
    assert_eq!(text(&done.stderr), "sbom: cargo is missing: https://rustup.rs\n");
    assert_eq!(done.status.code(), Some(1));
}

/// The bill of materials names the files' contents, with the checksums of the lock file, and is reproducible.
#[test]
fn the_bill_of_materials_names_what_is_inside() {
    let places = [scratch(), scratch()];
    let bills = places.each_ref().map(|place| {
        let mut make = Command::new(workspace().join("packaging/sbom"));
        succeed(make.arg("--out").arg(place.path()));
        ["libmasu-", "masu-"].map(|name| {
            fs::read_to_string(package(place.path(), name, ".cdx.json")).expect("a bill")
        })
    });
    assert_eq!(bills[0], bills[1]);
    let [library, command] = bills[0].each_ref().map(|bill| {
        let bill: serde_json::Value = serde_json::from_str(bill).expect("JSON");
        assert_eq!(bill["bomFormat"], "CycloneDX");
        let all = bill["components"].as_array().expect("components").clone();
        all.into_iter()
            .map(|one| (one["name"].as_str().unwrap().to_owned(), one))
            .collect::<Vec<_>>()
    });
    let names = |bill: &[(String, serde_json::Value)]| -> Vec<String> {
        bill.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(&library), ["masu-core", "masu-unwind"]);
    let command_names = names(&command);
    for name in ["masu-core", "masu-bench", "clap", "object"] {
        assert!(command_names.iter().any(|other| other == name), "no {name} in {command_names:?}");
    }
    for name in ["loom", "insta", "masu-lab", "serde_derive"] {
        assert!(!command_names.iter().any(|other| other == name), "{name} is in no file");
    }
    let notices = scratch();
    let notices = notices.path().join("notices.txt");
    let mut make = Command::new(workspace().join("packaging/sbom"));
    succeed(make.arg("--notices").arg(&notices));
    let notices = fs::read_to_string(notices).expect("notices");
    assert!(notices.contains("Permission is hereby granted"), "{notices}");
    let lock = read("Cargo.lock");
    for (name, one) in command.iter().filter(|(name, _)| !name.starts_with("masu")) {
        let sum =
            one["hashes"][0]["content"].as_str().unwrap_or_else(|| panic!("{name} has no sum"));
        assert!(lock.contains(sum), "{name}");
        let licence = one["licenses"][0]["expression"].as_str();
        let licence = licence.unwrap_or_else(|| panic!("{name} has no licence"));
        assert!(!licence.contains("  "), "{name}: {licence}");
        let line = format!("\n{name} {}: ", one["version"].as_str().expect("a version"));
        assert!(notices.contains(&line), "{name} is not in the notices");
    }
}

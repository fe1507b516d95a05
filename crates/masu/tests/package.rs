//! What would be published: the crate, the engine, the command and its parts, without a warning, each with its
//! licences. Nothing that only the workspace has is needed to build them.

mod common;

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

/// `packaging/crates`, without the network and the flags of this run.
fn crates() -> Command {
    let mut crates = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/crates"));
    crates.env("CARGO_NET_OFFLINE", "true").env_remove("RUSTFLAGS");
    crates
}

/// The names of all that is published, dependencies first.
static PACKAGES: LazyLock<Vec<String>> = LazyLock::new(|| {
    common::output(crates().arg("--names")).split_whitespace().map(str::to_owned).collect()
});

/// `cargo package` of all; returns its output.
fn package(place: &Path, arguments: &[&str]) -> String {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["package", "--offline", "--allow-dirty"]);
    cargo.args(PACKAGES.iter().map(|name| format!("--package={name}")));
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
    assert_eq!(said.matches("Packaged").count(), PACKAGES.len(), "{said}");
    for name in PACKAGES.iter() {
        let package = place.join(format!("package/{name}-{0}.crate", env!("CARGO_PKG_VERSION")));
        let list = common::output(Command::new("tar").arg("-tzf").arg(package));
        // Links are resolved: those to the library's sources and to the manual's.
        let inside = [
            "build.rs",
            "library/masu-core/lib.rs",
            "library/masu-unwind/lib.rs",
            "library/libmasu/src/lib.rs",
        ];
        let own = match name.as_str() {
            "masu-inside" => &inside[..],
            "masu-cli" => &["src/main.rs", "src/man/configuration.in"],
            "masu-elsewhere" => &["src/lib.rs", "src/config/mod.rs", "src/text.rs"],
            _ => &["src/lib.rs"],
        };
        for file in ["LICENSE-MIT", "LICENSE-APACHE", "README.md"].iter().chain(own) {
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
    assert_eq!(said.matches("Verifying").count(), PACKAGES.len(), "{said}");
}

/// `cargo install` of the packaged command, in a directory that has nothing else: the command runs a program on the
/// library that it contains.
#[test]
fn the_installed_command_has_the_library_inside() {
    if std::env::var_os("MASU_TEST_LONG").is_none() {
        println!("it is installed with MASU_TEST_LONG=1 only");
        return;
    }
    let place = common::target().join("packages-installed");
    let (sources, root) = (place.join("sources"), place.join("root"));
    let _ = std::fs::remove_dir_all(&sources);
    common::output(crates().arg(&sources));
    let mut install = Command::new(env!("CARGO"));
    for name in PACKAGES.iter() {
        // In place of the registry.
        let source = sources.join(format!("{name}-{}", env!("CARGO_PKG_VERSION")));
        if name != "masu-cli" {
            install.arg("--config");
            install.arg(format!("patch.crates-io.{name}.path='{}'", source.display()));
        } else {
            install.args(["install", "--offline", "--force", "--path"]).arg(&source);
            install.arg("--root").arg(&root).arg("--target-dir").arg(place.join("built"));
            install.current_dir(&source);
        }
    }
    install.env_remove("RUSTFLAGS");
    let done = install.output().expect("cargo runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    // Its profile names crates, and all of them are there.
    assert!(!said.contains("did not match any packages"), "{said}");
    let mut run = Command::new(root.join("bin/masu"));
    // One of the system's, which may be of another version, is not taken.
    let system = place.join("system");
    std::fs::create_dir_all(&system).expect("made");
    std::fs::write(system.join("libmasu.so.0"), "").expect("written");
    run.env("XDG_CACHE_HOME", place.join("cache")).env("LD_LIBRARY_PATH", system);
    let maps = common::output(run.args(["run", "--", "cat", "/proc/self/maps"]));
    assert!(maps.contains("/cache/masu/libmasu-"), "{maps}");
}

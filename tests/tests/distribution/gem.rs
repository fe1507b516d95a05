//! The Ruby gem, installed from its file.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use masu_tests::{scratch, tool, workspace};

use crate::{Made, once, output, package, script, succeed, text};

pub(crate) static GEM: Made = LazyLock::new(|| once(gem));

/// The gem in `place`.
fn gem(place: &Path, from: &Path) -> std::path::PathBuf {
    tool("gem");
    let mut make = Command::new(workspace().join("packaging/gem"));
    make.arg("--out").arg(place).args(["--machine", std::env::consts::ARCH]);
    succeed(make.arg(from.join("libmasu.so")).arg(from.join("masu")));
    package(place, "masu-", ".gem")
}

#[test]
fn installed_from_its_file_it_serves_ruby_and_goes_again() {
    let Some((_, gem)) = &*GEM else { return };
    let place = scratch();
    let home = place.path().join("home");
    let of_home = |name: &str| {
        let mut command = Command::new(name);
        command.env("GEM_HOME", &home).env("GEM_PATH", &home);
        command
    };
    let mut install = of_home("gem");
    succeed(install.args(["install", "--local", "--no-document"]).arg(gem));

    let masu = home.join("bin/masu").to_string_lossy().into_owned();
    let program = "require 'masu'; p Masu.active?, ARGV";
    for verb in ["run", "exec"] {
        let mut run = of_home(&masu);
        assert_eq!(
            succeed(run.args([verb, "ruby", "-e", program, "--", "-x"])),
            "true\n[\"-x\"]\n"
        );
    }
    let mut without = of_home("ruby");
    assert_eq!(succeed(without.args(["-e", program])), "false\n[]\n");
    let path = succeed(of_home("ruby").args(["-e", "require 'masu'; puts Masu.library"]));
    let mut preloaded = of_home("env");
    preloaded.arg(format!("LD_PRELOAD={}", path.trim())).args(["ruby", "-e", program]);
    assert_eq!(succeed(&mut preloaded), "true\n[]\n");
    // As the command of `cargo install` names it, where not all names are text.
    let odd = place.path().join(OsStr::from_bytes(b"\xff"));
    std::fs::create_dir(&odd).expect("made");
    let other = odd.join("libmasu-0123456789abcdef.so");
    std::fs::copy(path.trim(), &other).expect("copied");
    let mut variable = OsString::from("LD_PRELOAD=");
    variable.push(&other);
    let mut preloaded = of_home("env");
    preloaded.arg(variable).args(["ruby", "-e", program]);
    assert_eq!(succeed(&mut preloaded), "true\n[]\n");
    let done = output(of_home(&masu).args(["run", "--", "sh", "-c", "exit 7"]));
    assert_eq!(done.status.code(), Some(7), "{}", text(&done.stderr));

    succeed(of_home("gem").args(["uninstall", "--executables", "--all", "masu"]));
    let mut find = Command::new("find");
    assert_eq!(succeed(find.arg(&home).args(["-name", "*masu*"])), "");
}

#[test]
fn the_same_build_gives_the_same_gem() {
    let again = once(gem);
    let (Some((_, one)), Some((_, other))) = (&*GEM, &again) else { return };
    assert!(std::fs::read(one).unwrap() == std::fs::read(other).unwrap());
}

/// The command in it is static. What that needs is said before anything is built, by all who need it.
#[test]
fn without_the_static_target_it_says_what_to_do() {
    let place = scratch();
    script(place.path(), "rustc", "echo /nowhere");
    let path = std::env::var("PATH").expect("PATH");
    for name in ["gem", "npm", "tarball"] {
        let mut make = Command::new(workspace().join("packaging").join(name));
        make.env("PATH", format!("{}:{path}", place.path().display()));
        let done = output(make.arg("--out").arg(place.path()));
        assert_eq!(done.status.code(), Some(1), "{name}");
        let said = text(&done.stderr);
        let target = format!("rustup target add {}-unknown-linux-musl\n", std::env::consts::ARCH);
        assert!(said.starts_with(&format!("{name}: ")) && said.ends_with(&target), "{said}");
    }
}

//! The npm package, installed from its file.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use masu_tests::{scratch, tool, workspace};

use crate::{Made, once, output, package, succeed};

static MADE: Made = LazyLock::new(|| once(npm));

fn npm(place: &Path, from: &Path) -> PathBuf {
    let mut make = Command::new(workspace().join("packaging/npm"));
    make.arg("--out").arg(place).args(["--machine", std::env::consts::ARCH]);
    succeed(make.arg(from.join("libmasu.so")).arg(from.join("masu")));
    package(place, "masu-", ".tgz")
}

#[test]
fn installed_from_its_file_it_serves_node() {
    let Some((_, package)) = &*MADE else { return };
    tool("npm");
    let (place, packed) = (scratch(), scratch());
    let at = |name: &str| {
        let mut command = Command::new(name);
        command.current_dir(place.path()).env("npm_config_cache", packed.path().join("cache"));
        command.env("npm_config_update_notifier", "false");
        command
    };
    succeed(at("npm").args(["install", "--offline", "--no-audit", "--no-fund"]).arg(package));

    let program =
        "console.log(require('fs').readFileSync('/proc/self/maps', 'utf8').includes('libmasu'))";
    let run = succeed(at("npx").args(["--offline", "masu", "run", "--", "node", "-e", program]));
    assert_eq!(run, "true\n");
    // A program where a verb would be.
    std::fs::write(place.path().join("app.js"), program).expect("written");
    assert_eq!(succeed(at("npx").args(["--offline", "masu", "app.js"])), "true\n");
    let direct = succeed(at("node").args(["-e", program]));
    assert_eq!(direct, "false\n");
    let path = succeed(at("node").args(["-p", "require('masu').library"]));
    let mut preloaded = at("env");
    preloaded.arg(format!("LD_PRELOAD={}", path.trim())).args(["node", "-e", program]);
    assert_eq!(succeed(&mut preloaded), "true\n");
    // Yarn leaves packages packed that do not ask for files: the loader and the kernel need them.
    let unplugged = ["-p", "require('masu/package.json').preferUnplugged"];
    assert_eq!(succeed(at("node").args(unplugged)), "true\n");
    let done = output(at("node_modules/.bin/masu").args(["run", "--", "sh", "-c", "exit 7"]));
    assert_eq!(done.status.code(), Some(7));
}

#[test]
fn the_same_build_gives_the_same_npm_package() {
    let again = once(npm);
    let (Some((_, one)), Some((_, other))) = (&*MADE, &again) else { return };
    assert!(std::fs::read(one).unwrap() == std::fs::read(other).unwrap());
}

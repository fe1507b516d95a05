//! `make install` and `make uninstall`.

use std::fs;
use std::path::Path;
use std::process::Command;

use masu_tests::{scratch, tool, workspace};

use crate::{built, output, succeed, text};

fn make(from: &Path, destination: &Path, goal: &str) -> Command {
    let mut make = Command::new(tool("make"));
    make.arg("-C").arg(workspace()).arg(goal).arg(format!("BUILT={}", from.display()));
    make.args(["PREFIX=/opt/masu", "LIBDIR=/opt/masu/lib/here", "JEMALLOC=yes"]);
    make.arg(format!("DESTDIR={}", destination.display()));
    make
}

/// Files and links below a directory.
fn files(place: &Path) -> Vec<String> {
    let mut find = Command::new("find");
    let list = succeed(find.arg(place).args(["!", "-type", "d", "-printf", "%P\\n"]));
    let mut list: Vec<_> = list.lines().map(str::to_owned).collect();
    list.sort();
    list
}

#[test]
fn what_make_installs_works_and_can_be_taken_away() {
    let Some(from) = built() else { return };
    let place = scratch();
    succeed(&mut make(from, place.path(), "install"));
    let prefix = place.path().join("opt/masu");
    let list = files(&prefix);
    for name in [
        "bin/masu",
        "include/masu/masu.h",
        "include/masu/masu.hpp",
        "lib/here/libmasu.a",
        "lib/here/libmasu.so",
        "lib/here/libmasu.so.0",
        "lib/here/cmake/masu/masu-config.cmake",
        "lib/here/masu/compat/libjemalloc.so.2",
        "lib/here/pkgconfig/masu.pc",
        "lib/masu/masu-work",
        "share/bash-completion/completions/masu",
        "share/fish/vendor_completions.d/masu.fish",
        "share/man/man1/masu.1",
        "share/man/man1/masu-run.1",
        "share/man/man7/masu-conf.7",
        "share/zsh/site-functions/_masu",
    ] {
        assert!(list.iter().any(|other| other == name), "{name} is not among {list:#?}");
    }
    assert!(files(place.path()).iter().all(|name| name.starts_with("opt/masu/")));

    let library = prefix.join("lib/here/libmasu.so.0");
    let length = fs::metadata(&library).expect("the library").len();
    assert!(length <= 153_600, "{length} bytes");
    let mut readelf = Command::new(tool("readelf"));
    let dynamic = succeed(readelf.arg("-d").arg(&library));
    assert!(dynamic.contains("[libmasu.so.0]"), "{dynamic}");
    assert_eq!(
        fs::read_link(prefix.join("lib/here/libmasu.so")).unwrap(),
        Path::new("libmasu.so.0")
    );

    let mut run = Command::new(prefix.join("bin/masu"));
    run.args(["run", "--lib"]).arg(&library).args(["--", "cat", "/proc/self/maps"]);
    assert!(succeed(&mut run).contains("libmasu.so.0"));

    let mut bench = Command::new(prefix.join("bin/masu"));
    bench.args(["bench", "--rounds", "1", "--against", "none", "--lib"]).arg(&library);
    succeed(bench.args(["--", "true"]));

    succeed(&mut make(from, place.path(), "uninstall"));
    assert_eq!(files(place.path()), Vec::<String>::new());
}

#[test]
fn without_a_build_make_install_says_what_to_do() {
    if built().is_none() {
        return;
    }
    let place = scratch();
    let done = output(&mut make(place.path(), place.path(), "install"));
    assert!(!done.status.success());
    assert!(text(&done.stderr).contains("run make first"), "{}", text(&done.stderr));
}

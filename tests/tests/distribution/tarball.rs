//! The tarball and its `install.sh`, and, in the long tests, everything in a release.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use masu_tests::{long, scratch, source, tool, workspace};

use crate::{Made, built, links_lead_to_files, once, output, package, succeed, text};

static MADE: Made = LazyLock::new(|| once(tarball));

/// The tarball of the build under test, in `place`.
fn tarball(place: &Path, from: &Path) -> PathBuf {
    let mut make = Command::new(workspace().join("packaging/tarball"));
    make.arg("--out").arg(place).arg("--from").arg(from);
    succeed(make.arg("--command").arg(from.join("masu")));
    package(place, "masu-", ".tar.gz")
}

/// The tarball's contents, unpacked in `place`.
fn unpacked(place: &Path, tarball: &Path) -> PathBuf {
    succeed(Command::new("tar").arg("-C").arg(place).arg("-xzf").arg(tarball));
    package(place, "masu-", "-linux")
}

/// Files and links below a directory.
fn files(place: &Path) -> Vec<String> {
    let mut find = Command::new("find");
    let list = succeed(find.arg(place).args(["!", "-type", "d", "-printf", "%P\\n"]));
    list.lines().map(str::to_owned).collect()
}

/// The versions of glibc whose symbols a file needs.
fn glibc(file: &Path) -> Vec<(u32, u32)> {
    let said = succeed(Command::new(tool("readelf")).arg("-VW").arg(file));
    let versions = said.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let mut parts = rest[..end].split('.').map(|part| part.parse().ok());
        Some((parts.next()??, parts.next()??))
    });
    versions.collect()
}

#[test]
fn installed_from_the_tarball_it_works_and_goes_again() {
    let Some((_, tarball)) = &*MADE else { return };
    let (place, prefix) = (scratch(), scratch());
    let here = unpacked(place.path(), tarball);
    assert!(here.join("share/doc/masu/THIRD-PARTY-NOTICES.txt").exists());
    // Existing files stay.
    let other = prefix.path().join("lib/other.so");
    fs::create_dir(prefix.path().join("lib")).expect("made");
    fs::write(&other, "").expect("written");
    let install = |more: &[&str]| {
        let mut install = Command::new(here.join("install.sh"));
        succeed(install.arg("--prefix").arg(prefix.path()).args(more))
    };
    let said = install(&[]);
    // Not `masu demo`, which a static command cannot show.
    let (_, next) = said.trim().rsplit_once(": try ").expect("what to try");
    assert!(next.ends_with("bin/masu run --stats -- ls"), "{said}");
    succeed(Command::new("sh").args(["-c", next]));
    let list = files(prefix.path());
    for name in [
        "bin/masu",
        "include/masu/masu.h",
        "lib/libmasu.a",
        "lib/libmasu.so",
        "lib/libmasu.so.0",
        "lib/masu/compat/libjemalloc.so.2",
        "share/bash-completion/completions/masu",
        "share/doc/masu/LICENSE-MIT",
        "share/doc/masu/docs/installing.md",
        "share/fish/vendor_completions.d/masu.fish",
        "share/man/man1/masu-run.1",
        "share/man/man3/libmasu.3",
        "share/man/man7/masu-conf.7",
        "share/masu/observe/grafana-dashboard.json",
        "share/masu/observe/kubernetes/daemonset.yaml",
        "share/masu/observe/masu-export.service",
        "share/masu/observe/prometheus-rules.yml",
        "share/zsh/site-functions/_masu",
    ] {
        assert!(list.iter().any(|other| other == name), "{name} is not among {list:#?}");
    }
    links_lead_to_files(&prefix.path().join("share/doc/masu"));
    let mut placeholder = Command::new("grep");
    let left = output(placeholder.args(["-rl", "@[a-z]*@", "--include=*.pc"]).arg(prefix.path()));
    assert_eq!(text(&left.stdout), "");

    let mut run = Command::new(prefix.path().join("bin/masu"));
    let maps = succeed(run.args(["run", "--", "cat", "/proc/self/maps"]));
    let library = prefix.path().join("lib/libmasu.so.0");
    assert!(
        maps.contains(prefix.path().join("lib/libmasu.so").to_str().unwrap())
            || maps.contains(library.to_str().unwrap()),
        "{maps}"
    );
    for package in ["masu", "jemalloc"] {
        let mut words = Command::new(tool("pkg-config"));
        words.env("PKG_CONFIG_PATH", prefix.path().join("lib/pkgconfig"));
        let words = succeed(words.args(["--cflags", "--libs", package]));
        let program = place.path().join(package);
        let mut link = Command::new(tool("g++"));
        link.args(["-std=c++17", "-o"]).arg(&program).arg(source("cxx/jemalloc.cc"));
        link.arg("-I").arg(prefix.path().join("include/masu/compat"));
        succeed(link.args(words.split_whitespace()));
        let mut run = Command::new(program);
        assert_eq!(succeed(run.env("LD_LIBRARY_PATH", prefix.path().join("lib"))), "ok\n");
    }

    install(&["--uninstall"]);
    assert_eq!(files(prefix.path()), ["lib/other.so"]);
    // A prefix keeps the directories that others install into.
    for (name, kept) in
        [("bin", true), ("share/man", true), ("lib/cmake", false), ("include/masu", false)]
    {
        assert_eq!(prefix.path().join(name).exists(), kept, "{name}");
    }
}

/// By an administrator whose files are their own, the unpacked ones too, over an installation, beside a jemalloc, and with an end.
#[test]
fn an_installation_is_for_everybody_and_whole() {
    let Some((_, tarball)) = &*MADE else { return };
    let (place, prefix) = (scratch(), scratch());
    let here = unpacked(place.path(), tarball);
    succeed(Command::new("chmod").args(["-R", "go="]).arg(&here));
    let install = |first: &str, more: &[&str]| {
        let mut install = Command::new("sh");
        install.args(["-c", &format!("{first}; exec \"$@\""), "sh"]).arg(here.join("install.sh"));
        output(install.arg("--prefix").arg(prefix.path()).args(more))
    };
    assert!(install("umask 077", &[]).status.success());
    let mut own = Command::new("find");
    let own = succeed(own.arg(prefix.path()).args(["-mindepth", "1", "!", "-perm", "-o=r"]));
    assert_eq!(own, "", "not for everybody");

    // No file may become longer than this: what was there stays.
    let command = prefix.path().join("bin/masu");
    let length = || fs::metadata(&command).expect("the command").len();
    let before = length();
    assert!(!install("ulimit -c 0; ulimit -f 8", &[]).status.success());
    assert_eq!(length(), before);
    assert!(!files(prefix.path()).iter().any(|name| name.ends_with(".new")), "a part is left");

    let jemalloc = prefix.path().join("lib/pkgconfig/jemalloc.pc");
    fs::write(&jemalloc, "Name: jemalloc\n").expect("written");
    let done = install("umask 077", &[]);
    assert!(done.status.success());
    assert!(text(&done.stderr).contains("jemalloc.pc is jemalloc's own"), "{}", text(&done.stderr));
    assert!(install("umask 077", &["--uninstall"]).status.success());
    assert_eq!(files(prefix.path()), ["lib/pkgconfig/jemalloc.pc"]);
    assert_eq!(fs::read_to_string(&jemalloc).expect("jemalloc's"), "Name: jemalloc\n");
}

/// What the page on installing says about the tarball, verbatim; `sudo` installs into the test's own directory.
#[test]
fn the_page_on_installing_is_true() {
    let Some((_, tarball)) = &*MADE else { return };
    let (place, home) = (scratch(), scratch());
    fs::copy(tarball, place.path().join(tarball.file_name().expect("a name"))).expect("copied");
    let page = fs::read_to_string(workspace().join("docs/installing.md")).expect("a page");
    let block = page.split("```console\n").filter_map(|rest| rest.split("```").next());
    let block = block.filter(|block| block.contains("install.sh")).collect::<String>();
    let commands = block.lines().filter_map(|line| line.strip_prefix("$ ")).collect::<Vec<_>>();
    assert_eq!(commands.len(), 4, "{commands:?}");
    let script = commands.join("\n").replace("x86_64", std::env::consts::ARCH);
    let mut bash = Command::new("bash");
    bash.args(["-euc", &format!("sudo() {{ \"$@\" --prefix ~/everybody; }}\n{script}")]);
    let said = succeed(bash.current_dir(place.path()).env("HOME", home.path()));
    for prefix in ["everybody", ".local"] {
        let command = home.path().join(prefix).join("bin/masu run --stats -- ls");
        assert!(said.contains(command.to_str().expect("text")), "{said}");
    }
    assert_eq!(files(&home.path().join("everybody")), [""; 0]);
    let mut run = Command::new(home.path().join(".local/bin/masu"));
    assert!(succeed(run.args(["run", "--", "cat", "/proc/self/maps"])).contains("libmasu.so"));
}

/// One library for every C library, old and new: it needs no versioned symbol of glibc, which would have to exist.
#[test]
fn the_library_runs_on_glibc_2_17_and_on_musl() {
    let (Some((_, tarball)), Some(from)) = (&*MADE, built()) else { return };
    let place = scratch();
    let here = unpacked(place.path(), tarball);
    let library = here.join("lib/libmasu.so.0");
    assert_eq!(glibc(&library), []);
    let dynamic = succeed(Command::new(tool("readelf")).arg("-dW").arg(&library));
    assert!(!dynamic.contains("(NEEDED)"), "{dynamic}");
    assert!(glibc(&from.join("masu")).len() > 5, "what reads versions reads none");
}

#[test]
fn the_same_build_gives_the_same_tarball() {
    let again = once(tarball);
    let (Some((_, one)), Some((_, other))) = (&*MADE, &again) else { return };
    assert!(fs::read(one).unwrap() == fs::read(other).unwrap());
}

#[test]
fn what_install_sh_cannot_do_it_says() {
    let script = workspace().join("packaging/install.sh");
    for (arguments, code, said) in [
        (&["--prefix"][..], 2, "takes a directory"),
        (&["--prefix", "here"], 2, "give an absolute path"),
        (&["--to", "/x"], 2, "unknown option --to; --help lists them"),
        (&["--prefix", "/proc/masu"], 1, "cannot be written"),
    ] {
        let done = output(Command::new(&script).args(arguments));
        assert_eq!(done.status.code(), Some(code), "{arguments:?}");
        assert!(text(&done.stderr).contains(said), "{}", text(&done.stderr));
    }
}

/// What the files of a tarball promise, on whichever machine: one library and one command for every C library, and names
/// with the version that programs linked with the library ask for.
fn keeps_its_promises(here: &Path, machine: &str) {
    for file in ["bin/masu", "lib/libmasu.so.0"] {
        let file = here.join(file);
        assert_eq!(glibc(&file), [], "{}", file.display());
        let said = succeed(Command::new(tool("readelf")).arg("-hldW").arg(&file));
        let line = said.lines().find(|line| line.contains("Machine:")).expect("a machine");
        assert!(line.replace('-', "_").to_lowercase().contains(machine), "{line}");
        assert!(!said.contains("(NEEDED)") && !said.contains("INTERP"), "{said}");
        let soname = said.contains("Library soname: [libmasu.so.0]");
        assert_eq!(soname, file.ends_with("libmasu.so.0"), "{said}");
    }
    let symbols = succeed(
        Command::new(tool("readelf")).args(["--dyn-syms", "-W"]).arg(here.join("lib/libmasu.so.0")),
    );
    for name in [" malloc\n", " mallocx@@MASU_0.1\n", " masu_set_limits@@MASU_0.1\n"] {
        assert!(symbols.contains(name), "{machine}: no {name}");
    }
}

/// Two clones in different directories give the same files, byte for byte, which keep their promises, for both machines.
#[test]
fn a_release_is_the_same_wherever_it_is_made() {
    if !long() || built().is_none() {
        println!("a release is made with MASU_TEST_LONG=1 only");
        return;
    }
    let place = scratch();
    let (clone, out) = (place.path().join("clone"), place.path().join("out"));
    succeed(Command::new("git").args(["clone", "-q"]).arg(workspace()).arg(&clone));
    let mut make = Command::new(clone.join("packaging/release"));
    make.env_remove("DEBFULLNAME").env_remove("DEBEMAIL").arg("--check");
    succeed(make.arg("--out").arg(&out).args(["--machine", "x86_64", "--machine", "aarch64"]));
    let sums = fs::read_to_string(out.join("SHA256SUMS")).expect("sums");
    for part in [
        "-x86_64-linux.tar.gz",
        "-aarch64-linux.tar.gz",
        "_x86_64.whl",
        "_aarch64.whl",
        "_amd64.deb",
        "_arm64.deb",
        ".gem",
        ".tgz",
        ".cdx.json",
    ] {
        assert!(sums.contains(part), "no {part} in {sums}");
    }
    for machine in ["x86_64", "aarch64"] {
        let name = format!("-{machine}-linux.tar.gz");
        let place = scratch();
        keeps_its_promises(&unpacked(place.path(), &package(&out, "masu-", &name)), machine);
        let name = format!("{machine}.whl");
        let wheel = package(&out, "masu-", &name);
        assert!(wheel.to_string_lossy().contains("manylinux_2_17"), "{}", wheel.display());
    }
}

//! What users get, built and used as they do: `make install`, tarballs, Debian packages, the Python wheel, the gem, the
//! npm package, and the files for containers and Kubernetes.
//!
//! - `image`: a root file system to change and throw away.
//! - `dockerfile`: Dockerfiles, executed instruction by instruction in such images.

mod bill;
mod containers;
mod debian;
mod dockerfile;
mod gem;
mod image;
mod kubernetes;
mod make;
mod nix;
mod node;
mod pages;
mod passenger;
mod rails;
mod recipes;
mod recipes_built;
mod tarball;
mod units;
mod wheel;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use masu_tests::{is_masu, library, scratch, workspace};
use tempfile::TempDir;

/// Where the release build is; `None`, and a message, if masu is not under test.
fn built() -> Option<&'static Path> {
    if !is_masu() {
        println!("only masu is packaged");
        return None;
    }
    let place = library().and_then(Path::parent).expect("a directory");
    assert!(
        place.join("masu").is_file(),
        "no command in {}: cargo build --release",
        place.display()
    );
    Some(place)
}

/// All packages that `packaging/docker/masu.Dockerfile` makes: `libmasu0_….deb` and the like, `masu-….whl`,
/// `libmasu.so.0`, `masu-entrypoint`.
fn packages() -> Option<&'static Path> {
    static PLACE: LazyLock<Option<TempDir>> = LazyLock::new(|| {
        let (from, place) = (built()?, scratch());
        for script in ["packaging/deb", "packaging/wheel"] {
            let mut make = Command::new(workspace().join(script));
            make.env_remove("DEBFULLNAME").env_remove("DEBEMAIL");
            succeed(make.arg("--out").arg(place.path()).arg("--from").arg(from));
        }
        let mut strip = Command::new("strip");
        strip.arg("-o").arg(place.path().join("libmasu.so.0")).arg(from.join("libmasu.so"));
        succeed(&mut strip);
        // By a separate process: a child that another test has just forked would hold a file that this process writes
        // open for writing, and such a file cannot be executed.
        let entry = workspace().join("packaging/docker/masu-entrypoint");
        succeed(Command::new("cp").arg(entry).arg(place.path().join("masu-entrypoint")));
        Some(place)
    });
    PLACE.as_ref().map(TempDir::path)
}

/// A package, in a directory of its own, that is made once for all tests; nothing if masu is not under test.
type Made = LazyLock<Option<(TempDir, PathBuf)>>;

fn once(package: fn(&Path, &Path) -> PathBuf) -> Option<(TempDir, PathBuf)> {
    let (from, place) = (built()?, scratch());
    let made = package(place.path(), from);
    Some((place, made))
}

/// The only file in `place` whose name begins and ends like this.
fn package(place: &Path, begin: &str, end: &str) -> PathBuf {
    let names = std::fs::read_dir(place).expect("a directory").map(|entry| entry.unwrap().path());
    let fits = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(begin) && name.ends_with(end)
    };
    let found: Vec<_> = names.filter(fits).collect();
    let [one] = &found[..] else { panic!("{begin}…{end}: {found:?}") };
    one.clone()
}

fn output(command: &mut Command) -> Output {
    command.env_remove("LD_PRELOAD").stdin(Stdio::null());
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Runs a command that must succeed; returns what it wrote to stdout.
#[track_caller]
fn succeed(command: &mut Command) -> String {
    let done = output(command);
    let (said, errors) = (text(&done.stdout), text(&done.stderr));
    assert!(done.status.success(), "{command:?}: {}\n{said}\n{errors}", done.status);
    said
}

/// Writes a script into `place`. By a separate process, as in [`packages`].
fn script(place: &Path, name: &str, text: &str) -> PathBuf {
    let file = place.join(name);
    let mut write = Command::new("sh");
    write.args(["-c", "printf '#!/bin/sh\\n%s\\n' \"$1\" >\"$0\" && chmod +x \"$0\""]);
    succeed(write.arg(&file).arg(text));
    file
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Every link of the pages below a directory leads to a file there.
#[track_caller]
fn links_lead_to_files(documents: &Path) {
    let mut find = Command::new("find");
    let pages = succeed(find.arg(documents).args(["-name", "*.md"]));
    assert!(pages.lines().count() > 50, "{pages}");
    let mut dead = Vec::new();
    for page in pages.lines().map(Path::new) {
        let text = std::fs::read_to_string(page).expect("a page");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            let is_elsewhere = file.contains(':');
            if !is_elsewhere && !page.with_file_name(file).is_file() && !file.is_empty() {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
}

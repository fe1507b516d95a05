//! Where the measured program `masu-work` is: beside the program that runs it, or in an installation's
//! `lib/masu`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::{env, fs, io};

use anyhow::{Context, Result};

use crate::arm::Arm;
use crate::cargo;

/// The measured program's sibling that writes down what it asks its allocator for.
pub fn tracer() -> Result<PathBuf> {
    Ok(binary()?.with_file_name("masu-trace"))
}

/// The measured program. It is built next to every runner (tests run one directory below).
pub fn binary() -> Result<PathBuf> {
    let me = me()?;
    let beside = me.ancestors().skip(1).take(2).map(Path::to_path_buf);
    let installed = me.ancestors().nth(2).map(|prefix| prefix.join("lib/masu"));
    let mut places = beside.chain(installed).map(|place| place.join("masu-work"));
    places.find(|work| work.is_file()).with_context(|| {
        format!(
            "masu-work is not beside {}: `cargo install masu-workloads` adds it; in the sources, \
             `cargo build --release -p masu-workloads`",
            me.display()
        )
    })
}

/// A run of it that touches so much memory and ends. On a virtual machine the first touch of memory
/// that nobody had lately can be several times slower than any later one, whoever it is that touches
/// it; who is measured after such a run does not pay for that.
pub fn touch(mib: u64) -> Result<Command> {
    let mut command = Command::new(binary()?);
    command.args(["touch", &mib.to_string()]).stdin(Stdio::null());
    Arm::glibc().apply(&mut command);
    Ok(command)
}

/// Builds the measured program anew if its sources changed: for runners that live in the
/// workspace, where another program than the sources describe must not be measured.
pub fn build() -> Result<PathBuf> {
    static BUILT: Mutex<bool> = Mutex::new(false);
    let mut built = BUILT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !*built {
        let me = me()?;
        // TARGET/PROFILE/runner or TARGET/PROFILE/deps/test
        let above = if me.parent().is_some_and(|place| place.ends_with("deps")) { 3 } else { 2 };
        let target =
            me.ancestors().nth(above).context("this binary is not in a target directory")?;
        cargo::build("masu-work", &["masu-workloads", "--bins"], target, !cfg!(debug_assertions))?;
        *built = true;
    }
    binary()
}

/// The measured program for tests: as it was built together with them, unless its sources have changed
/// since; then it is built anew ([`build`]). A test of the whole workspace has built it, of crates that
/// the command is made of too, while a build from within a test compiles all of them again.
pub fn ready() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("masu-workloads");
    let sources = ["src", "programs", "Cargo.toml"].map(|part| here.join(part));
    let is_current =
        |program: &Path| sources.iter().all(|part| is_younger(program, part).unwrap_or(false));
    match binary() {
        Ok(work) if is_current(&work) && is_current(&work.with_file_name("masu-trace")) => Ok(work),
        _ => build(),
    }
}

/// Whether a program was built after the last change of a file, or of anything in a directory.
fn is_younger(program: &Path, part: &Path) -> io::Result<bool> {
    let built = fs::metadata(program)?.modified()?;
    // What was added or taken away has changed its directory.
    let mut places = vec![part.to_path_buf()];
    while let Some(place) = places.pop() {
        let found = fs::metadata(&place)?;
        if found.modified()? > built {
            return Ok(false);
        }
        if found.is_dir() {
            let inside: io::Result<Vec<_>> = fs::read_dir(&place)?.collect();
            places.extend(inside?.iter().map(fs::DirEntry::path));
        }
    }
    Ok(true)
}

fn me() -> Result<PathBuf> {
    env::current_exe().context("cannot find the path of this binary")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn a_program_is_younger_than_its_sources_until_one_changes() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let now = SystemTime::now();
        let age = |name: &str, seconds: u64| {
            let file = fs::File::open(at(name)).unwrap();
            file.set_modified(now - Duration::from_secs(seconds)).unwrap();
        };
        fs::create_dir_all(at("src/inner")).unwrap();
        fs::write(at("src/inner/one.rs"), "").unwrap();
        fs::write(at("program"), "").unwrap();
        for old in ["src/inner/one.rs", "src/inner", "src"] {
            age(old, 20);
        }
        age("program", 10);
        let younger = || is_younger(&at("program"), &at("src"));
        assert!(younger().unwrap());
        age("src/inner/one.rs", 5);
        assert!(!younger().unwrap(), "a source has changed since");
        age("src/inner/one.rs", 20);
        fs::remove_file(at("src/inner/one.rs")).unwrap();
        assert!(!younger().unwrap(), "one is gone");
        assert!(is_younger(&at("another"), &at("src")).is_err(), "it was never built");
    }
}

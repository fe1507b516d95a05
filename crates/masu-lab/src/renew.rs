//! The lab as its sources say. One that was built before they changed would measure and report by rules
//! that nobody can read any more, so each command first has it built anew, and the new one takes over.
//! Where nothing changed, that costs a quarter of a second.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::{env, fs, io};

use anyhow::{Context, Result};
use masu_bench::cargo;

use crate::paths;

/// Comes back if this program is the one that its sources make, and where there are none: a program
/// that was copied out of its target directory stays what it is.
pub fn if_sources_changed() -> Result<()> {
    let me = env::current_exe().context("cannot find the path of this binary")?;
    let profile =
        me.parent().filter(|place| place.ends_with("release") || place.ends_with("debug"));
    let target = profile.and_then(Path::parent).filter(|place| place.join(MARK).is_file());
    let (Some(target), true) = (target, paths::workspace().join("Cargo.toml").is_file()) else {
        return Ok(());
    };
    let release = me.parent().is_some_and(|place| place.ends_with("release"));
    cargo::build("masu-lab", &["masu-lab"], target, release)?;
    if !is_other(Path::new("/proc/self/exe"), &me)? {
        return Ok(());
    }
    eprintln!("masu-lab was older than its sources; the new one takes over");
    let failure = Command::new(&me).args(env::args_os().skip(1)).exec();
    Err(failure).context("cannot start the masu-lab that was just built")
}

/// What Cargo leaves in a target directory.
const MARK: &str = ".rustc_info.json";

/// Whether `place` holds another program than `running`. Cargo may have made the same one again.
fn is_other(running: &Path, place: &Path) -> io::Result<bool> {
    let identity = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino()));
    if identity(running)? == identity(place)? {
        return Ok(false);
    }
    Ok(fs::read(running)? != fs::read(place)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_program_takes_over() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::write(at("running"), "one").unwrap();
        fs::hard_link(at("running"), at("the same file")).unwrap();
        fs::write(at("the same again"), "one").unwrap();
        fs::write(at("another"), "two").unwrap();
        let other = |name: &str| is_other(&at("running"), &at(name)).unwrap();
        assert!(!other("the same file") && !other("the same again"));
        assert!(other("another"));
    }
}

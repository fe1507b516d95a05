//! An arm of a comparison: one allocator and how a program is made to use it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::{paths, peers};

/// One allocator. Without a library it is the system's own.
#[derive(Debug, Clone)]
pub struct Arm {
    /// What tables call it.
    pub name: String,
    /// Its version, as far as known.
    pub version: String,
    /// The object to preload, by its real path.
    pub library: Option<PathBuf>,
}

impl Arm {
    /// The system's allocator.
    pub fn glibc() -> Self {
        Arm { name: "glibc".into(), version: glibc_version(), library: None }
    }

    /// The library under test.
    pub fn masu() -> Result<Self> {
        let path = paths::masu_library();
        let library = path.canonicalize().with_context(|| {
            format!("{} is missing: run `cargo build --release` or set MASU_LIB", path.display())
        })?;
        Ok(Arm { name: "masu".into(), version: masu_version(&library), library: Some(library) })
    }

    /// The peers that could be built, in the order of the list.
    pub fn built_peers() -> Result<Vec<Self>> {
        let list = peers::list()?;
        Ok(list
            .into_iter()
            .filter_map(|peer| {
                let library = peer.library?;
                Some(Arm { name: peer.name, version: peer.version, library: Some(library) })
            })
            .collect())
    }

    /// The arm called `name`.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "glibc" => Ok(Self::glibc()),
            "masu" => Self::masu(),
            _ => {
                let built = Self::built_peers()?;
                let known: Vec<_> = built.iter().map(|arm| arm.name.clone()).collect();
                match built.into_iter().find(|arm| arm.name == name) {
                    Some(arm) => Ok(arm),
                    None => bail!(
                        "no allocator called `{name}`; known: masu, glibc, {}. `masu-lab peers` builds the peers",
                        known.join(", ")
                    ),
                }
            }
        }
    }

    /// Makes `command` use this allocator, whatever the surroundings say.
    pub fn apply(&self, command: &mut Command) {
        for key in ["LD_PRELOAD", "GLIBC_TUNABLES", "MALLOC_CONF", "MALLOC_ARENA_MAX"] {
            command.env_remove(key);
        }
        if let Some(library) = &self.library {
            command.env("LD_PRELOAD", library);
        }
    }

    /// Refuses a run whose own report does not name this arm's object.
    pub fn check(&self, reported: &str) -> Result<()> {
        match &self.library {
            Some(library) => ensure!(
                Path::new(reported) == library,
                "{} was to serve the program, but {reported} did",
                library.display()
            ),
            None => ensure!(
                reported.ends_with("/libc.so.6"),
                "the system's malloc was to serve the program, but {reported} did"
            ),
        }
        Ok(())
    }
}

fn glibc_version() -> String {
    // SAFETY: returns a static C string.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    version.to_string_lossy().into_owned()
}

/// The workspace's version and, where git can tell, the commit.
fn masu_version(library: &Path) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let inside = library.starts_with(paths::workspace());
    let commit = Command::new("git")
        .args(["rev-parse", "--short", "HEAD"])
        .current_dir(paths::workspace())
        .output()
        .ok()
        .filter(|output| output.status.success() && inside)
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string());
    match commit {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_string(),
    }
}

//! An arm of a comparison: one allocator and how a program is made to use it.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::work;

/// One allocator. Without a library it is the system's own.
#[derive(Debug, Clone)]
pub struct Arm {
    /// What tables call it.
    pub name: String,
    /// Its version, as far as known.
    pub version: String,
    /// The object it is in, by its real path.
    pub library: Option<PathBuf>,
    /// Whether that object is a `masu-work` with the allocator linked in, and not one to preload.
    pub linked: bool,
    /// A variable of the allocator's own configuration, and its value, in place of what the surroundings say.
    pub settings: Option<[&'static str; 2]>,
}

impl Arm {
    /// The system's allocator.
    pub fn glibc() -> Self {
        let (name, version) = ("glibc".into(), glibc_version());
        Arm { name, version, library: None, linked: false, settings: None }
    }

    /// An allocator in a shared object, which is named by its real path.
    pub fn preloading(name: &str, version: &str, library: PathBuf) -> Self {
        let (name, version, library) = (name.into(), version.into(), Some(library));
        Arm { name, version, library, linked: false, settings: None }
    }

    /// An allocator linked into a `masu-work` of its own, which is named by its real path. It can
    /// run workloads and nothing else.
    pub fn linked(name: &str, version: &str, program: PathBuf) -> Self {
        Arm { linked: true, ..Self::preloading(name, version, program) }
    }

    /// Makes `command` use this allocator, whatever the surroundings say.
    pub fn apply(&self, command: &mut Command) {
        command.env_remove("LD_PRELOAD");
        for (key, _) in env::vars_os().filter(|(key, _)| is_option(key)) {
            command.env_remove(key);
        }
        if let Some(library) = &self.library
            && !self.linked
        {
            command.env("LD_PRELOAD", library);
        }
        if let Some([variable, value]) = self.settings {
            command.env(variable, value);
        }
    }

    /// The program that does the workloads: the one with this allocator linked in, or the plain one.
    pub fn work(&self) -> Result<PathBuf> {
        match &self.library {
            Some(program) if self.linked => Ok(program.clone()),
            _ => work::binary(),
        }
    }

    /// Refuses a run whose own report does not name this arm's object. A program with an allocator
    /// linked in knows only what serves C's functions.
    pub fn check(&self, reported: &str) -> Result<()> {
        match &self.library {
            Some(_) if self.linked => {}
            Some(library) => ensure!(
                Path::new(reported) == library,
                "{} should have served the program, but {} did",
                place_of(library),
                place_of(Path::new(reported))
            ),
            None => ensure!(
                reported.ends_with("/libc.so.6"),
                "the system's malloc should have served the program, but {} did",
                place_of(Path::new(reported))
            ),
        }
        Ok(())
    }
}

/// Whether a variable is an option of another allocator than masu, whose own ones the results name.
fn is_option(key: &OsStr) -> bool {
    let beginnings = ["GLIBC_TUNABLES", "MALLOC_", "MIMALLOC_", "TCMALLOC_"];
    beginnings.iter().any(|beginning| key.as_encoded_bytes().starts_with(beginning.as_bytes()))
}

/// What results and reports call a file: its place below the working directory, or its name. Where
/// else it is on this machine concerns nobody.
pub fn place_of(file: &Path) -> String {
    let here = env::current_dir().ok();
    let below = here.and_then(|here| file.strip_prefix(here).ok().map(Path::to_path_buf));
    let name = || file.file_name().map_or(file, Path::new);
    below.as_deref().unwrap_or_else(name).display().to_string()
}

#[cfg(target_env = "gnu")]
fn glibc_version() -> String {
    // SAFETY: returns a static C string.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    version.to_string_lossy().into_owned()
}

/// The command is not on glibc itself: what `ldd`, which comes with glibc, says of it.
#[cfg(not(target_env = "gnu"))]
fn glibc_version() -> String {
    let said = Command::new("ldd").arg("--version").output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let first = said.ok().and_then(|text| Some(text.lines().next()?.to_owned()));
    first.and_then(|line| Some(line.rsplit(' ').next()?.to_owned())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `MALLOC_PERTURB_` makes glibc write to every block, and the others have such options too.
    #[test]
    fn options_of_others_do_not_count() {
        for key in ["MALLOC_PERTURB_", "MALLOC_CONF", "MIMALLOC_VERBOSE", "GLIBC_TUNABLES"] {
            assert!(is_option(key.as_ref()), "{key}");
        }
        assert!(!is_option("MASU_CONF".as_ref()) && !is_option("PATH".as_ref()));
    }

    #[test]
    fn a_file_is_named_without_the_machine() {
        let here = env::current_dir().unwrap();
        assert_eq!(place_of(&here.join("target/libx.so")), "target/libx.so");
        assert_eq!(place_of(Path::new("/usr/lib/libx.so.2")), "libx.so.2");
        assert_eq!(place_of(Path::new("nothing known")), "nothing known");
    }
}

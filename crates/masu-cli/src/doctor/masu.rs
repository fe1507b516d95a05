//! Identifies the file that is masu.

use std::ffi::OsStr;
use std::path::Path;

use crate::allocators::{MASU, whose};
use crate::preload;

/// The library, by its contents or by the path where it was found.
pub struct Masu<'a> {
    found: Option<&'a Path>,
}

impl<'a> Masu<'a> {
    /// Takes the path where it was found, if it was.
    pub fn new(found: Option<&'a Path>) -> Self {
        Self { found }
    }

    /// Whether the `malloc` of the file at `path` is masu's.
    pub fn is(&self, path: &Path) -> bool {
        self.found == Some(path) || whose(path) == Some(MASU)
    }

    /// Whether a value of `LD_PRELOAD` names it.
    pub fn is_in(&self, value: Option<&OsStr>) -> bool {
        preload::entries(value.unwrap_or_default()).any(|entry| self.is(Path::new(entry)))
    }
}

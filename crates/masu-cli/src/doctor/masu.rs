//! Which file is masu.

use std::ffi::OsStr;
use std::path::Path;

use crate::preload;

/// The library, by its usual name or by the path at which it was found.
pub struct Masu<'a> {
    found: Option<&'a Path>,
}

impl<'a> Masu<'a> {
    /// With the path at which it was found, if it was.
    pub fn new(found: Option<&'a Path>) -> Self {
        Self { found }
    }

    /// Whether the file at `path` is the library.
    pub fn is(&self, path: &Path) -> bool {
        let suffix = file_name(path).strip_prefix("libmasu.so");
        self.found == Some(path) || suffix.is_some_and(|s| s.is_empty() || s.starts_with('.'))
    }

    /// Whether a value of `LD_PRELOAD` names it.
    pub fn is_in(&self, value: Option<&OsStr>) -> bool {
        preload::entries(value.unwrap_or_default()).any(|entry| self.is(Path::new(entry)))
    }
}

/// The last part of a path.
pub fn file_name(path: &Path) -> &str {
    path.file_name().and_then(OsStr::to_str).unwrap_or_default()
}

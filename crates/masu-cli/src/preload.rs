//! Puts `libmasu.so` in front of the other entries of `LD_PRELOAD`.
//!
//! In front, because the first of several libraries that define `malloc` serves the process.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Returns the value of `LD_PRELOAD` with `library` before everything in `existing`, and only once.
pub fn in_front(library: &Path, existing: Option<&OsStr>) -> OsString {
    let library = library.as_os_str();
    let mut value = library.as_bytes().to_vec();
    for entry in entries(existing.unwrap_or_default()).filter(|entry| *entry != library) {
        value.push(b':');
        value.extend(entry.as_bytes());
    }
    OsString::from_vec(value)
}

/// Yields the entries of a value of `LD_PRELOAD`, which may be separated by colons or blanks.
pub fn entries(value: &OsStr) -> impl Iterator<Item = &OsStr> {
    let separators = |byte: &u8| matches!(byte, b':' | b' ');
    value.as_bytes().split(separators).filter(|entry| !entry.is_empty()).map(OsStr::from_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_stays_behind() {
        for (existing, expected) in [
            (None, "/lib/m.so"),
            (Some(""), "/lib/m.so"),
            (Some("/a.so"), "/lib/m.so:/a.so"),
            (Some("/a.so b.so"), "/lib/m.so:/a.so:b.so"),
            (Some(":/a.so:"), "/lib/m.so:/a.so"),
            (Some("/a.so:/lib/m.so"), "/lib/m.so:/a.so"),
        ] {
            let value = in_front(Path::new("/lib/m.so"), existing.map(OsStr::new));
            assert_eq!(value, expected, "{existing:?}");
        }
    }
}

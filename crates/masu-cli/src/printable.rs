//! Names that a process has chosen itself, as a terminal, XML and JSON can have them.

use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

/// Returns `text` with a question mark for each character that would control a terminal or that XML forbids.
pub fn printable(text: &str) -> String {
    let harmless = |c: char| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}');
    text.chars().map(|c| if harmless(c) { c } else { '?' }).collect()
}

/// Writes a path whose bytes may be anything; what is not UTF-8 becomes U+FFFD.
pub fn path<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&path.display())
}

/// Writes a path that may be missing, like [`path`].
pub fn path_if_any<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.to_string_lossy()).serialize(to)
}

/// Writes paths, each with a word about it, like [`path`].
pub fn paths<S: Serializer>(paths: &[(PathBuf, String)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(paths.iter().map(|(path, word)| (path.to_string_lossy(), word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_can_send_control_codes() {
        assert_eq!(printable("a\nb\x1b[31m\u{9b}c\u{fffe}"), "a?b?[31m?c?");
        assert_eq!(printable("größe 1"), "größe 1");
    }
}

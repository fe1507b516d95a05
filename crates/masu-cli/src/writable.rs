//! Whether a file can be written, before anything is measured for it.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

/// Makes sure that a file can be written, by opening it; what it holds stays. Returns whether it is new, so that a caller
/// who does not write it can remove it. A link that led nowhere is not new, and stays.
pub fn reserve(file: &Path) -> io::Result<bool> {
    let is_new = file.symlink_metadata().is_err();
    OpenOptions::new().create(true).append(true).open(file)?;
    Ok(is_new)
}

//! The library inside a program, where `cargo install` built it: written to a file, which the dynamic loader needs.
//!
//! It is a crate of its own so that cargo builds the library, a minute's longest step, beside the command's last crates
//! and not after them.
//!
//! The file's name contains a sum of its content, so commands of several versions do not collide, and an existing file
//! is the right one: it gets its name only when it is complete.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

#[cfg(with_library)]
const LIBRARY: Option<&[u8]> = Some(include_bytes!(concat!(env!("OUT_DIR"), "/libmasu.so")));
#[cfg(not(with_library))]
const LIBRARY: Option<&[u8]> = None;

/// Returns the file, written if necessary; `None` if this program contains no library.
pub fn file() -> Option<Result<PathBuf, String>> {
    LIBRARY.map(|library| {
        written(library, &directory().ok_or("neither XDG_CACHE_HOME nor HOME is set")?)
    })
}

fn written(library: &[u8], directory: &Path) -> Result<PathBuf, String> {
    let file = directory.join(format!("libmasu-{:016x}.so", sum(library)));
    if file.metadata().is_ok_and(|data| data.len() == library.len() as u64) {
        return Ok(file);
    }
    // Containers that share a directory give all processes the same few numbers.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let new = directory.join(format!(".new-{}-{now:x}", std::process::id()));
    let done = std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(&new, library))
        .and_then(|()| std::fs::rename(&new, &file));
    done.map_err(|error| {
        // Nobody else would remove it: every attempt has a name of its own.
        let _ = std::fs::remove_file(&new);
        format!("cannot write {}: {error}", file.display())
    })?;
    Ok(file)
}

fn directory() -> Option<PathBuf> {
    let set =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    Some(set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?.join("masu"))
}

/// FNV-1a: distinguishes builds; it does not protect against attacks.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_bytes_have_another_sum() {
        assert_eq!(sum(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(sum(b"a"), 0xaf63_dc4c_8601_ec8c);
    }

    #[test]
    fn what_cannot_get_its_name_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let file = written(b"library", directory.path()).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"library");
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir_all(file.join("in the way")).unwrap();
        assert!(written(b"library", directory.path()).is_err());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}

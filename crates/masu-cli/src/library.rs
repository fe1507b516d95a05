//! Finds `libmasu.so`, and checks whether the file can do its job.

use std::env::{self, consts};
use std::path::{Path, PathBuf};

use crate::elf::{Elf, Unreadable};
use crate::failure::{Failure, REFUSED, USAGE};
use crate::inside;

/// The file's names: where programs run, and so the one that lasts; in a build, and where programs are linked with it.
const NAMES: [&str; 2] = ["libmasu.so.0", "libmasu.so"];

/// The library to preload.
pub struct Library {
    /// Its absolute path, without characters that `LD_PRELOAD` cannot hold.
    pub path: PathBuf,
    /// The facts about it.
    pub elf: Elf,
}

/// Finds the library that the user `named` with --lib, or the one that belongs to this command.
pub fn find(named: Option<&Path>) -> Result<Library, Failure> {
    match named {
        Some(path) => at(path, "--lib"),
        None => judge(search()?, "--lib"),
    }
}

/// Finds the library that the user named with `option`.
pub fn at(path: &Path, option: &str) -> Result<Library, Failure> {
    judge(absolute(path, option)?, option)
}

fn judge(path: PathBuf, option: &str) -> Result<Library, Failure> {
    let reject = |why: String| Failure::new(USAGE, format!("`{}` {why}", path.display()));
    // LD_PRELOAD separates its entries by both, and has no quoting.
    if path.to_string_lossy().contains([' ', ':']) {
        return Err(reject(
            "cannot be preloaded: LD_PRELOAD cannot hold a space or a colon".into(),
        )
        .remedy(format!("link it to a path without them and name that one with {option}")));
    }
    let why = match Elf::read(&path) {
        Ok(elf) if elf.exported.iter().any(|name| name == "malloc") => {
            return Ok(Library { path, elf });
        }
        Ok(_) => "is not an allocator: it defines no malloc".into(),
        Err(Unreadable::Closed(error)) => format!("cannot be opened: {error}"),
        Err(Unreadable::NotElf) => "is not a shared library".into(),
        Err(Unreadable::Damaged(error)) => format!("is damaged: {error}"),
    };
    Err(reject(why)
        .remedy(format!("{option} takes an allocator's shared library, such as libmasu.so")))
}

/// Makes a path absolute, because the program may change its directory before it starts others;
/// symbolic links stay, because the user named them.
fn absolute(path: &Path, option: &str) -> Result<PathBuf, Failure> {
    std::path::absolute(path)
        .map_err(|error| Failure::new(USAGE, format!("{option} `{}`: {error}", path.display())))
}

fn search() -> Result<PathBuf, Failure> {
    let places = places(env::current_exe().ok().as_deref());
    let mut files = places.iter().flat_map(|place| NAMES.map(|name| place.join(name)));
    if let Some(found) = files.find(|file| file.is_file()) {
        return Ok(found);
    }
    if let Some(written) = inside::file() {
        return written.map_err(|why| {
            Failure::new(REFUSED, format!("the library inside this command cannot be unpacked: {why}"))
                .remedy("set XDG_CACHE_HOME to a directory that can be written, or name a libmasu.so with --lib PATH")
        });
    }
    let list: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
    Err(Failure::new(REFUSED, format!("{} is in none of these directories:", NAMES[1]))
        .remedy(format!("{}\nname it with --lib PATH", list.join("\n"))))
}

/// Returns the directories to search, best first: the command's own installation (a build's
/// `target` directory, `bin` beside `lib`), the user's library path, the system's.
fn places(command: Option<&Path>) -> Vec<PathBuf> {
    let multiarch = format!("{}-linux-gnu", consts::ARCH);
    let mut places = Vec::new();
    if let Some(beside) = command.and_then(Path::parent) {
        places.push(beside.to_path_buf());
        if let Some(prefix) = beside.parent() {
            let lib = prefix.join("lib");
            places.extend([lib.join("masu"), lib.join(&multiarch), prefix.join("lib64"), lib]);
        }
    }
    if let Some(path) = env::var_os("LD_LIBRARY_PATH") {
        places.extend(env::split_paths(&path).filter(|place| place.is_absolute()));
    }
    for prefix in ["/usr/local", "/usr", "/"] {
        let lib = Path::new(prefix).join("lib");
        places.extend([lib.join(&multiarch), Path::new(prefix).join("lib64"), lib]);
    }
    let mut seen = std::collections::HashSet::new();
    places.retain(|place| seen.insert(place.clone()));
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_installation_comes_first_and_no_place_twice() {
        let places = places(Some(Path::new("/usr/bin/masu")));
        assert_eq!(places[0], Path::new("/usr/bin"));
        assert_eq!(places[1], Path::new("/usr/lib/masu"));
        let lib = places.iter().filter(|place| *place == Path::new("/usr/lib"));
        assert_eq!(lib.count(), 1);
    }
}

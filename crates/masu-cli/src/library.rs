//! Finds `libmasu.so`, and checks whether the file can do its job.

use std::env::{self, consts};
use std::path::{Path, PathBuf};

use crate::elf::{Elf, Unreadable};
use crate::failure::{Failure, REFUSED, USAGE};

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
    let [own, others] = places(env::current_exe().ok().as_deref());
    choose(&own, masu_inside::file, &others)
}

/// Returns the library of the command's own installation, or the one `inside` it, which is of its version too; otherwise
/// another one.
fn choose(
    own: &[PathBuf],
    inside: impl FnOnce() -> Option<Result<PathBuf, String>>,
    others: &[PathBuf],
) -> Result<PathBuf, Failure> {
    let found = |places: &[PathBuf]| {
        let mut files = places.iter().flat_map(|place| NAMES.map(|name| place.join(name)));
        files.find(|file| file.is_file())
    };
    let mut refused = None;
    let written = || inside()?.map_err(|why| refused = Some(why)).ok();
    if let Some(path) = found(own).or_else(written).or_else(|| found(others)) {
        return Ok(path);
    }
    if let Some(why) = refused {
        return Err(Failure::new(REFUSED, format!("the library inside this command cannot be unpacked: {why}"))
            .remedy("set XDG_CACHE_HOME to a directory that can be written, or name a libmasu.so with --lib PATH"));
    }
    let list: Vec<_> = own.iter().chain(others).map(|place| place.display().to_string()).collect();
    Err(Failure::new(REFUSED, format!("{} is in none of these directories:", NAMES[1]))
        .remedy(format!("{}\nname it with --lib PATH", list.join("\n"))))
}

/// Returns the directories to search, best first: those of the command's own installation (a build's `target` directory,
/// `bin` beside `lib`), then the user's library path and the system's.
fn places(command: Option<&Path>) -> [Vec<PathBuf>; 2] {
    let multiarch = format!("{}-linux-gnu", consts::ARCH);
    let (mut own, mut others) = (Vec::new(), Vec::new());
    if let Some(beside) = command.and_then(Path::parent) {
        own.push(beside.to_path_buf());
        if let Some(prefix) = beside.parent() {
            let lib = prefix.join("lib");
            own.extend([lib.join("masu"), lib.join(&multiarch), prefix.join("lib64"), lib]);
        }
    }
    if let Some(path) = env::var_os("LD_LIBRARY_PATH") {
        others.extend(env::split_paths(&path).filter(|place| place.is_absolute()));
    }
    for prefix in ["/usr/local", "/usr", "/"] {
        let lib = Path::new(prefix).join("lib");
        others.extend([lib.join(&multiarch), Path::new(prefix).join("lib64"), lib]);
    }
    let mut seen = std::collections::HashSet::new();
    [own, others].map(|mut places| {
        places.retain(|place| seen.insert(place.clone()));
        places
    })
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;

    #[test]
    fn the_own_installation_comes_first_and_no_place_twice() {
        let [own, others] = places(Some(Path::new("/usr/bin/masu")));
        assert_eq!(own[..2], [Path::new("/usr/bin"), Path::new("/usr/lib/masu")]);
        let lib = own.iter().chain(&others).filter(|place| *place == Path::new("/usr/lib"));
        assert_eq!(lib.count(), 1);
    }

    type Inside = Option<Result<PathBuf, String>>;

    /// A library of the system may be of another version than the command, whose tables it could not read.
    #[test]
    fn the_library_inside_comes_before_those_of_the_system() {
        let place = tempfile::tempdir().unwrap();
        let [own, system] = ["own", "system"].map(|name| place.path().join(name));
        let installed = |directory: &Path| directory.join(NAMES[0]);
        let chosen = |inside: Inside| choose(from_ref(&own), || inside, from_ref(&system));
        let inside = || Some(Ok(PathBuf::from("/inside")));
        let locked = || Some(Err("no room".to_owned()));
        assert!(chosen(None).is_err() && chosen(locked()).is_err());
        std::fs::create_dir_all(&system).unwrap();
        std::fs::write(installed(&system), "").unwrap();
        assert_eq!(chosen(None).unwrap(), installed(&system));
        assert_eq!(chosen(locked()).unwrap(), installed(&system));
        assert_eq!(chosen(inside()).unwrap(), Path::new("/inside"));
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(installed(&own), "").unwrap();
        assert_eq!(chosen(inside()).unwrap(), installed(&own));
    }
}

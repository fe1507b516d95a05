//! The files that a process has mapped, in the loader's order, each read as the process sees it:
//! the process may have its own root, and a file may have been replaced since.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use procfs_core::process::{MMPermissions, MMapPath, MemoryMap, MemoryMaps};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

use super::root::{Root, is_file};
use super::serving::{self, Loaded};
use crate::allocators::{Contents, MASU, file_name};
use crate::preload;

/// Maximum bytes of a list of files.
const MOST: u64 = 1 << 20;

/// The files of a process.
pub struct Files {
    /// The program comes first.
    pub ordered: Vec<Loaded>,
    /// Files that were removed or replaced after they were mapped.
    pub deleted: Vec<PathBuf>,
}

/// A file mapped as executable.
struct Mapped {
    loaded: Loaded,
    /// Its path as the process names it.
    own: PathBuf,
    /// Its device and inode number.
    identity: Option<(u64, u64)>,
    deleted: bool,
}

impl Files {
    /// The files in `maps`, of a process that runs `binary` and was started with this environment.
    pub fn of(
        maps: &MemoryMaps,
        binary: Option<&Path>,
        environment: &Environment,
        root: &Root,
    ) -> Self {
        let mut mapped: Vec<Mapped> = Vec::new();
        let directory = root.process_directory();
        for map in &maps.0 {
            let MMapPath::Path(path) = &map.pathname else { continue };
            let (path, deleted) = undeleted(path);
            let known = mapped.iter().any(|file| file.loaded.path == path);
            if map.perms.contains(MMPermissions::EXECUTE) && !known {
                let own = match path.strip_prefix(&directory) {
                    Ok(inside) => Path::new("/").join(inside),
                    Err(_) => path.clone(),
                };
                mapped.push(read(map, path, own, deleted, root));
            }
        }
        let program = binary.map(|path| Loaded {
            path: path.to_path_buf(),
            contents: File::open(root.process_file("exe"))
                .ok()
                .and_then(|file| Contents::of_file(file, &file_name(path)))
                .or_else(|| Contents::read(&root.at(path))),
            preloaded: false,
        });
        let deleted = mapped.iter().filter(|file| file.deleted);
        let deleted = deleted.map(|file| file.loaded.path.clone()).collect();
        mapped.retain(|file| Some(&*file.loaded.path) != binary);
        let preloads = Preloads::of(environment, root);
        let files = || program.iter().chain(mapped.iter().map(|mapped| &mapped.loaded));
        let position = |file: &Loaded| {
            let mapped = mapped.iter().find(|mapped| mapped.loaded.path == file.path)?;
            preloads.named(mapped).or_else(|| preloads.guessed(file, files()))
        };
        let others = mapped.iter().map(|file| file.loaded.clone()).collect();
        Self { ordered: serving::in_order(program.as_ref(), others, position), deleted }
    }

    /// Returns the program.
    pub fn program(&self) -> Option<&Loaded> {
        self.ordered.first()
    }

    /// Returns the first file that offers masu's `malloc`.
    pub fn masu(&self) -> Option<&Loaded> {
        self.ordered.iter().find(|file| file.malloc() == Some(MASU))
    }
}

fn read(map: &MemoryMap, path: PathBuf, own: PathBuf, deleted: bool, root: &Root) -> Mapped {
    let (start, end) = map.address;
    // The exact file, whatever its name refers to now; opening it this way takes privileges.
    let exact = File::open(root.process_file(&format!("map_files/{start:x}-{end:x}")));
    let file = match exact {
        Ok(file) => Some(file),
        Err(_) if deleted => None,
        Err(_) => open(&own, root),
    };
    let metadata = file.as_ref().and_then(|file| file.metadata().ok());
    let identity = metadata.map(|metadata| (metadata.dev(), metadata.ino()));
    let contents = file.and_then(|file| Contents::of_file(file, &file_name(&path)));
    Mapped { loaded: Loaded { path, contents, preloaded: false }, own, identity, deleted }
}

/// Opens the file at `path` as the process sees it. It may have put a FIFO there, or a link to a device.
fn open(path: &Path, root: &Root) -> Option<File> {
    if !root.is_live() {
        return File::open(root.at(path)).ok();
    }
    let own = root.process_file("root");
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let own_root = rustix::fs::openat(CWD, &own, flags, Mode::empty()).ok()?;
    let inside = path.strip_prefix("/").ok()?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    // An absolute link is resolved from that root, too.
    let file = match openat2(&own_root, inside, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
        Err(rustix::io::Errno::NOSYS) => {
            rustix::fs::openat(CWD, own.join(inside), flags, Mode::empty())
        }
        opened => opened,
    };
    file.ok().map(File::from).filter(is_file)
}

/// Returns the text of the file at `path` as the process sees it, as far as it can be a list.
fn text(path: &Path, root: &Root) -> Option<String> {
    io::read_to_string(open(path, root)?.take(MOST)).ok()
}

/// Whether the process sees a file at `path`.
pub fn sees(path: &Path, root: &Root) -> bool {
    open(path, root).is_some()
}

/// The files to be preloaded.
struct Preloads {
    entries: Vec<(PathBuf, Option<(u64, u64)>)>,
    /// Whether the environment says so: a program may have written over it.
    told: bool,
}

/// Positions of preloaded files: masu of which no list is known, those that are named, others.
const MASU_GUESSED: usize = 0;
const NAMED: usize = 1;
const GUESSED: usize = usize::MAX;

impl Preloads {
    fn of(environment: &Environment, root: &Root) -> Self {
        let list = text(Path::new("/etc/ld.so.preload"), root).unwrap_or_default();
        let list = list.replace('\n', " ");
        let value = environment.value("LD_PRELOAD").unwrap_or_default();
        let entries = preload::entries(value).chain(preload::entries(OsStr::new(&list)));
        let identity = |path: &Path| {
            let metadata = open(path, root)?.metadata().ok()?;
            Some((metadata.dev(), metadata.ino()))
        };
        let entries = entries.map(PathBuf::from).map(|path| {
            let identity = identity(&path);
            (path, identity)
        });
        Self { entries: entries.collect(), told: !environment.variables().is_empty() }
    }

    /// Which of them it is.
    fn named(&self, file: &Mapped) -> Option<usize> {
        let by_name = |path: &Path| {
            path == file.own || { !path.has_root() && file.loaded.is_called(&file_name(path)) }
        };
        let named = self.entries.iter().position(|(path, identity)| {
            by_name(path) || (identity.is_some() && *identity == file.identity)
        });
        Some(NAMED + named?)
    }

    /// Without an environment, an allocator that none of the `files` is linked with must be one of them.
    /// `masu run` puts masu first.
    fn guessed<'a>(
        &self,
        file: &Loaded,
        mut files: impl Iterator<Item = &'a Loaded>,
    ) -> Option<usize> {
        let allocator = file.malloc().filter(|name| !matches!(*name, "glibc" | "musl"))?;
        let preloaded = !self.told && !files.any(|other| other.needs(file));
        preloaded.then_some(if allocator == MASU { MASU_GUESSED } else { GUESSED })
    }
}

/// Returns the path without the mark of a deleted file.
pub fn undeleted(path: &Path) -> (PathBuf, bool) {
    match path.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
        Some(path) => (PathBuf::from(OsStr::from_bytes(path)), true),
        None => (path.to_path_buf(), false),
    }
}

/// The variables that a process was started with.
pub enum Environment {
    Read(Vec<CString>),
    /// The process has written over them, as programs do that change their title.
    Overwritten,
    Unreadable,
}

impl Environment {
    /// That of a process.
    pub fn of(root: &Root) -> Self {
        let Ok(bytes) = root.process_words("environ") else { return Self::Unreadable };
        // A title, or zeros, from the beginning on.
        let first = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        if !bytes.is_empty() && !first.contains(&b'=') {
            return Self::Overwritten;
        }
        let variables = bytes.split(|&byte| byte == 0).filter(|variable| !variable.is_empty());
        Self::Read(variables.filter_map(|variable| CString::new(variable).ok()).collect())
    }

    /// The variables, none if they are not known.
    pub fn variables(&self) -> &[CString] {
        match self {
            Self::Read(variables) => variables,
            Self::Overwritten | Self::Unreadable => &[],
        }
    }

    /// The value of a variable.
    pub fn value(&self, name: &str) -> Option<&OsStr> {
        let mut variables = self.variables().iter().map(|variable| variable.to_bytes());
        let value =
            variables.find_map(|text| text.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        value.map(OsStr::from_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    #[test]
    fn what_is_no_file_is_not_read() {
        let (place, root) = (tempfile::tempdir().unwrap(), Root::new(None, None));
        let path = |name| place.path().join(name);
        fs::write(path("list"), "/a.so\n").unwrap();
        std::os::unix::fs::symlink("/dev/zero", path("zero")).unwrap();
        assert!(Command::new("mkfifo").arg(path("fifo")).status().unwrap().success());
        assert_eq!(text(&path("list"), &root).as_deref(), Some("/a.so\n"));
        for name in ["none", "zero", "fifo"] {
            assert!(!sees(&path(name), &root), "{name}");
        }
    }
}

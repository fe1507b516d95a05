//! The kernel's files under a directory: `/`, or a copy of another machine's, as the tests make
//! them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use masu_watch::process::memory_id;
use procfs_core::FromRead;

/// Maximum bytes of a text, and of arguments or variables: the kernel allows less than half as many, but afterwards a
/// process may name any of its memory as them.
const MOST: u64 = 16 << 20;

/// Where `/proc` and `/sys` are, and which process's files are read.
pub struct Root {
    directory: PathBuf,
    process: String,
}

impl Root {
    /// Uses the files under `directory`, as the process with this id sees them, or as this one
    /// does. On the running system, they are those of the thread that shows the process's memory.
    pub fn new(directory: Option<&Path>, process: Option<u32>) -> Self {
        let process = if directory.is_none() { process.map(memory_id) } else { process };
        Self {
            directory: directory.unwrap_or(Path::new("/")).to_path_buf(),
            process: process.map_or_else(|| "self".to_owned(), |id| id.to_string()),
        }
    }

    /// Whether this is the running system.
    pub fn is_live(&self) -> bool {
        self.directory == Path::new("/")
    }

    /// Returns where the file called `path` on that system is on this one.
    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.directory.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Returns where the process's file `name` is.
    pub fn process_file(&self, name: &str) -> PathBuf {
        self.at(format!("/proc/{}/{name}", self.process))
    }

    /// Returns the arguments or the variables of the process.
    pub fn process_words(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.process_file(name))?.take(MOST).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Returns the directory that is the process's root, as this process names it.
    pub fn process_directory(&self) -> PathBuf {
        fs::read_link(self.process_file("root")).unwrap_or_else(|_| "/".into())
    }

    /// Returns the text of a file, trimmed. Where a process says that its control groups are, it may have put a FIFO.
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let mut how = OpenOptions::new();
        how.read(true).custom_flags(libc::O_NONBLOCK);
        let file = how.open(self.at(path)).ok().filter(is_file)?;
        Some(io::read_to_string(file.take(MOST)).ok()?.trim().to_owned())
    }

    /// Reads a file that holds one value.
    pub fn value<T: FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// Returns the word in brackets of a file that lists choices: `always [madvise] never`.
    pub fn choice(&self, path: impl AsRef<Path>) -> Option<String> {
        let text = self.text(path)?;
        let (_, behind) = text.split_once('[')?;
        Some(behind.split_once(']')?.0.to_owned())
    }

    /// Parses a file of the process. Names in it need not be text: the kernel cuts a process's own within a character.
    pub fn process<T: FromRead>(&self, name: &str) -> Option<T> {
        let bytes = fs::read(self.process_file(name)).ok()?;
        T::from_read(String::from_utf8_lossy(&bytes).as_bytes()).ok()
    }

    /// Parses a file of the system.
    pub fn system<T: FromRead>(&self, path: &str) -> Option<T> {
        T::from_file(self.at(path)).ok()
    }

    /// Returns a value of the process's auxiliary vector.
    pub fn auxiliary(&self, key: u64) -> Option<u64> {
        let bytes = fs::read(self.process_file("auxv")).ok()?;
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        let pairs = bytes.chunks_exact(16).map(|pair| (word(&pair[..8]), word(&pair[8..])));
        pairs.into_iter().find(|&(found, _)| found == key).map(|(_, value)| value)
    }
}

/// Whether an open file is neither a FIFO nor a device.
pub fn is_file(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_is_no_file_has_no_text() {
        let place = tempfile::tempdir().unwrap();
        let root = Root::new(Some(place.path()), None);
        fs::write(root.at("/file"), "max\n").unwrap();
        std::os::unix::fs::symlink("/dev/zero", root.at("/zero")).unwrap();
        assert!(Command::new("mkfifo").arg(root.at("/fifo")).status().unwrap().success());
        assert_eq!(root.text("/file").as_deref(), Some("max"));
        assert_eq!(["/none", "/zero", "/fifo"].map(|name| root.text(name)), [None, None, None]);
    }

    #[test]
    fn no_process_has_more_words_than_the_kernel_allows() {
        let place = tempfile::tempdir().unwrap();
        let root = Root::new(Some(place.path()), Some(7));
        fs::create_dir_all(place.path().join("proc/7")).unwrap();
        fs::write(root.process_file("environ"), "A=1\0").unwrap();
        assert_eq!(root.process_words("environ").unwrap(), b"A=1\0");
        File::create(root.process_file("environ")).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(root.process_words("environ").unwrap().len() as u64, MOST);
    }
}

//! A process's control group: its name, and how much memory it allows.
//!
//! The limiting group is the one with the tightest limit among the process's own and those above it. Its files are
//! looked for in this process's view, and otherwise in the other process's: in a container each has its own view.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use masu_profile::files;

use crate::printable::printable;

/// Version 1 expresses "no limit" as the largest multiple of a page.
const UNLIMITED: u64 = 1 << 60;
/// Maximum number of characters of a name.
const LONGEST: usize = 256;
/// Maximum bytes of a group's file.
const MOST: u64 = 64 << 10;

/// The control group of a process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Group {
    /// The path of its own group, as this process sees it.
    pub name: String,
    /// The limit in force.
    pub limit: Option<Limit>,
}

/// A group with a limit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Limit {
    /// Bytes above which the kernel kills.
    pub bytes: u64,
    directory: PathBuf,
    is_first_version: bool,
}

/// Returns the group of a process. `root` is `/` except in tests.
pub fn of(root: &Path, process: u32) -> Group {
    let own = root.join(format!("proc/{process}"));
    let text = fs::read_to_string(own.join("cgroup")).unwrap_or_default();
    let lines = || text.lines().map(|line| line.splitn(3, ':').collect::<Vec<_>>());
    let path = |wanted: &dyn Fn(&str) -> bool| {
        lines().find_map(|line| match line[..] {
            [_, controllers, path] if wanted(controllers) => Some(path.to_owned()),
            _ => None,
        })
    };
    let first = path(&|controllers| controllers.split(',').any(|it| it == "memory"));
    let (path, is_first_version) = match first {
        Some(path) => (path, true),
        None => (path(&str::is_empty).unwrap_or_default(), false),
    };
    let mount = if is_first_version { "sys/fs/cgroup/memory" } else { "sys/fs/cgroup" };
    let mut directories = groups(&root.join(mount), &path);
    if directories.is_empty() {
        directories = groups(&own.join("root").join(mount), "/");
    }
    let file = if is_first_version { "memory.limit_in_bytes" } else { "memory.max" };
    let limits = directories.into_iter().filter_map(|directory| {
        let bytes = number(&directory.join(file)).filter(|&bytes| bytes < UNLIMITED)?;
        Some(Limit { bytes, directory, is_first_version })
    });
    let name = printable(&path).chars().take(LONGEST).collect();
    Group { name, limit: limits.min_by_key(|limit| limit.bytes) }
}

/// Returns the directories of a group and those above it, innermost first; empty if the path is not visible.
fn groups(mount: &Path, path: &str) -> Vec<PathBuf> {
    let path = Path::new(path.trim_start_matches('/'));
    let is_outside = path.components().any(|part| part.as_os_str() == "..");
    if is_outside || !mount.join(path).is_dir() {
        return Vec::new();
    }
    path.ancestors().map(|part| mount.join(part)).collect()
}

impl Limit {
    /// Returns the bytes in use, without files that the kernel can drop at once.
    pub fn used(&self) -> Option<u64> {
        let (current, idle) = match self.is_first_version {
            true => ("memory.usage_in_bytes", "total_inactive_file "),
            false => ("memory.current", "inactive_file "),
        };
        let current = number(&self.directory.join(current))?;
        let stat = text(&self.directory.join("memory.stat")).unwrap_or_default();
        let idle = stat.lines().find_map(|line| line.strip_prefix(idle)?.trim().parse().ok());
        Some(current.saturating_sub(idle.unwrap_or(0)))
    }
}

fn number(file: &Path) -> Option<u64> {
    text(file)?.trim().parse().ok()
}

/// Returns the text of a file. In the other process's view it may be a FIFO, or have no end.
fn text(file: &Path) -> Option<String> {
    io::read_to_string(files::open(file).ok()?.take(MOST)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_tightest_limit_counts() {
        let root = root(&[
            ("proc/7/cgroup", "0::/pod/container\n"),
            ("sys/fs/cgroup/pod/container/memory.max", "max\n"),
            ("sys/fs/cgroup/pod/memory.max", "1000\n"),
            ("sys/fs/cgroup/pod/memory.current", "900\n"),
            ("sys/fs/cgroup/pod/memory.stat", "anon 1\ninactive_file 300\n"),
        ]);
        let group = of(root.path(), 7);
        let limit = group.limit.unwrap();
        assert_eq!((&*group.name, limit.bytes, limit.used()), ("/pod/container", 1000, Some(600)));
    }

    #[test]
    fn a_container_has_a_view_of_its_own() {
        let root = root(&[
            ("proc/7/cgroup", "0::/../other\n"),
            ("proc/7/root/sys/fs/cgroup/memory.max", "5000\n"),
            ("proc/7/root/sys/fs/cgroup/memory.current", "40\n"),
            ("sys/fs/cgroup/memory.max", "1\n"),
        ]);
        let limit = of(root.path(), 7).limit.unwrap();
        assert_eq!((limit.bytes, limit.used()), (5000, Some(40)));
    }

    #[test]
    fn a_view_without_files_keeps_nobody_waiting() {
        let root = root(&[
            ("proc/7/cgroup", "0::/../other\n"),
            ("proc/7/root/sys/fs/cgroup/memory.stat", ""),
        ]);
        let limit = root.path().join("proc/7/root/sys/fs/cgroup/memory.max");
        std::os::unix::fs::symlink("/dev/zero", &limit).unwrap();
        assert_eq!(of(root.path(), 7).limit, None);
        fs::remove_file(&limit).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&limit).status().unwrap().success());
        assert_eq!(of(root.path(), 7).limit, None);
    }

    #[test]
    fn the_first_version_has_a_tree_for_memory() {
        let root = root(&[
            ("proc/7/cgroup", "4:cpu:/x\n3:memory:/a\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2000\n"),
            ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "500\n"),
            ("sys/fs/cgroup/memory/a/memory.stat", "total_inactive_file 100\n"),
        ]);
        let limit = of(root.path(), 7).limit.unwrap();
        assert_eq!((limit.bytes, limit.used()), (2000, Some(400)));
        assert_eq!(of(root.path(), 8), Group::default());
    }
}

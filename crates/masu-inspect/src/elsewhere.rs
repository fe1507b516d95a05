//! The part of a process's memory that is not masu's, from what the kernel says about each mapping.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use procfs_core::process::{MMPermissions, MMapPath, MemoryMap};

/// The kind of a mapping outside masu.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The program and its libraries: code, constants, variables.
    Programs,
    /// Files mapped for their data.
    Files,
    /// Memory shared between processes.
    Shared,
    /// Threads' stacks.
    Stacks,
    /// The area that `brk` moves, which masu does not use: another allocator's.
    Brk,
    /// Anonymous memory mapped by the program itself or by another allocator; with its name, if it has one.
    Anonymous(Option<String>),
}

/// Classifies mappings, each with its number of resident bytes that are not masu's, and returns the
/// bytes of each kind.
pub fn sort(mappings: &[(&MemoryMap, u64)]) -> BTreeMap<What, u64> {
    let programs: HashSet<&PathBuf> = mappings
        .iter()
        .map(|(map, _)| *map)
        .filter(|map| map.perms.contains(MMPermissions::EXECUTE))
        .filter_map(|map| path(map))
        .collect();
    let mut sorted = BTreeMap::new();
    let mut before: Option<(&MemoryMap, What)> = None;
    for &(map, bytes) in mappings {
        let what = match &map.pathname {
            MMapPath::Path(path) if is_zeroes(path) => match map.perms {
                perms if perms.contains(MMPermissions::SHARED) => What::Shared,
                _ => What::Anonymous(None),
            },
            MMapPath::Path(path) if path.starts_with("/dev/shm") || is_memfd(path) => What::Shared,
            MMapPath::Path(path) if programs.contains(path) => What::Programs,
            MMapPath::Path(_) => What::Files,
            MMapPath::Heap => What::Brk,
            MMapPath::Stack | MMapPath::TStack(_) => What::Stacks,
            MMapPath::Vsys(_) => What::Shared,
            MMapPath::Vdso | MMapPath::Vvar | MMapPath::Vsyscall => What::Programs,
            MMapPath::Anonymous => behind(before.as_ref(), map).unwrap_or(What::Anonymous(None)),
            MMapPath::Other(name) if name.contains("stack") => What::Stacks,
            MMapPath::Other(name) if name.starts_with("anon_shmem:") => What::Shared,
            MMapPath::Other(name) => {
                What::Anonymous(Some(name.strip_prefix("anon:").unwrap_or(name).to_owned()))
            }
            _ => What::Anonymous(None),
        };
        *sorted.entry(what.clone()).or_default() += bytes;
        before = Some((map, what));
    }
    sorted
}

/// Classifies an anonymous mapping by the one before it, if they are adjacent: after a program's file come its
/// variables, after an inaccessible page a stack.
fn behind(before: Option<&(&MemoryMap, What)>, map: &MemoryMap) -> Option<What> {
    let (before, what) = before?;
    if before.address.1 != map.address.0 {
        return None;
    }
    let guard = before
        .perms
        .intersection(MMPermissions::READ | MMPermissions::WRITE | MMPermissions::EXECUTE);
    let is_guard = guard.is_empty()
        && before.pathname == MMapPath::Anonymous
        && before.address.1 - before.address.0 <= MOST_GUARD;
    let writable = MMPermissions::READ | MMPermissions::WRITE;
    match what {
        What::Programs if path(before).is_some() => Some(What::Programs),
        _ if is_guard && map.perms.contains(writable) => Some(What::Stacks),
        _ => None,
    }
}

/// Bytes of a stack's widest guard: those of the largest page.
const MOST_GUARD: u64 = 64 << 10;

fn path(map: &MemoryMap) -> Option<&PathBuf> {
    match &map.pathname {
        MMapPath::Path(path) => Some(path),
        _ => None,
    }
}

/// Whether it is the kernel's device for memory. The kernel names shared anonymous mappings after it, as if it were
/// deleted.
fn is_zeroes(path: &std::path::Path) -> bool {
    matches!(path.as_os_str().as_encoded_bytes(), b"/dev/zero" | b"/dev/zero (deleted)")
}

fn is_memfd(path: &std::path::Path) -> bool {
    path.as_os_str().as_encoded_bytes().starts_with(b"/memfd:")
}

/// Returns the resident bytes of a mapping.
pub fn resident(map: &MemoryMap) -> u64 {
    map.extension.map.get("Rss").copied().unwrap_or(0)
}

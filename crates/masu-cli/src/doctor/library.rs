//! The library: where it was found, and whether every user's loader can map it.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::StatVfsMountFlags;

use super::finding::Finding;
use super::masu::Masu;
use super::root::Root;
use crate::library::Library;

/// Examines the library.
pub fn look(library: &Library, root: &Root) -> Vec<Finding> {
    let path = &library.path;
    let shown = path.display();
    let mut findings: Vec<Finding> = [noexec(path), closed(path)].into_iter().flatten().collect();
    if findings.is_empty() {
        let machine = library.elf.machine;
        findings.push(Finding::ok("library.file", format!("{shown}, {machine}.")));
    }
    findings.extend(elsewhere(path));
    findings.extend(whole_system(root));
    findings
}

/// A mount that forbids mapping code.
fn noexec(path: &Path) -> Option<Finding> {
    let mount = rustix::fs::statvfs(path).ok()?;
    mount.f_flag.contains(StatVfsMountFlags::NOEXEC).then(|| {
        let shown = path.display();
        Finding::problem(
            "library.mount",
            format!("{shown} is on a file system mounted noexec: no loader can map code from it."),
        )
        .fix("copy it to a file system without noexec, such as /usr/local/lib, and name it with --lib")
    })
}

/// A file or directory that only some users can read.
fn closed(path: &Path) -> Option<Finding> {
    let readable = |path: &Path, bits: u32| {
        fs::metadata(path).is_ok_and(|metadata| metadata.mode() & bits == bits)
    };
    let closed = path.ancestors().enumerate().find(|&(i, part)| {
        // A library must be readable and a directory searchable, also by others.
        !readable(part, if i == 0 { 0o004 } else { 0o001 })
    });
    let (i, part) = closed?;
    let mode = if i == 0 { "o+r" } else { "o+x" };
    Some(
        Finding::note(
            "library.readable",
            format!(
                "{} is not readable by all users: other users' programs will run without masu.",
                part.display()
            ),
        )
        .fix(format!("chmod {mode} {}", part.display())),
    )
}

/// Another copy, which the loader finds by name.
fn elsewhere(path: &Path) -> Option<Finding> {
    let directories = env::var_os("LD_LIBRARY_PATH")?;
    let copy = env::split_paths(&directories)
        .map(|directory| directory.join("libmasu.so"))
        .find(|copy| copy.is_file())?;
    if copy.canonicalize().ok() == path.canonicalize().ok() {
        return None;
    }
    let (copy, path) = (copy.display(), path.display());
    Some(
        Finding::note(
            "library.other",
            format!("LD_LIBRARY_PATH leads to another copy, {copy}: programs linked with masu get that one."),
        )
        .fix(format!("keep one of the two: {copy}, {path}")),
    )
}

/// The list for all programs of the system.
fn whole_system(root: &Root) -> Option<Finding> {
    let list = root.text("/etc/ld.so.preload")?;
    let masu = Masu::new(None);
    masu.is_in(Some(list.replace('\n', " ").as_ref())).then(|| {
        Finding::ok(
            "library.system",
            "/etc/ld.so.preload puts it into every program of the system.",
        )
    })
}

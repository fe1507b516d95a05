//! Whether the kernel starts a program in secure-execution mode, in which the dynamic loader
//! ignores `LD_PRELOAD` (ld.so(8)) and masu its environment.
//!
//! The kernel turns the mode on if the exec changes the user or the group, or if it grants
//! capabilities to a user other than root. A set-user-ID bit alone does not: root may preload into
//! `su`, and so may any user where the bit has no effect.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::StatVfsMountFlags;
use rustix::process::{getegid, geteuid, getgid, getuid};

/// What a program gains when it is started.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Gain {
    /// Another user's rights (mode bit 04000).
    User,
    /// Another group's rights (mode bit 02000).
    Group,
    /// Capabilities stored with the file.
    Capabilities,
    /// Nothing, but this process already has such rights and passes them on.
    Inherited,
}

/// The process that starts it.
struct Caller {
    real_user: u32,
    user: u32,
    real_group: u32,
    group: u32,
}

/// The file's relevant attributes.
struct Bits {
    mode: u32,
    owner: u32,
    owning_group: u32,
    capabilities: bool,
}

/// Returns what makes the program at `path` start in secure-execution mode, if anything.
pub fn gained_by(path: &Path) -> Option<Gain> {
    let caller = Caller {
        real_user: getuid().as_raw(),
        user: geteuid().as_raw(),
        real_group: getgid().as_raw(),
        group: getegid().as_raw(),
    };
    let metadata = fs::metadata(path).ok().filter(|_| !bits_have_no_effect(path));
    gain(&caller, metadata.map(|metadata| bits(path, &metadata)).as_ref())
}

fn bits(path: &Path, metadata: &Metadata) -> Bits {
    // Only its presence counts: a value too large for the buffer is still present.
    let attribute = rustix::fs::getxattr(path, "security.capability", &mut [0_u8; 64]);
    Bits {
        mode: metadata.mode(),
        owner: metadata.uid(),
        owning_group: metadata.gid(),
        capabilities: matches!(attribute, Ok(1..) | Err(rustix::io::Errno::RANGE)),
    }
}

/// Whether the mount or the process forbids gaining rights.
fn bits_have_no_effect(path: &Path) -> bool {
    rustix::thread::no_new_privs().unwrap_or(false)
        || rustix::fs::statvfs(path)
            .is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::NOSUID))
}

fn gain(caller: &Caller, file: Option<&Bits>) -> Option<Gain> {
    const SET_USER: u32 = libc::S_ISUID;
    // Without the group's execute bit the set-group-ID bit marks mandatory locking.
    const SET_GROUP: u32 = libc::S_ISGID | libc::S_IXGRP;
    if let Some(file) = file {
        if file.mode & SET_USER != 0 && file.owner != caller.real_user {
            return Some(Gain::User);
        }
        if file.mode & SET_GROUP == SET_GROUP && file.owning_group != caller.real_group {
            return Some(Gain::Group);
        }
        if file.capabilities && caller.real_user != 0 {
            return Some(Gain::Capabilities);
        }
    }
    let differs = caller.real_user != caller.user || caller.real_group != caller.group;
    differs.then_some(Gain::Inherited)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: Caller = Caller { real_user: 1000, user: 1000, real_group: 1000, group: 1000 };
    const ROOT: Caller = Caller { real_user: 0, user: 0, real_group: 0, group: 0 };

    fn file(mode: u32, owner: u32, owning_group: u32) -> Bits {
        Bits { mode, owner, owning_group, capabilities: false }
    }

    #[test]
    fn only_a_change_of_user_or_group_counts() {
        assert_eq!(gain(&USER, Some(&file(0o755, 0, 0))), None);
        assert_eq!(gain(&USER, Some(&file(0o4755, 0, 0))), Some(Gain::User));
        assert_eq!(gain(&USER, Some(&file(0o4755, 1000, 0))), None);
        assert_eq!(gain(&ROOT, Some(&file(0o4755, 0, 0))), None);
        assert_eq!(gain(&ROOT, Some(&file(0o4755, 1000, 0))), Some(Gain::User));
        assert_eq!(gain(&USER, Some(&file(0o2755, 0, 42))), Some(Gain::Group));
        assert_eq!(gain(&USER, Some(&file(0o2745, 0, 42))), None);
        assert_eq!(gain(&USER, Some(&file(0o2755, 0, 1000))), None);
    }

    #[test]
    fn capabilities_count_for_everybody_but_root() {
        let file = Bits { capabilities: true, ..file(0o755, 0, 0) };
        assert_eq!(gain(&USER, Some(&file)), Some(Gain::Capabilities));
        assert_eq!(gain(&ROOT, Some(&file)), None);
    }

    #[test]
    fn rights_that_are_there_already_are_handed_on() {
        let caller = Caller { user: 0, ..USER };
        assert_eq!(gain(&caller, Some(&file(0o755, 0, 0))), Some(Gain::Inherited));
        assert_eq!(gain(&caller, None), Some(Gain::Inherited));
    }
}

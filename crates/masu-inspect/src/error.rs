//! Why a process cannot be read.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use masu_watch::process::{memory_id, status};
use rustix::process::geteuid;

/// Why.
#[derive(Debug)]
pub enum Error {
    /// There is no such process.
    NoProcess(u32),
    /// It ended while it was read.
    Ended(u32),
    /// It executed another program while it was read.
    Replaced(u32),
    /// masu is not in it.
    NoMasu(u32),
    /// It belongs to another user, or has more rights than the caller.
    Refused(u32),
    /// It belongs to the caller's user, but the kernel does not let this caller read its memory.
    Guarded(u32),
    /// Its masu has a version that this program does not know.
    Version {
        /// The process ID.
        process: u32,
        /// The version of its masu.
        masu: String,
        /// The version of the layout.
        layout: u64,
    },
    /// The data read is inconsistent.
    Damaged(u32),
}

/// What root lacks where it may not read a process.
const ROOT: &str = "root needs CAP_SYS_PTRACE in the process's user namespace: start the container with \
                    --cap-add SYS_PTRACE, or run masu on the host";

/// What keeps root from a process, and what can be done about it.
pub fn root() -> String {
    const CAP_SYS_PTRACE: u64 = 1 << 19;
    let rights = status(std::process::id()).map_or(0, |status| status.capeff);
    root_confined(apparmor().as_deref(), rights & CAP_SYS_PTRACE != 0)
}

fn root_confined(profile: Option<&str>, may_trace: bool) -> String {
    match profile {
        Some(profile) if may_trace => format!("{}, or run masu on the host", unconfined(profile)),
        Some(profile) => format!("{ROOT}. {}", unconfined(profile)),
        None => ROOT.into(),
    }
}

fn unconfined(profile: &str) -> String {
    format!(
        "AppArmor's profile {profile} may forbid it: start the container with --security-opt apparmor=unconfined"
    )
}

/// Returns the AppArmor profile that confines this process, if one does. Kernels before 5.8 have one file for all
/// security modules.
fn apparmor() -> Option<String> {
    let read = |name| fs::read_to_string(format!("/proc/self/attr/{name}")).ok();
    profile(&read("apparmor/current").or_else(|| read("current"))?)
}

fn profile(label: &str) -> Option<String> {
    label.trim_end_matches(['\n', '\0']).strip_suffix(" (enforce)").map(str::to_owned)
}

impl Error {
    /// Converts the error of an attempt to read the process's memory, made by a caller that may read its mappings.
    pub fn of(process: u32, error: &io::Error) -> Error {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Error::Guarded(process),
            Some(libc::ESRCH | libc::ENOENT) => Error::gone(process),
            // Addresses disappear when a process ends, and when it unmaps them.
            _ if !Path::new(&format!("/proc/{}/exe", memory_id(process))).exists() => {
                Error::gone(process)
            }
            _ => Error::Damaged(process),
        }
    }

    /// Returns the error for a process with nothing to read: it has ended and is not reaped yet, or does not exist.
    pub(crate) fn missing(process: u32) -> Error {
        match Path::new(&format!("/proc/{process}")).exists() {
            true => Error::Ended(process),
            false => Error::NoProcess(process),
        }
    }

    /// Returns whether processes can be looked up at all.
    fn has_proc() -> bool {
        Path::new("/proc/self").exists()
    }

    fn gone(process: u32) -> Error {
        Error::Ended(process)
    }

    /// Returns what can be done about it.
    pub fn remedy(&self) -> String {
        match self {
            Error::NoProcess(_) if !Self::has_proc() => "mount it: mount -t proc proc /proc".into(),
            Error::NoProcess(_) => {
                "`pgrep -a NAME` finds processes; `masu top` lists those on masu".into()
            }
            Error::Ended(_) => {
                "`masu watch -- COMMAND` follows a program from its start to its end".into()
            }
            Error::Replaced(_) => "repeat the command, which then looks at that program".into(),
            Error::NoMasu(process) => {
                format!(
                    "`masu doctor -p {process}` says why; `masu run -- COMMAND` starts a program on masu"
                )
            }
            Error::Refused(_) if geteuid().is_root() => root(),
            Error::Refused(_) => {
                "it is another user's, or has more privileges than you: use sudo masu; start a container \
                 with --cap-add SYS_PTRACE, or run masu on the host"
                    .into()
            }
            Error::Guarded(_) => {
                guarded(yama().as_deref(), geteuid().is_root(), apparmor().as_deref())
            }
            Error::Version { masu, .. } => format!(
                "use version {masu} of the command `masu`, which came with that library"
            ),
            Error::Damaged(_) => {
                "try again; if it fails every time, the program has overwritten masu's tables"
                    .into()
            }
        }
    }
}

/// How to get past what keeps the user's own processes from each other.
fn guarded(yama: Option<&str>, is_root: bool, profile: Option<&str>) -> String {
    let way_out = if is_root { "give root CAP_SYS_PTRACE" } else { "use sudo masu" };
    match yama {
        Some("1") => format!(
            "kernel.yama.ptrace_scope is 1, so only its parents and root may: {way_out}, or start it with \
             `masu run --conf observe:1 -- COMMAND` (MASU_OBSERVE=1) or `masu watch -- COMMAND`"
        ),
        Some("2") => format!(
            "kernel.yama.ptrace_scope is 2, so only root, or a process with CAP_SYS_PTRACE, may: {way_out}"
        ),
        Some("3") => "kernel.yama.ptrace_scope is 3, so nobody may until the next boot: \
             `masu run --stats -- COMMAND` prints statistics at the program's exit"
            .into(),
        _ => match profile {
            Some(profile) => format!("{}, or run masu on the host", unconfined(profile)),
            None if is_root => format!("a sandbox or a security module forbids it, or {ROOT}"),
            None => "a sandbox or a security module forbids it: use sudo masu; start a container with --cap-add \
                     SYS_PTRACE, or run masu on the host"
                .into(),
        },
    }
}

/// Returns Yama's setting, if the kernel has it.
fn yama() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok().map(|text| text.trim().to_owned())
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Error::NoProcess(process) if !Self::has_proc() => {
                write!(f, "process {process} cannot be found: there is no /proc")
            }
            Error::NoProcess(process) => write!(f, "there is no process {process}"),
            Error::Ended(process) => write!(f, "process {process} has ended"),
            Error::Replaced(process) => write!(f, "process {process} has executed another program"),
            Error::NoMasu(process) => write!(f, "process {process} does not run on masu"),
            Error::Refused(process) | Error::Guarded(process) => {
                write!(f, "process {process} may not be read")
            }
            Error::Version { process, masu, layout } => {
                write!(
                    f,
                    "process {process} runs on masu {masu}, whose tables (layout {layout}) this command does not know"
                )
            }
            Error::Damaged(process) => write!(f, "process {process} cannot be understood"),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_kept_out_learns_every_way_in() {
        let scope = |n| guarded(Some(n), false, None);
        for way in ["sudo masu", "observe:1", "MASU_OBSERVE=1", "masu watch -- COMMAND"] {
            assert!(scope("1").contains(way), "{}", scope("1"));
        }
        assert!(scope("2").contains("CAP_SYS_PTRACE") && !scope("2").contains("observe"));
        assert!(scope("3").contains("nobody") && guarded(None, false, None).contains("SYS_PTRACE"));
        assert!(
            [None, Some("1")].iter().all(|&scope| !guarded(scope, true, None).contains("sudo"))
        );
        assert!(guarded(None, true, Some("docker-default")).contains("apparmor=unconfined"));
    }

    #[test]
    fn who_is_confined_learns_by_what() {
        assert_eq!(profile("docker-default (enforce)\n").as_deref(), Some("docker-default"));
        for label in
            ["unconfined\n", "docker-default (complain)\n", "system_u:system_r:init_t:s0\0", ""]
        {
            assert_eq!(profile(label), None, "{label:?}");
        }
        let confined = root_confined(Some("docker-default"), true);
        assert!(
            confined.contains("docker-default") && !confined.contains("SYS_PTRACE"),
            "{confined}"
        );
        let both = root_confined(Some("docker-default"), false);
        assert!(
            ["--cap-add SYS_PTRACE", "apparmor=unconfined"].iter().all(|way| both.contains(way)),
            "{both}"
        );
        assert_eq!(root_confined(None, true), ROOT);
    }

    #[test]
    fn a_refusal_is_told_from_an_end() {
        let of = |n| Error::of(std::process::id(), &io::Error::from_raw_os_error(n));
        assert!(matches!(of(libc::EPERM), Error::Guarded(_)));
        assert!(matches!(of(libc::ESRCH), Error::Ended(_)));
        assert!(matches!(of(libc::EFAULT), Error::Damaged(_)));
    }
}

//! Why a process cannot be read.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

/// Why.
#[derive(Debug)]
pub enum Error {
    /// There is no such process.
    NoProcess(u32),
    /// It has ended while it was read.
    Ended(u32),
    /// masu is not in it.
    NoMasu(u32),
    /// The kernel does not let the caller read it.
    Refused(u32),
    /// Its masu is of a version that this program does not know.
    Version {
        /// The process.
        process: u32,
        /// The version of its masu.
        masu: String,
        /// The version of the layout.
        layout: u64,
    },
    /// What was read makes no sense.
    Damaged(u32),
}

impl Error {
    /// What an attempt to read the process ended with.
    pub fn of(process: u32, error: &io::Error) -> Error {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Error::Refused(process),
            Some(libc::ESRCH | libc::ENOENT) => Error::gone(process),
            // Addresses go when a process ends, and when it unmaps them.
            _ if !Path::new(&format!("/proc/{process}/exe")).exists() => Error::gone(process),
            _ => Error::Damaged(process),
        }
    }

    fn gone(process: u32) -> Error {
        Error::Ended(process)
    }

    /// What can be done about it.
    pub fn remedy(&self) -> String {
        match self {
            Error::NoProcess(_) => "`pgrep -a NAME` finds processes; `masu top` lists those on masu".into(),
            Error::Ended(_) => {
                "`masu watch -- COMMAND` follows a program from its start to its end".into()
            }
            Error::NoMasu(process) => {
                format!("`masu doctor -p {process}` says why; `masu run -- COMMAND` starts a program on masu")
            }
            Error::Refused(process) => match yama().as_deref() {
                Some("1") => format!(
                    "the kernel lets only its parents read it (kernel.yama.ptrace_scope is 1): use sudo masu, \
                     or start process {process} from the shell that asks"
                ),
                Some("2" | "3") => "kernel.yama.ptrace_scope allows root at most to read processes: use sudo masu".into(),
                _ => "it is another user's, or has more rights than you: use sudo masu; in a container, give it \
                      --cap-add SYS_PTRACE, or ask from the host"
                    .into(),
            },
            Error::Version { masu, .. } => format!("use the command `masu` of version {masu}, which came with that library"),
            Error::Damaged(_) => "try it again; if that stays so, the program has overwritten masu's tables".into(),
        }
    }
}

/// Yama's setting, if the kernel has it.
fn yama() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok().map(|text| text.trim().to_owned())
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Error::NoProcess(process) => write!(f, "there is no process {process}"),
            Error::Ended(process) => write!(f, "process {process} has ended"),
            Error::NoMasu(process) => write!(f, "process {process} does not run on masu"),
            Error::Refused(process) => write!(f, "process {process} may not be read"),
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

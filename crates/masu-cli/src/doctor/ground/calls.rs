//! Detects which of masu's system calls are refused here.
//!
//! A seccomp filter cannot be read, but it is inherited: programs that this process starts are
//! refused the same calls. So each call is made once, with arguments that change nothing, in a
//! child, because a filter may also kill the caller.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::io::Errno;

use crate::doctor::finding::Finding;

const ID: &str = "kernel.calls";

/// A call, what masu does without it, and how to try it.
struct Call {
    name: &'static str,
    without: &'static str,
    attempt: fn() -> Result<(), Errno>,
}

const CALLS: &[Call] = &[
    Call {
        name: "mremap",
        without: "realloc of blocks above 1 MiB copies",
        attempt: || {
            // SAFETY: a null address with a length of zero is invalid, so nothing is moved.
            invalid(unsafe { libc::syscall(libc::SYS_mremap, 0, 0, 0, 0, 0) })
        },
    },
    Call {
        name: "madvise",
        without: "no memory is returned while the program runs",
        attempt: || {
            // SAFETY: advice on an empty range has no effect.
            invalid(unsafe { libc::syscall(libc::SYS_madvise, 0, 0, libc::MADV_NORMAL) })
        },
    },
    Call {
        name: "mincore",
        without: "fewer blocks above 1 MiB are in huge pages",
        attempt: || {
            // SAFETY: the range is empty, so nothing is written.
            invalid(unsafe { libc::syscall(libc::SYS_mincore, 0, 0, 0) })
        },
    },
    Call {
        name: "membarrier",
        without: "the caches of sleeping threads keep their few MiB",
        attempt: || {
            // SAFETY: the query takes no pointers and changes nothing.
            invalid(unsafe {
                libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_QUERY, 0, 0)
            })
        },
    },
    Call {
        name: "clock_gettime",
        without: "memory is returned by malloc_trim only",
        attempt: || {
            let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: `time` outlives the call, which writes one timespec.
            invalid(unsafe {
                libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut time)
            })
        },
    },
    Call {
        name: "sched_getaffinity",
        without: "masu assumes many processors",
        attempt: || {
            let mut set = [0_u8; 1024];
            // SAFETY: `set` outlives the call, which writes no more than its length.
            invalid(unsafe {
                libc::syscall(libc::SYS_sched_getaffinity, 0, set.len(), set.as_mut_ptr())
            })
        },
    },
    Call {
        name: "clone",
        without: "there is no background thread: an idle program keeps its free memory",
        attempt: || {
            // SAFETY: CLONE_SIGHAND without CLONE_VM is invalid, so nothing is started.
            invalid(unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_SIGHAND, 0, 0, 0, 0) })
        },
    },
];

/// The result of a call.
enum Outcome {
    Allowed,
    Refused(Errno),
    /// The child was killed.
    Fatal,
    /// It could not be tried.
    Unknown,
}

/// Evaluates the result of a call: if its arguments are invalid, it was allowed.
fn invalid(result: libc::c_long) -> Result<(), Errno> {
    let error = io::Error::last_os_error().raw_os_error();
    match error {
        _ if result != -1 => Ok(()),
        Some(libc::EINVAL | libc::EFAULT) | None => Ok(()),
        Some(error) => Err(Errno::from_raw_os_error(error)),
    }
}

/// Tries them, if a filter is in force.
pub fn findings(filtered: bool) -> Vec<Finding> {
    if !filtered {
        return Vec::new();
    }
    let refused: Vec<Finding> = CALLS.iter().filter_map(refused).collect();
    if refused.is_empty() {
        let sentence = "The seccomp filter allows all of masu's system calls.";
        return vec![Finding::ok(ID, sentence)];
    }
    refused
}

fn refused(call: &Call) -> Option<Finding> {
    let Call { name, without, .. } = call;
    let finding = match in_a_child(call.attempt) {
        Outcome::Allowed | Outcome::Unknown => return None,
        Outcome::Refused(error) => {
            Finding::warning(ID, format!("`{name}` is refused ({error}): {without}."))
        }
        Outcome::Fatal => Finding::problem(
            ID,
            format!("The seccomp filter kills the process when it calls `{name}`."),
        ),
    };
    Some(finding.fix(format!(
        "allow `{name}` in the seccomp profile; docs/syscalls.md (in share/doc/masu, or the \
         sources) lists all"
    )))
}

fn in_a_child(attempt: fn() -> Result<(), Errno>) -> Outcome {
    // SAFETY: this process has one thread, so the child finds a consistent state; it makes a system
    // call and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = attempt().err().map_or(0, Errno::raw_os_error);
        // SAFETY: ends the child without running any of the parent's code.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    if child < 0 || unsafe { libc::waitpid(child, &raw mut status, 0) } != child {
        return Outcome::Unknown;
    }
    match ExitStatus::from_raw(status).code() {
        Some(0) => Outcome::Allowed,
        Some(error) => Outcome::Refused(Errno::from_raw_os_error(error)),
        None => Outcome::Fatal,
    }
}

//! What the process may do: its user and groups, its capabilities, and its filters of system calls.
//!
//! The kernel keeps them for each thread. When a program gives some up, the C library has each of its threads do so,
//! but it knows nothing of the background thread.

use super::file;
use super::raw::{nr, syscall};

/// What the lines begin with that say so.
const LINES: [&[u8]; 6] = [b"Uid:", b"Gid:", b"Groups:", b"Cap", b"NoNewPrivs:", b"Seccomp"];

/// The lines that tell of the process's first thread, as many as fit; none if the kernel does not say.
#[inline(always)]
fn status(buffer: &mut [u8]) -> impl Iterator<Item = &[u8]> {
    file::read(c"/proc/self/status", buffer).unwrap_or(&[]).split(|&byte| byte == b'\n')
}

/// A number that changes when those of the process's first thread do; the same as long as the kernel does not say.
#[cold]
#[inline(never)]
pub fn mark() -> u64 {
    // All of these lines fit, unless there are many groups; stacks may be short.
    let mut buffer = [0; 1280];
    let says = |line: &&[u8]| LINES.iter().any(|start| line.starts_with(start));
    status(&mut buffer).filter(says).flatten().fold(0, |mark: u64, &byte| {
        (mark ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(7)
    })
}

/// Whether system calls of the calling thread pass no filter; `false` too if the kernel does not say.
///
/// A filter may end a thread that asks. So a file tells of the process's first thread: nearly all filters are set there, or
/// for all threads at once. Only if that has none, the calling thread is asked about. (There is a file of each thread, too,
/// but when the process has ended, and threads come and go on busy processors, Linux 6.18 takes up to a minute to forget
/// one that was read.)
#[cold]
#[inline(never)]
pub fn are_unfiltered() -> bool {
    const PR_GET_SECCOMP: usize = 21;
    let mut buffer = [0; 1536];
    status(&mut buffer).any(|line| line == b"Seccomp:\t0")
        // SAFETY: numbers only, and nothing changes.
        && unsafe { syscall(nr::PRCTL, [PR_GET_SECCOMP, 0, 0, 0, 0, 0]) == 0 }
}

#[cfg(all(test, not(miri)))]
pub use tests::filter_own_calls;

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// Gives the calling thread a filter, which allows everything.
    pub fn filter_own_calls() {
        const PR_SET_SECCOMP: usize = 22;
        const PR_SET_NO_NEW_PRIVS: usize = 38;
        // One instruction of a filter, "allowed", and a program of that length.
        let allow = (6u64 | 0x7fff_0000 << 32).to_ne_bytes();
        let filter = [1, allow.as_ptr().expose_provenance()];
        let at = filter.as_ptr().expose_provenance();
        // SAFETY: both calls take numbers and a valid program.
        unsafe {
            assert_eq!(syscall(nr::PRCTL, [PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0]), 0);
            assert_eq!(syscall(nr::PRCTL, [PR_SET_SECCOMP, 2, at, 0, 0, 0]), 0);
        }
    }

    #[test]
    fn a_filter_is_seen_in_the_thread_that_has_one() {
        // Processes under qemu can have no filter, and are not told so.
        if crate::own_process::is_emulated() {
            return assert!(!are_unfiltered());
        }
        assert!(are_unfiltered());
        let filtered = std::thread::spawn(|| {
            filter_own_calls();
            !are_unfiltered()
        });
        assert!(filtered.join().unwrap());
        assert!(are_unfiltered());
    }

    #[test]
    fn figures_that_change_all_the_time_are_not_part_of_it() {
        let before = mark();
        assert_ne!(before, 0);
        let memory = vec![1u8; 4 << 20];
        std::thread::spawn(move || drop(memory)).join().unwrap();
        assert_eq!(mark(), before);
    }
}

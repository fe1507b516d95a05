//! The names of functions in a profile.
//!
//! The files that a process has mapped are mapped here too, to find them. Who may write to such a file may truncate it
//! meanwhile; reading a page that it has lost raises `SIGBUS`, which would end this process. Here such a page becomes
//! one of zeroes: the file is then damaged, as any file may be.

use std::ffi::c_void;
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::Once;

use libc::{BUS_ADRERR, MAP_ANONYMOUS, MAP_FIXED, MAP_PRIVATE, PROT_READ, SIGBUS};
use masu_profile::{Profile, Symbols};

/// Looks up all addresses of a profile.
pub fn of(profile: &Profile) -> Symbols {
    outlive_files();
    Symbols::of(profile)
}

/// From now on, pages that a mapped file has lost are of zeroes.
fn outlive_files() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: zeroes are a valid action, which outlives the call, and the handler makes nothing but system calls.
        unsafe {
            let mut action: libc::sigaction = zeroed();
            action.sa_sigaction = fill as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(SIGBUS, &raw const action, null_mut());
        }
    });
}

/// Handles `SIGBUS`: puts zeroes in the place of a page that its file has lost. Otherwise this process ends, as it
/// would without a handler.
extern "C" fn fill(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes what it knows of the signal, which is about an address if this code says so. Whoever
    // reads there keeps the mapping, and no file has that page any more, so nothing else is replaced. `signal` is
    // blocked until this returns, and then has no handler.
    unsafe {
        if (*info).si_code == BUS_ADRERR {
            let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
            let at = (*info).si_addr().map_addr(|at| at / page * page);
            let how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
            if libc::mmap(at, page, PROT_READ, how, -1, 0) != libc::MAP_FAILED {
                return;
            }
        }
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::FileExt as _;

    use super::*;

    #[test]
    fn a_page_that_a_mapped_file_has_lost_is_of_zeroes() {
        outlive_files();
        // A multiple of any page.
        const HALF: usize = 64 << 10;
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 2 * HALF], 0).unwrap();
        // SAFETY: a new mapping, wherever there is room, which only this test uses.
        unsafe {
            let at = libc::mmap(null_mut(), 2 * HALF, PROT_READ, MAP_PRIVATE, file.as_raw_fd(), 0);
            assert_ne!(at, libc::MAP_FAILED);
            let read = |offset| at.cast::<u8>().add(offset).read_volatile();
            assert_eq!((read(5), read(HALF + 5)), (7, 7));
            file.set_len(HALF as u64).unwrap();
            assert_eq!((read(5), read(HALF + 5)), (7, 0));
            libc::munmap(at, 2 * HALF);
        }
    }
}

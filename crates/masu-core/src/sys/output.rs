//! Descriptors that the engine writes to: standard error, and one of its own for the statistics at exit.
//!
//! A descriptor of the engine's own lies beyond the numbers that a program sees (a program gets the lowest free one)
//! and is closed when another program is executed. The program may still close it or put another file in its place,
//! so its [`Identity`] is compared before it is written to.

use super::raw::{nr, syscall};
use super::{Errno, refused_write, result};
use crate::sync::{AtomicU64, Ordering};
use core::ffi::CStr;

/// The kernel's number of an open file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptor(pub u32);

/// Tells one file from all others: its device and its number there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity(pub [u64; 2]);

/// An identity that is kept for a comparison; none at first.
pub struct KeptIdentity([AtomicU64; 2]);

impl KeptIdentity {
    /// Nothing is kept.
    pub const fn none() -> Self {
        KeptIdentity([const { AtomicU64::new(0) }; 2])
    }

    /// Keeps one.
    pub fn keep(&self, Identity(parts): Identity) {
        for (place, part) in self.0.iter().zip(parts) {
            place.store(part, Ordering::Relaxed);
        }
    }

    /// Whether a descriptor stands for that file now.
    #[inline(never)]
    pub fn is_of(&self, it: Descriptor) -> bool {
        let kept = self.0.each_ref().map(|part| part.load(Ordering::Relaxed));
        it.identity() == Some(Identity(kept))
    }
}

impl Descriptor {
    /// Standard error.
    pub const STDERR: Descriptor = Descriptor(2);

    /// Opens a file to append to; creates it, with the permissions that the process's mask allows, if there is none.
    ///
    /// # Errors
    /// The kernel's.
    pub fn append_to(path: &CStr) -> Result<Descriptor, Errno> {
        const O_APPEND: usize = 0o2000;
        Self::open(path, O_APPEND, 0o666)
    }

    /// Opens a file to write to, and empties it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create(path: &CStr) -> Result<Descriptor, Errno> {
        const O_TRUNC: usize = 0o1000;
        Self::open(path, O_TRUNC, 0o644)
    }

    /// A pipe that nobody reads is an error: a process that ends does not wait for a reader.
    #[inline(never)]
    fn open(path: &CStr, how: usize, mode: usize) -> Result<Descriptor, Errno> {
        const AT_FDCWD: usize = -100isize as usize;
        // O_WRONLY, O_CREAT, O_NOCTTY and O_CLOEXEC: like the others, the same on all architectures used here.
        const FLAGS: usize = 0o1 | 0o100 | 0o400 | 0o2_000_000;
        const O_NONBLOCK: usize = 0o4000;
        const F_SETFL: usize = 4;
        let arguments = [AT_FDCWD, path.as_ptr() as usize, FLAGS | O_NONBLOCK | how, mode, 0, 0];
        // SAFETY: the kernel reads a C string.
        let n = result(unsafe { syscall(nr::OPENAT, arguments) })?;
        // But what is written then waits until there is room for it.
        // SAFETY: numbers only. Of the flags, those that are about opening are ignored.
        unsafe { syscall(nr::FCNTL, [n, F_SETFL, how, 0, 0, 0]) };
        Ok(Descriptor(n as u32))
    }

    /// Another descriptor of the same open file, with a high number, that no executed program inherits. `None` if the
    /// file is not open, or no number is left.
    pub fn duplicate(self) -> Option<Descriptor> {
        const F_DUPFD_CLOEXEC: usize = 1030;
        // The limit on numbers is usually 1024; a table for more costs the kernel memory.
        [960, 240, 60, 10].into_iter().find_map(|least| {
            let arguments = [self.0 as usize, F_DUPFD_CLOEXEC, least, 0, 0, 0];
            // SAFETY: numbers only.
            result(unsafe { syscall(nr::FCNTL, arguments) }).ok().map(|n| Descriptor(n as u32))
        })
    }

    /// The file that it stands for now; `None` if there is none.
    pub fn identity(self) -> Option<Identity> {
        let [device, number, ..] = self.stat()?;
        Some(Identity([device, number]))
    }

    /// Whether it may stand for a file of a program's data: a regular one that is not open to append.
    pub fn may_hold_data(self) -> bool {
        const F_GETFL: usize = 3;
        const O_APPEND: usize = 0o2000;
        let Some([_, _, third, fourth, ..]) = self.stat() else { return false };
        let mode = if cfg!(target_arch = "x86_64") { fourth } else { third };
        // SAFETY: numbers only.
        let flags = result(unsafe { syscall(nr::FCNTL, [self.0 as usize, F_GETFL, 0, 0, 0, 0]) });
        mode & 0o170_000 == 0o100_000 && flags.is_ok_and(|flags| flags & O_APPEND == 0)
    }

    /// What the kernel knows of it: device, number; then on x86-64 the number of links, and the mode, in half of a word.
    fn stat(self) -> Option<[u64; 32]> {
        // `struct stat` has 144 bytes on x86-64 and 128 elsewhere.
        let mut stat = [0u64; 32];
        let arguments = [self.0 as usize, stat.as_mut_ptr() as usize, 0, 0, 0, 0];
        // SAFETY: the kernel writes a `struct stat`, for which there is room.
        result(unsafe { syscall(nr::FSTAT, arguments) }).ok()?;
        Some(stat)
    }

    /// Writes all of `bytes`. Errors are ignored: there is nowhere to report them.
    pub fn write(self, bytes: &[u8]) {
        self.takes(bytes);
    }

    /// Writes all of `bytes`. Returns whether the kernel took them.
    #[inline(never)]
    pub fn takes(self, bytes: &[u8]) -> bool {
        let mut done = false;
        refused_write::without_signal(|| {
            done = self.write_all(bytes).is_ok();
            !done
        });
        done
    }

    fn write_all(self, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            let arguments = [self.0 as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0];
            // SAFETY: the kernel reads `bytes.len()` bytes from a live slice.
            match result(unsafe { syscall(nr::WRITE, arguments) }) {
                Ok(0) => break,
                Ok(n) => bytes = bytes.get(n..).unwrap_or(&[]),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Gives up the number.
    pub fn close(self) {
        // SAFETY: a number; the descriptor is not used any more.
        unsafe { syscall(nr::CLOSE, [self.0 as usize, 0, 0, 0, 0, 0]) };
    }
}

/// The number of this process.
pub fn process() -> u32 {
    // SAFETY: no arguments and no effects.
    unsafe { syscall(nr::GETPID, [0; 6]) as u32 }
}

/// The name of the calling thread, which is the program's unless the thread was given another.
pub fn name(buffer: &mut [u8; 16]) -> &[u8] {
    const PR_GET_NAME: usize = 16;
    // SAFETY: the kernel writes at most 16 bytes, the last of them zero.
    unsafe { syscall(nr::PRCTL, [PR_GET_NAME, buffer.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    CStr::from_bytes_until_nul(buffer).map_or(&[], CStr::to_bytes)
}

/// The path of the current directory; empty if it has none.
pub fn directory(buffer: &mut [u8]) -> &[u8] {
    let arguments = [buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0, 0];
    // SAFETY: the kernel writes at most `buffer.len()` bytes.
    let found = result(unsafe { syscall(nr::GETCWD, arguments) });
    // The path of a directory that cannot be reached from the root does not begin with a slash.
    match (found, CStr::from_bytes_until_nul(buffer)) {
        (Ok(_), Ok(path)) if path.to_bytes().first() == Some(&b'/') => path.to_bytes(),
        _ => &[],
    }
}

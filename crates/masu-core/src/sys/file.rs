//! Reads small files of the kernel, such as those below `/proc`.

use super::raw::{nr, syscall};
use super::{Errno, result};

const AT_FDCWD: usize = -100isize as usize;
const O_RDONLY_CLOEXEC: usize = 0o2_000_000;

/// Passes all of a file to `f`, piece by piece. `false` if it cannot be read. No descriptor stays open.
pub fn read_all(path: &core::ffi::CStr, mut f: impl FnMut(&[u8])) -> bool {
    let mut buffer = [0u8; 1024];
    // SAFETY: a C string, and a buffer of that length for the kernel to write to.
    unsafe {
        let open = [AT_FDCWD, path.as_ptr() as usize, O_RDONLY_CLOEXEC, 0, 0, 0];
        let Ok(file) = result(syscall(nr::OPENAT, open)) else { return false };
        let at = buffer.as_mut_ptr() as usize;
        let ended = loop {
            match result(syscall(nr::READ, [file, at, buffer.len(), 0, 0, 0])) {
                Ok(0) => break true,
                Ok(n) => f(buffer.get(..n).unwrap_or(&[])),
                Err(Errno::EINTR) => {}
                Err(_) => break false,
            }
        };
        syscall(nr::CLOSE, [file, 0, 0, 0, 0, 0]);
        ended
    }
}

/// The beginning of a file, as much as fits; `None` if it cannot be read. No descriptor stays open.
pub fn read<'b>(path: &core::ffi::CStr, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    read_at(path, 0, buffer)
}

/// A file from `offset` on, as much as fits; `None` if it cannot be read. No descriptor stays open.
#[inline(never)]
pub fn read_at<'b>(
    path: &core::ffi::CStr,
    offset: usize,
    buffer: &'b mut [u8],
) -> Option<&'b [u8]> {
    // SAFETY: a C string, and a buffer of that length for the kernel to write to.
    unsafe {
        let open = [AT_FDCWD, path.as_ptr() as usize, O_RDONLY_CLOEXEC, 0, 0, 0];
        let file = result(syscall(nr::OPENAT, open)).ok()?;
        let at = buffer.as_mut_ptr() as usize;
        let read = match offset {
            0 => result(syscall(nr::READ, [file, at, buffer.len(), 0, 0, 0])),
            _ => result(syscall(nr::PREAD64, [file, at, buffer.len(), offset, 0, 0])),
        };
        syscall(nr::CLOSE, [file, 0, 0, 0, 0, 0]);
        buffer.get(..read.ok()?)
    }
}

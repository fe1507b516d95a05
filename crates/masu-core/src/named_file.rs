//! A file that an option names, for the process's own reports: `%p` in the name is the process's number, `%%` a
//! percent sign. The name is kept absolute, in memory of its own, because programs change their directory and
//! overwrite their environment.

use crate::config::File;
use crate::sync::{AtomicPtr, Ordering};
use crate::sys::output::{self, Descriptor};
use crate::sys::{Errno, mem};
use crate::text::decimal;
use core::ffi::CStr;
use core::ptr::null_mut;

/// The longest path that the kernel takes, with its terminating zero.
const PATH_MAX: usize = 4096;
/// The kernel's error for a longer one.
const ENAMETOOLONG: Errno = Errno(36);

/// Such a file, or none.
pub struct NamedFile(
    /// Its name: null, or a C string that [`keep`] made and that stays.
    AtomicPtr<u8>,
);

impl NamedFile {
    /// No file.
    pub const fn new() -> NamedFile {
        NamedFile(AtomicPtr::new(null_mut()))
    }

    /// Takes the name from an option. Returns whether there is one, and memory for it.
    pub fn name(&self, file: &File) -> bool {
        let name = keep(file.path());
        if let Some(name) = name {
            self.0.store(name.as_ptr().cast_mut().cast(), Ordering::Release);
        }
        name.is_some()
    }

    /// Forgets the file: from now on there is none.
    pub fn forget(&self) {
        self.0.store(null_mut(), Ordering::Release);
    }

    /// The name as the option has it, absolute; `None` without a file.
    pub fn template(&self) -> Option<&'static CStr> {
        let name = self.0.load(Ordering::Acquire);
        // SAFETY: not null, so a C string that stays, as the field says.
        (!name.is_null()).then(|| unsafe { CStr::from_ptr(name.cast()) })
    }

    /// Opens the file to append to it, under the name that it has in this process.
    ///
    /// # Errors
    /// The kernel's; without a file, that no such file exists.
    #[inline(never)]
    pub fn append(&self) -> Result<Descriptor, Errno> {
        self.with_path(Descriptor::append_to)
    }

    /// Returns what `open` makes of the name that the file has in this process.
    ///
    /// # Errors
    /// As for [`NamedFile::append`].
    pub fn with_path<T>(&self, open: impl FnOnce(&CStr) -> Result<T, Errno>) -> Result<T, Errno> {
        const ENOENT: Errno = Errno(2);
        let template = self.template().ok_or(ENOENT)?;
        let mut path = [0u8; PATH_MAX];
        expand(template.to_bytes(), output::process(), &mut path);
        open(CStr::from_bytes_until_nul(&path).map_err(|_| ENAMETOOLONG)?)
    }
}

/// A copy of `path`, absolute, with a terminating zero; `None` without a path, or without memory
/// for it.
fn keep(path: &[u8]) -> Option<&'static CStr> {
    if path.is_empty() {
        return None;
    }
    let copy = mem::map(2 * PATH_MAX).ok()?;
    // SAFETY: as many fresh bytes, which no other code knows of and which are never unmapped.
    let copy = unsafe { core::slice::from_raw_parts_mut(copy as *mut u8, 2 * PATH_MAX) };
    let mut end = 0;
    if path.first() != Some(&b'/') {
        end = output::directory(copy.get_mut(..PATH_MAX)?).len();
        *copy.get_mut(end)? = b'/';
        // Without a directory it stays relative.
        end = if end == 0 { 0 } else { end + 1 };
    }
    // The longest path fits into the second half.
    copy.get_mut(end..end + path.len())?.copy_from_slice(path);
    *copy.get_mut(end + path.len())? = 0;
    CStr::from_bytes_until_nul(copy).ok()
}

/// Whether the process's number is part of a name.
pub fn has_number(template: &CStr) -> bool {
    let mut escaped = false;
    template.to_bytes().iter().any(|&byte| {
        let number = escaped && byte == b'p';
        escaped = byte == b'%' && !escaped;
        number
    })
}

/// Writes `template`, a file's name, to `path`, with the number `process` for `%p` and `%`
/// for `%%`; one that is too long fills it. Returns the length.
pub fn expand(template: &[u8], process: u32, path: &mut [u8]) -> usize {
    let mut length = 0;
    let mut put = |bytes: &[u8]| {
        for (&byte, slot) in bytes.iter().zip(path.iter_mut().skip(length)) {
            *slot = byte;
            length += 1;
        }
    };
    let mut rest = template;
    loop {
        rest = match rest {
            [b'%', b'p', after @ ..] => {
                put(decimal(process.into()).as_bytes());
                after
            }
            [b'%', b'%', after @ ..] => {
                put(b"%");
                after
            }
            [byte, after @ ..] => {
                put(&[*byte]);
                after
            }
            [] => return length,
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::ffi::CString;
    use std::string::String;

    #[test]
    fn names_of_files() {
        for (template, number, path) in [
            ("/a/b", false, "/a/b"),
            ("/a/%p", true, "/a/4711"),
            ("%p.%p", true, "4711.4711"),
            ("/100%%p", false, "/100%p"),
            ("/100%%%p", true, "/100%4711"),
            ("/%d%", false, "/%d%"),
        ] {
            assert_eq!(has_number(&CString::new(template).unwrap()), number, "{template}");
            let mut buffer = [0; 64];
            expand(template.as_bytes(), 4711, &mut buffer);
            let expanded = CStr::from_bytes_until_nul(&buffer).unwrap().to_str().unwrap();
            assert_eq!(expanded, path);
        }
        let mut buffer = [0; 8];
        expand(b"/too/long/a/name", 1, &mut buffer);
        assert!(CStr::from_bytes_until_nul(&buffer).is_err());
    }

    #[test]
    fn a_name_is_kept_as_it_was_and_absolute() {
        let here = String::from(std::env::current_dir().unwrap().to_str().unwrap());
        for (path, kept) in [("/x/%p", "/x/%p"), ("x y", &std::format!("{here}/x y"))] {
            assert_eq!(keep(path.as_bytes()).unwrap().to_str().unwrap(), kept);
        }
        assert_eq!(keep(b""), None);
    }
}

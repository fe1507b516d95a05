//! Where the statistics at exit go.
//!
//! Programs close or redirect standard error before they end (coreutils, daemons). So whoever is to report
//! keeps a descriptor of its own from the start: of standard error, or of the option's file. All processes
//! that get the same name append to one file, a report each, in one write; `%p` in the name is the number of
//! the process, `%%` a percent sign.
//!
//! A program that closes all descriptors closes this one too, and its number may then be another file's. Hence
//! what is behind it is compared with what was there at the start. If it is something else, the file is opened
//! by its name, or standard error serves if it is still what it was; else nothing is written.
//!
//! Without the option nothing here runs, and nothing is kept.

use super::print;
use crate::config::File;
use crate::settings;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::sys::fatal::write_stderr;
use crate::sys::mem;
use crate::sys::output::{self, Descriptor, Identity};
use crate::text::{Text, decimal};
use core::ffi::CStr;
use core::ptr::null_mut;

/// The longest path that the kernel takes, with its end.
const PATH_MAX: usize = 4096;

/// The name of the file, absolute, with what is to be replaced, and its end; null: standard error. It is
/// in memory of its own, since programs overwrite their environment.
static TEMPLATE: AtomicPtr<u8> = AtomicPtr::new(null_mut());
/// The descriptor that is kept, and what was behind it. [`NONE`]: there is none.
static DESCRIPTOR: AtomicU32 = AtomicU32::new(NONE);
static DEVICE: AtomicU64 = AtomicU64::new(0);
static NUMBER: AtomicU64 = AtomicU64::new(0);
/// The process that opened it.
static OPENED_BY: AtomicU32 = AtomicU32::new(0);

const NONE: u32 = u32::MAX;

/// At the start of a process that is to report: opens what it will report to.
#[cold]
#[inline(never)]
pub fn open(file: &File) {
    let wanted = keep(file.path());
    let opened = match wanted {
        None => None,
        Some(template) => match open_file(template) {
            Ok(descriptor) => {
                TEMPLATE.store(template.as_ptr().cast_mut().cast(), Ordering::Release);
                Some(descriptor)
            }
            Err(error) => {
                tell(file.path(), error);
                None
            }
        },
    };
    let kept = opened.unwrap_or(Descriptor::STDERR).duplicate();
    if let Some((kept, Identity([device, number]))) = kept.and_then(|it| Some((it, it.identity()?)))
    {
        DEVICE.store(device, Ordering::Relaxed);
        NUMBER.store(number, Ordering::Relaxed);
        OPENED_BY.store(output::process(), Ordering::Relaxed);
        DESCRIPTOR.store(kept.0, Ordering::Release);
    }
    if let Some(low) = opened {
        low.close();
    }
}

/// At exit: writes the statistics to what was opened.
#[cold]
#[inline(never)]
pub fn report() {
    let kept = Descriptor(DESCRIPTOR.load(Ordering::Acquire));
    let Some((descriptor, is_ours)) = place(kept) else { return };
    let mut report = Report { bytes: [0; REPORT], len: 0, descriptor };
    let mut sink = |bytes: &[u8]| report.add(bytes);
    let mut text = Text::new(&mut sink);
    let (mut name, process) = ([0; 16], output::process());
    if settings::stats_as_json() {
        print::json(process, output::name(&mut name), &mut text);
    } else if TEMPLATE.load(Ordering::Relaxed).is_null() {
        print::print(&mut text);
    } else {
        print::print_of(process, output::name(&mut name), &mut text);
    }
    drop(text);
    report.send();
    if !is_ours {
        descriptor.close();
    }
}

/// The descriptor to write to, and whether it stays open.
fn place(kept: Descriptor) -> Option<(Descriptor, bool)> {
    let was = Identity([DEVICE.load(Ordering::Relaxed), NUMBER.load(Ordering::Relaxed)]);
    let is_still = |it: Descriptor| kept.0 != NONE && it.identity() == Some(was);
    let template = TEMPLATE.load(Ordering::Acquire);
    if template.is_null() {
        let found = [kept, Descriptor::STDERR].into_iter().find(|&it| is_still(it));
        return found.map(|it| (it, true));
    }
    // SAFETY: `open` stored it: a C string that stays.
    let template = unsafe { CStr::from_ptr(template.cast()) };
    // A forked child has a file of its own, where the name says so.
    let same = OPENED_BY.load(Ordering::Relaxed) == output::process() || !has_number(template);
    if same && is_still(kept) {
        return Some((kept, true));
    }
    open_file(template).ok().map(|it| (it, false))
}

/// A copy of `path`, absolute, with its end; `None` without a path, or without memory for it.
pub fn keep(path: &[u8]) -> Option<&'static CStr> {
    if path.is_empty() {
        return None;
    }
    let copy = mem::map(2 * PATH_MAX).ok()?;
    // SAFETY: as many fresh bytes, which nobody else knows of and which are never unmapped.
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

/// Whether the process's number is part of the name.
fn has_number(template: &CStr) -> bool {
    let mut escaped = false;
    template.to_bytes().iter().any(|&byte| {
        let number = escaped && byte == b'p';
        escaped = byte == b'%' && !escaped;
        number
    })
}

/// Opens the file that `template` names for this process.
fn open_file(template: &CStr) -> Result<Descriptor, crate::sys::Errno> {
    let mut path = [0u8; PATH_MAX];
    expand(template.to_bytes(), output::process(), &mut path);
    let end = CStr::from_bytes_until_nul(&path);
    Descriptor::append_to(end.map_err(|_| crate::sys::Errno(36))?)
}

/// Writes `template`, a name for the statistics' file, to `path`, with the number `process` for `%p` and `%`
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

/// The file cannot be opened.
fn tell(path: &[u8], error: crate::sys::Errno) {
    if settings::show_errors() {
        let mut sink = write_stderr as fn(&[u8]);
        Text::new(&mut sink)
            .str("masu: warning: stats_file: cannot open ")
            .quoted(path)
            .str(" (error ")
            .decimal(error.0 as u64)
            .str("); statistics go to stderr")
            .line();
    }
}

/// Bytes of a report: twice what there are.
const REPORT: usize = 4096;

/// A report that is collected, so that processes that append to one file do not write into each other's.
struct Report {
    bytes: [u8; REPORT],
    len: usize,
    descriptor: Descriptor,
}

impl Report {
    fn add(&mut self, bytes: &[u8]) {
        if self.len + bytes.len() > REPORT {
            self.send();
        }
        if let Some(room) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            room.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    fn send(&mut self) {
        self.descriptor.write(self.bytes.get(..self.len).unwrap_or(&[]));
        self.len = 0;
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

    #[test]
    fn a_descriptor_is_out_of_the_way_and_known_again() {
        let path =
            CString::new(std::env::temp_dir().join("masu-outlet").to_str().unwrap()).unwrap();
        let low = Descriptor::append_to(&path).unwrap();
        let high = low.duplicate().unwrap();
        assert!(high.0 >= 10 && high.0 != low.0, "{high:?}");
        assert_eq!(high.identity(), low.identity());
        assert_ne!(high.identity(), Descriptor::STDERR.identity());
        low.close();
        high.close();
        assert_eq!(high.identity(), None);
        assert_eq!(high.duplicate(), None);
        std::fs::remove_file(path.to_str().unwrap()).unwrap();
        assert!(Descriptor::append_to(c"/nowhere/at/all").is_err());
    }
}

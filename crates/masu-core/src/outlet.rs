//! Where reports at exit go: statistics, leaks.
//!
//! Programs close or redirect standard error before they end (coreutils, daemons). So a process that is to
//! report keeps a descriptor of its own from the start: of standard error, or of the option's file. All
//! processes that get the same name append to one file, one report each, in one write; `%p` in the name is
//! the number of the process, `%%` a percent sign.
//!
//! A program that closes all descriptors closes this one too, and its number may then be another file's. Hence
//! the file behind it is compared with the one at the start. If it is something else, the file is opened by
//! its name, or standard error serves if it is still what it was; otherwise nothing is written.
//!
//! Without the option nothing here runs, and nothing is kept.

use crate::config::File;
use crate::named_file::{self, NamedFile};
use crate::sync::{AtomicU32, Ordering};
use crate::sys::Errno;
use crate::sys::output::{self, Descriptor, KeptIdentity};
use crate::text::Text;
use core::ffi::CStr;

/// A descriptor that is kept from the start.
pub struct Outlet {
    /// The file; without one, standard error.
    file: NamedFile,
    /// The descriptor, and what was behind it. [`NONE`] if there is none.
    descriptor: AtomicU32,
    identity: KeptIdentity,
    /// The process that opened it.
    opened_by: AtomicU32,
}

const NONE: u32 = u32::MAX;

impl Outlet {
    /// Nothing is kept.
    pub const fn new() -> Self {
        Outlet {
            file: NamedFile::new(),
            descriptor: AtomicU32::new(NONE),
            identity: KeptIdentity::none(),
            opened_by: AtomicU32::new(0),
        }
    }

    /// At the start of a process that is to report: opens its destination.
    ///
    /// # Errors
    /// The kernel's, about the file: the report goes to standard error.
    #[cold]
    #[inline(never)]
    pub fn open(&self, file: &File) -> Result<(), Errno> {
        let opened = if self.file.name(file) { Some(self.file.append()) } else { None };
        let (opened, done) = match opened {
            None => (None, Ok(())),
            Some(Ok(descriptor)) => (Some(descriptor), Ok(())),
            Some(Err(error)) => {
                self.file.forget();
                (None, Err(error))
            }
        };
        let kept = opened.unwrap_or(Descriptor::STDERR).duplicate();
        if let Some((kept, identity)) = kept.and_then(|it| Some((it, it.identity()?))) {
            self.identity.keep(identity);
            self.opened_by.store(output::process(), Ordering::Relaxed);
            self.descriptor.store(kept.0, Ordering::Release);
        }
        if let Some(low) = opened {
            low.close();
        }
        done
    }

    /// The name of the file that reports go to, as the option has it.
    pub fn template(&self) -> Option<&CStr> {
        self.file.template()
    }

    /// Whether the process opened it itself and is not a fork's child.
    pub fn is_own(&self) -> bool {
        self.opened_by.load(Ordering::Relaxed) == output::process()
    }

    /// At exit: makes `f` write to the destination. Returns whether that took everything.
    #[cold]
    #[inline(never)]
    pub fn report(&self, f: &mut dyn FnMut(&mut Text)) -> bool {
        let Some((descriptor, is_ours)) = self.place() else { return false };
        let mut report = Report { bytes: [0; REPORT], len: 0, descriptor, is_whole: true };
        let mut sink = |bytes: &[u8]| report.add(bytes);
        f(&mut Text::new(&mut sink));
        report.send();
        if !is_ours {
            descriptor.close();
        }
        report.is_whole
    }

    /// The descriptor to write to, and whether it stays open.
    fn place(&self) -> Option<(Descriptor, bool)> {
        let kept = Descriptor(self.descriptor.load(Ordering::Acquire));
        let is_still = |it: Descriptor| kept.0 != NONE && self.identity.is_of(it);
        let Some(template) = self.file.template() else {
            let found = [kept, Descriptor::STDERR].into_iter().find(|&it| is_still(it));
            return found.map(|it| (it, true));
        };
        // A forked child has a file of its own if the name says so.
        if (self.is_own() || !named_file::has_number(template)) && is_still(kept) {
            return Some((kept, true));
        }
        self.file.append().ok().map(|it| (it, false))
    }
}

/// Bytes of a report: twice the usual number.
const REPORT: usize = 4096;

/// A report that is collected, so that processes that append to one file do not write into each other's.
struct Report {
    bytes: [u8; REPORT],
    len: usize,
    descriptor: Descriptor,
    is_whole: bool,
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
        self.is_whole &= self.descriptor.takes(self.bytes.get(..self.len).unwrap_or(&[]));
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::ffi::CString;

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

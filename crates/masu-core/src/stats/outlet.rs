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
use crate::named_file::{self, NamedFile};
use crate::settings;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::sys::fatal::write_stderr;
use crate::sys::output::{self, Descriptor, Identity};
use crate::text::Text;

/// The file; without one, standard error.
static FILE: NamedFile = NamedFile::new();
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
    let opened = FILE.name(file).then(|| FILE.append());
    let opened = match opened {
        None => None,
        Some(Ok(descriptor)) => Some(descriptor),
        Some(Err(error)) => {
            FILE.forget();
            tell(file.path(), error);
            None
        }
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
    } else if FILE.template().is_none() {
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
    let Some(template) = FILE.template() else {
        let found = [kept, Descriptor::STDERR].into_iter().find(|&it| is_still(it));
        return found.map(|it| (it, true));
    };
    // A forked child has a file of its own, where the name says so.
    let same =
        OPENED_BY.load(Ordering::Relaxed) == output::process() || !named_file::has_number(template);
    if same && is_still(kept) {
        return Some((kept, true));
    }
    FILE.append().ok().map(|it| (it, false))
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

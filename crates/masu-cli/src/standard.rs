//! Standard output, and standard streams that are closed.
//!
//! std takes what is written to a closed stdout for written, and a file that is opened later may get its number.

use std::io::{self, Write};
use std::mem::forget;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::fcntl_getfd;

use crate::columns::fit_error;
use crate::failure::Failure;

static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Puts `/dev/null` in the place of each closed standard stream. Programs that this one starts have it closed, as they
/// should.
pub fn occupy() {
    for number in 0..3 {
        // SAFETY: only asked about, so it need not be open.
        if fcntl_getfd(unsafe { BorrowedFd::borrow_raw(number) }).is_ok() {
            continue;
        }
        if number == libc::STDOUT_FILENO {
            IS_CLOSED.store(true, Ordering::Relaxed);
        }
        // It gets the lowest free number, and those below are open now.
        let _ = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map(forget);
    }
}

/// Writes text as it is.
pub fn print(text: &str) -> Result<(), Failure> {
    write(io::stdout().lock(), text.as_bytes())
}

/// Writes text, with colours only on a terminal and as `NO_COLOR` and similar variables say.
pub fn print_styled(text: &str) -> Result<(), Failure> {
    write(anstream::stdout().lock(), text.as_bytes())
}

/// Writes text on stderr, broken and coloured as a terminal needs it. If that cannot be written, nobody is there to be
/// told.
pub fn print_error(text: &str) {
    let _ = anstream::stderr().write_all(fit_error(text).as_bytes());
}

/// Returns what [`print_styled`] writes.
pub fn styled(text: &str) -> String {
    match AutoStream::choice(&io::stdout()) {
        ColorChoice::Never => strip_str(text).to_string(),
        _ => text.to_owned(),
    }
}

/// Whether the terminal cannot be drawn on.
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|name| name == "dumb")
}

/// Writes bytes.
pub fn put(bytes: &[u8]) -> Result<(), Failure> {
    write(io::stdout().lock(), bytes)
}

fn write(mut out: impl Write, bytes: &[u8]) -> Result<(), Failure> {
    let done = match IS_CLOSED.load(Ordering::Relaxed) {
        true => Err(rustix::io::Errno::BADF.into()),
        false => out.write_all(bytes).and_then(|()| out.flush()),
    };
    done.map_err(|error| Failure::output(&error))
}

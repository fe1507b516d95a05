//! The heap profiler, as doors and programs control it.
//!
//! Sampling costs the hot paths nothing, on or off. While it is on, the program's slow paths count bytes, and
//! one block in every [`rate`] bytes on average is recorded with the stack that asked for it.

use super::leaks;
use crate::config::{Config, File};
use crate::features;
use crate::heap::block::Block;
use crate::heap::sampling;
use crate::named_file::NamedFile;
use crate::prof;
use crate::settings;
use crate::sys::fatal::{may_tell, write_stderr};
use crate::sys::output::{self, Descriptor};
use crate::text::{Text, decimal};
use core::ffi::CStr;

pub use crate::heap::sampling::{is_muted, mute, set_starts_muted, starts_muted};
pub use crate::prof::{
    Amount, DEFAULT_RATE, Place, Refused, Snapshot, Totals, dump, dump_heap_v2, in_use, last_rate,
    next_dump, own_name, own_rate, rate, reset, set_name, set_then, stop, totals,
};
pub use crate::stack::{Unwinder, set_unwinder};

/// The file to which the profile goes at exit.
static FILE: NamedFile = NamedFile::new();

/// The bytes by which a small block stays or moves in `realloc`. A sample may lie in a longer block than it was drawn for,
/// and has to stay where the blocks stay that it stands for: if it moved, it would be lost, and if they moved, counted
/// twice.
#[cold]
#[inline(never)]
pub(super) fn bytes_drawn(p: *const u8, block: &Block) -> usize {
    let drawn = if block.is_of_samples() { prof::usable(p) } else { None };
    drawn.map_or(block.bytes, |bytes| bytes.min(block.bytes))
}

/// Whether a configuration asks for a profile.
pub(super) fn is_configured(config: &Config) -> bool {
    config.prof || config.prof_file != File::STDERR
}

/// Puts the configuration's options for the profile in force.
#[cold]
#[inline(never)]
pub(super) fn start_configured(config: &Config) {
    let warn = |what| {
        if config.show_errors {
            let mut sink = write_stderr as fn(&[u8]);
            Text::new(&mut sink).str("masu: warning: ").str(what).line();
        }
    };
    // Small blocks of another heap come from bins, which only know samples.
    let every = config.block_stacks && settings::hardened();
    if config.block_stacks && !every {
        warn("block_stacks: needs hardened:on");
        if !is_configured(config) {
            return;
        }
    }
    if start(if every { 1 } else { config.prof_rate }).is_err() {
        return warn("no memory for a profile: prof is off");
    }
    if every {
        prof::set_every();
        if config.show_leaks {
            leaks::open();
        }
    }
    FILE.name(&config.prof_file);
}

/// At exit: writes the profile to its file.
#[cold]
#[inline(never)]
pub(super) fn report() {
    let Some(template) = FILE.template() else { return };
    match FILE.with_path(|path| Ok(write_file(path, Form::Masu))) {
        Ok(Ok(())) => {}
        _ if settings::show_errors() && may_tell() => {
            let mut sink = write_stderr as fn(&[u8]);
            let mut text = Text::new(&mut sink);
            text.str("masu: warning: prof_file: cannot write ").quoted(template.to_bytes());
            text.str("; there is no profile").line();
        }
        _ => {}
    }
}

/// The format of a profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// masu's own.
    Masu,
    /// The one that jemalloc's tools read.
    HeapV2,
}

/// Writes the profile to a file, which is created or truncated.
///
/// # Errors
/// As for [`dump`]; [`Refused::Busy`] if the file cannot be created.
#[cold]
#[inline(never)]
pub fn write_file(path: &CStr, form: Form) -> Result<(), Refused> {
    if last_rate() == 0 {
        return Err(Refused::NotStarted);
    }
    let file = Descriptor::create(path).map_err(|_| Refused::Busy)?;
    let done = match form {
        Form::Masu => dump(file.0),
        Form::HeapV2 => dump_heap_v2(file.0),
    };
    file.close();
    done
}

/// Writes the profile as jemalloc's tools read it to a file named by `prefix`, this process's number, that of the
/// dump, and `kind` with its own number if it has one: `jeprof.4711.0.m0.heap`.
///
/// # Errors
/// As for [`write_file`].
#[cold]
#[inline(never)]
pub fn write_numbered(prefix: &[u8], kind: &[u8], number: Option<u32>) -> Result<(), Refused> {
    let [process, dump] = [output::process(), next_dump()].map(|number| decimal(number.into()));
    let number = number.map(|number| decimal(number.into()));
    let number = number.as_ref().map_or(&b""[..], |number| number.as_bytes());
    let mut path = [0u8; 1024];
    let mut at = 0;
    for part in
        [prefix, b".", process.as_bytes(), b".", dump.as_bytes(), b".", kind, number, b".heap"]
    {
        for (slot, &byte) in path.iter_mut().skip(at).zip(part) {
            *slot = byte;
        }
        at += part.len();
    }
    let path = CStr::from_bytes_until_nul(&path).map_err(|_| Refused::Busy)?;
    write_file(path, Form::HeapV2)
}

/// Starts sampling, `rate` bytes apart on average (at least 1), or changes the rate. Samples of an earlier
/// profile stay. Threads take part from their next slow path on.
///
/// # Errors
/// [`Refused::NoMemory`].
#[cold]
#[inline(never)]
pub fn start(rate: usize) -> Result<(), Refused> {
    if !features::PROF || !sampling::prepare() {
        return Err(Refused::NoMemory);
    }
    prof::start(rate)
}

#[cfg(test)]
mod tests;

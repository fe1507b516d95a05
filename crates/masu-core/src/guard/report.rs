//! What is said about a guarded block: a line, and the stacks that belong to it.

use super::slots::{DEPTH, Slot, Trace};
use crate::config::OnError;
use crate::named_file::NamedFile;
use crate::settings;
use crate::stack;
use crate::sync::{AtomicBool, AtomicU32, Ordering};
use crate::sys::output::Descriptor;
use crate::sys::{fatal, host, thread};
use crate::text::Text;

/// What reports are appended to, besides standard error.
pub static FILE: NamedFile = NamedFile::new();
/// It, while it is open; 0: it is not.
static OPEN: AtomicU32 = AtomicU32::new(0);
/// Whether an access has been told of: what follows it may come from it.
static TOLD: AtomicBool = AtomicBool::new(false);

fn write(bytes: &[u8]) {
    fatal::write_stderr(bytes);
    let file = OPEN.load(Ordering::Relaxed);
    if file != 0 {
        Descriptor(file).write(bytes);
    }
}

/// Runs `f` with the text that is written, and with the file open, if there is one.
fn with_text(f: impl FnOnce(&mut Text)) {
    let file = FILE.append().ok();
    OPEN.store(file.map_or(0, |file| file.0), Ordering::Relaxed);
    let mut sink = write as fn(&[u8]);
    f(&mut Text::new(&mut sink));
    OPEN.store(0, Ordering::Relaxed);
    if let Some(file) = file {
        file.close();
    }
}

/// At the free of a block: bytes around it were written to, the nearest so many from it.
#[cold]
pub fn damaged(slot: Slot, far: u64, behind: bool) {
    let then = settings::on_error();
    if then == OnError::Ignore || then == OnError::Report && !settings::show_errors() {
        return;
    }
    with_text(|text| {
        text.str("masu: ").str(if behind { "overflow" } else { "underflow" }).str(" of ");
        say_block(slot, text);
        text.str(": it was written to ").decimal(far);
        text.str(if behind { " bytes beyond its end" } else { " bytes before its start" });
        text.str(", as its free found").line();
        say_stacks(slot, text);
    });
    if then == OnError::Abort {
        fatal::abort();
    }
}

/// After a line about a mistake with `p`: the stacks of the guarded block there, if it is one.
pub fn tell(p: *const u8) {
    if let Some(slot) = Slot::around(p.addr()) {
        with_text(|text| {
            if OPEN.load(Ordering::Relaxed) != 0 {
                text.str("masu: ");
                say_block(slot, text);
                text.str(
                    " was freed, resized or measured by a pointer that is not its own, or twice",
                )
                .line();
            }
            say_here(0, "now", text);
            say_stacks(slot, text);
        });
    }
}

/// An access to `address` has failed, and `address` is in the slots or their guards. Says so, once in a process.
pub fn fault(address: usize, writes: Option<bool>) {
    let Some(slot) = nearest(address) else { return };
    if settings::on_error() == OnError::Ignore || TOLD.swap(true, Ordering::Relaxed) {
        return;
    }
    let record = slot.record();
    let start = record.start.load(Ordering::Relaxed);
    let end = start + record.bytes.load(Ordering::Relaxed);
    with_text(|text| {
        text.str("masu: ").str(match writes {
            Some(true) => "write to ",
            Some(false) => "read of ",
            None => "access to ",
        });
        text.hex(address as u64).str(": ");
        if address < start {
            text.decimal((start - address) as u64).str(" bytes before the start of ");
        } else if address >= end {
            text.decimal((address - end) as u64 + 1).str(" bytes beyond the end of ");
        } else {
            text.decimal((address - start) as u64).str(" bytes into ");
        }
        say_block(slot, text);
        text.str(if record.state.is_live() { "" } else { ", which was freed" }).line();
        // The outermost frame of the handler is the C library's return from signals.
        say_here(1, "accessed", text);
        say_stacks(slot, text);
    });
}

/// The slot whose block is nearest to an address, of the one around it and the next.
fn nearest(address: usize) -> Option<Slot> {
    let slot = Slot::around(address)?;
    let distance = |slot: &Slot| {
        let record = slot.record();
        let start = record.start.load(Ordering::Relaxed);
        let end = start + record.bytes.load(Ordering::Relaxed);
        let away = start.saturating_sub(address).max(address.saturating_sub(end));
        (start != 0).then_some(away)
    };
    [Some(slot), slot.next()]
        .into_iter()
        .flatten()
        .filter_map(|slot| Some((distance(&slot)?, slot)))
        .min_by_key(|(away, _)| *away)
        .map(|(_, slot)| slot)
}

fn say_block(slot: Slot, text: &mut Text) {
    let record = slot.record();
    text.str("the block of ").decimal(record.bytes.load(Ordering::Relaxed) as u64);
    text.str(" bytes at ").hex(record.start.load(Ordering::Relaxed) as u64);
}

fn say_stacks(slot: Slot, text: &mut Text) {
    let record = slot.record();
    say(&record.allocated, "allocated", text);
    say(&record.freed, "freed", text);
}

fn say(trace: &Trace, what: &str, text: &mut Text) {
    let who = trace.thread.load(Ordering::Relaxed);
    if who != 0 {
        say_frames(who, what, trace.frames(&mut [0; DEPTH]), text);
    }
}

/// The calling thread's stack, without its innermost frames.
fn say_here(skip: usize, what: &str, text: &mut Text) {
    let mut frames = [0; DEPTH];
    let frames = stack::walk(&mut frames);
    say_frames(thread::id(), what, frames.get(skip..).unwrap_or(&[]), text);
}

#[inline(never)]
fn say_frames(who: u32, what: &str, frames: &[usize], text: &mut Text) {
    text.str("masu:   ").str(what).str(" by thread ").decimal(who.into()).line();
    for (i, &frame) in frames.iter().enumerate() {
        // The call, not what follows it.
        let frame = frame - 1;
        text.str("masu:     #").decimal(i as u64).tab(16).hex(frame as u64);
        if let Some((name, base)) = host::loaded_from(frame as *const u8) {
            text.str("  ").printable(if name.is_empty() {
                b"the program"
            } else {
                name.to_bytes()
            });
            text.str("+").hex((frame - base) as u64);
        }
        text.line();
    }
}

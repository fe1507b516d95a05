//! Reports about a guarded block, and about any block if every one is recorded: a line, and the stacks that belong to
//! it.

use super::slots::{Slot, Trace};
use crate::config::OnError;
use crate::features;
use crate::named_file::NamedFile;
use crate::prof::{self, Event, Known};
use crate::settings;
use crate::stack::{self, DEPTH};
use crate::sync::{AtomicBool, Ordering};
use crate::sys::tags::untagged;
use crate::sys::{fatal, host, thread};
use crate::text::Text;

/// The file that reports are appended to, besides standard error.
pub static FILE: NamedFile = NamedFile::new();
/// Whether it has been said that the file cannot be written.
static MISSED: AtomicBool = AtomicBool::new(false);
/// Whether an access has been reported: later ones may be consequences of it.
static TOLD: AtomicBool = AtomicBool::new(false);

/// Runs `f` with the text to write: to the file, if there is one, and to standard error if the process `ends` then or
/// [may tell](fatal::may_tell).
#[inline(never)]
pub fn with_text(ends: bool, f: &mut dyn FnMut(&mut Text)) {
    let stderr = ends || fatal::may_tell();
    let template = if features::GUARD { FILE.template() } else { None };
    let opened = template.map(|_| FILE.append());
    let file = opened.and_then(Result::ok);
    if !stderr && file.is_none() {
        return;
    }
    let mut sink = |bytes: &[u8]| {
        if stderr {
            fatal::write_stderr(bytes);
        }
        if let Some(file) = file {
            file.write(bytes);
        }
    };
    f(&mut Text::new(&mut sink));
    if let Some(file) = file {
        file.close();
    }
    if let (Some(template), Some(Err(error))) = (template, opened)
        && !MISSED.swap(true, Ordering::Relaxed)
    {
        let mut text = Text::new(&mut sink);
        text.str("masu: warning: guard_file: cannot open ").quoted(template.to_bytes());
        text.str(" (error ").decimal(error.0 as u64).str("); reports go to stderr only").line();
    }
}

/// Which thread did something to a block, and from where.
enum Told {
    Guard(&'static Trace),
    Every(Event),
}

impl Told {
    fn say(&self, what: &str, text: &mut Text) {
        match self {
            Told::Guard(trace) => {
                let who = trace.thread.load(Ordering::Relaxed);
                if who != 0 {
                    by(who, what, trace.frames(&mut [0; DEPTH]), text);
                }
            }
            Told::Every(event) => by(event.thread(), what, prof::frames_of(*event), text),
        }
    }
}

/// What is known of a block.
struct Story {
    start: usize,
    bytes: usize,
    is_live: bool,
    allocated: Told,
    freed: Option<Told>,
}

impl Story {
    /// The story of the block that an address is in, or near to.
    fn of(address: usize) -> Option<Story> {
        match Slot::around(address) {
            Some(slot) => Some(Story::of_slot(slot)),
            None => prof::known(address).map(Story::of_known),
        }
    }

    fn of_slot(slot: Slot) -> Story {
        let record = slot.record();
        Story {
            start: record.start.load(Ordering::Relaxed),
            bytes: record.bytes.load(Ordering::Relaxed),
            is_live: record.state.is_live(),
            allocated: Told::Guard(&record.allocated),
            freed: Some(Told::Guard(&record.freed)),
        }
    }

    fn of_known(known: Known) -> Story {
        let Known { start, bytes, allocated, freed } = known;
        let (allocated, is_live) = (Told::Every(allocated), freed.is_none());
        Story { start, bytes, is_live, allocated, freed: freed.map(Told::Every) }
    }

    fn name(&self, text: &mut Text) {
        text.str("the block of ").decimal(self.bytes as u64);
        text.str(" bytes at ").hex(self.start as u64);
    }

    /// Prints the stacks; that of the free only if it is not `ending` right now.
    fn tell(&self, ending: bool, text: &mut Text) {
        self.allocated.say("allocated", text);
        if let Some(freed) = self.freed.as_ref().filter(|_| !ending) {
            freed.say("freed", text);
        }
    }
}

/// At the free of a block: bytes around it were written to, the nearest `far` bytes from it.
#[cold]
pub fn damaged(slot: Slot, far: u64, behind: bool) {
    let then = settings::on_error();
    if then == OnError::Ignore || then == OnError::Report && !settings::show_errors() {
        return;
    }
    with_text(then == OnError::Abort, &mut |text| {
        let story = Story::of_slot(slot);
        text.str("masu: ").str(if behind { "overflow" } else { "underflow" }).str(" of ");
        story.name(text);
        text.str(": it was written to ").count(far, "byte");
        text.str(if behind { " beyond its end" } else { " before its start" });
        text.str(", found when freed").line();
        story.tell(false, text);
    });
    if then == OnError::Abort {
        fatal::abort();
    }
}

/// After a line about a mistake with `p`: prints the present stack and those of the block there, if it is a guarded
/// one, or every block is recorded. `ending`: it is being freed right now.
pub fn tell(p: *const u8, ending: bool, text: &mut Text) {
    let story = if features::GUARD | features::PROF { Story::of(p.addr()) } else { None };
    if story.is_some() || prof::is_every() {
        say_here(0, "now", text);
    }
    if let Some(story) = story {
        story.tell(ending, text);
    }
}

/// Reports that an access to `address` has failed, once in a process, if it is in the slots or their guards, or in or
/// near a block that is recorded.
pub fn fault(address: usize, writes: Option<bool>) {
    let address = untagged(address);
    let near = match Slot::around(address) {
        Some(_) => nearest(address).map(Story::of_slot),
        None => prof::known(address).map(Story::of_known),
    };
    let Some(story) = near else { return };
    if settings::on_error() == OnError::Ignore || TOLD.swap(true, Ordering::Relaxed) {
        return;
    }
    let Story { start, bytes, .. } = story;
    let end = start + bytes;
    with_text(true, &mut |text| {
        text.str("masu: ").str(match writes {
            Some(true) => "write to ",
            Some(false) => "read of ",
            None => "access to ",
        });
        text.hex(address as u64).str(": ");
        if address < start {
            text.count((start - address) as u64, "byte").str(" before the start of ");
        } else if address >= end {
            text.count((address - end) as u64 + 1, "byte").str(" beyond the end of ");
        } else {
            text.count((address - start) as u64, "byte").str(" into ");
        }
        story.name(text);
        text.str(if story.is_live { "" } else { ", which was freed" }).line();
        // The outermost frame of the handler is the C library's return from signals.
        say_here(1, "accessed", text);
        story.tell(false, text);
    });
}

/// The slot whose block is nearest to an address: the one around it or the next.
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

/// Prints the calling thread's stack, without its innermost frames.
fn say_here(skip: usize, what: &str, text: &mut Text) {
    let mut room = stack::room::<DEPTH>();
    let frames = stack::walk(&mut room);
    by(thread::id(), what, frames.get(skip..).unwrap_or(&[]), text);
}

fn by(who: u32, what: &str, frames: &[usize], text: &mut Text) {
    text.str("masu:   ").str(what).str(" by thread ").decimal(who.into()).line();
    say_frames(frames, text);
}

/// Prints a stack, a line for each frame.
#[inline(never)]
pub fn say_frames(frames: &[usize], text: &mut Text) {
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

//! Reports of a program's mistakes: one line with the act, the address, what is there and the likely cause. The
//! option `on_error` decides what happens then: usually the process ends, because its memory can no longer be
//! trusted.
//!
//! A pointer into memory that may be another allocator's is not certainly a mistake. If the door recognises it as one
//! of that allocator's blocks, the allocator gets it ([`Neighbour`]); otherwise it is reported once and left alone,
//! unless the door knows that the process has no other allocator.
//!
//! `docs/mistakes.md` explains every line to users, and a test compares them.

use crate::config::OnError;
use crate::guard;
use crate::settings;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sys::fatal;
use crate::sys::place::{Place, place};
use crate::sys::rlimit::{self, Limit};
use crate::text::Text;
use core::mem::transmute;

/// An act of a program on a pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// It frees it.
    Free,
    /// It changes its size, to this many bytes if the block may move.
    Realloc(Option<usize>),
    /// It asks for its size.
    Measure,
}

/// What is wrong with an act.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// Its block, of this many bytes (0: unknown), was freed before.
    Freed {
        /// See above.
        bytes: usize,
    },
    /// It points into a block.
    Inside {
        /// Where the block begins.
        start: usize,
        /// Its bytes.
        bytes: usize,
    },
    /// It points into the engine's memory, where no live block begins.
    NoBlock,
    /// It points elsewhere.
    Elsewhere,
    /// The chain of freed blocks that begins at it is corrupt.
    Tangled,
    /// The block belongs to another first-class heap, or to none.
    OtherHeap,
    /// It is freed with a size that cannot have been requested for it.
    Size {
        /// The size given.
        said: usize,
        /// Its bytes.
        bytes: usize,
    },
    /// It was written to beyond its end, of this many bytes.
    Overrun {
        /// See above.
        bytes: usize,
        /// The first byte that shows it, counted from 0.
        at: usize,
    },
    /// Something was written next to it, where no write is allowed; it has at most this many bytes.
    Near {
        /// See above.
        bytes: usize,
        /// Behind the block, not before it.
        behind: bool,
    },
    /// It is freed with an alignment that it does not have.
    Align {
        /// The alignment said.
        said: usize,
    },
}

/// Pointers to no known block that were freed, resized or measured.
pub static FOREIGN: AtomicU64 = AtomicU64::new(0);
/// Lines written about mistakes that the process has survived.
static SAID: AtomicU64 = AtomicU64::new(0);
/// The most such lines: a program that makes a mistake may make it a million times.
const MOST_SAID: u64 = 100;

/// The function that answers for other allocators in the process.
pub type Neighbour = fn(Act, *mut u8) -> Answer;

/// What it says about a pointer.
pub enum Answer {
    /// It was a block of another allocator's, which has performed the act: an address, a size or 0.
    Done(usize),
    /// It may be a block of another allocator's.
    Maybe,
    /// No other allocator can have returned it.
    Nobodys,
}

/// The address of that function; 0 if there is none.
static NEIGHBOUR: AtomicUsize = AtomicUsize::new(0);

/// Sets the function that answers for another allocator.
pub fn set_neighbour(neighbour: Neighbour) {
    NEIGHBOUR.store(neighbour as usize, Ordering::Release);
}

fn ask_neighbour(act: Act, p: *const u8) -> Answer {
    let neighbour = NEIGHBOUR.load(Ordering::Acquire);
    if neighbour == 0 {
        return Answer::Maybe;
    }
    // SAFETY: stored by `set_neighbour`, from a function of this type.
    let neighbour: Neighbour = unsafe { transmute(neighbour) };
    neighbour(act, p.cast_mut())
}

/// Reports a mistake. If the process goes on, returns the result of the act: 0, with the pointer left alone, unless
/// another allocator has answered.
#[cold]
#[inline(never)]
pub fn mistake(act: Act, p: *const u8, wrong: Wrong) -> usize {
    let mode = settings::on_error();
    let mut ends = mode == OnError::Abort;
    let mut tells = mode != OnError::Ignore && settings::show_errors();
    let mut at = Place::Other;
    if matches!(wrong, Wrong::Elsewhere) {
        at = place(p);
        if matches!(at, Place::Other) {
            match ask_neighbour(act, p) {
                Answer::Done(answer) => return answer,
                Answer::Maybe => {}
                Answer::Nobodys => at = Place::Nobodys,
            }
        }
        let before = FOREIGN.fetch_add(1, Ordering::Relaxed);
        if matches!(at, Place::Other) && !settings::hardened() {
            tells &= before == 0;
            ends = false;
        }
    }
    tells = tells && !ends && SAID.fetch_add(1, Ordering::Relaxed) < MOST_SAID;
    if tells || ends {
        say(ends, act, p, wrong, at);
    }
    if ends {
        fatal::abort();
    }
    0
}

/// Reports a mistake found once the lists of free blocks are damaged: the process ends, whatever the option says.
#[cold]
#[inline(never)]
pub fn damage(p: *const u8, wrong: Wrong) -> ! {
    say(true, Act::Free, p, wrong, Place::Other);
    fatal::abort()
}

/// Reports that a block was freed twice.
#[cold]
#[inline(never)]
pub fn double_free(p: *const u8) {
    mistake(Act::Free, p, Wrong::Freed { bytes: 0 });
}

/// Reports that a freed block, about to be handed out again, does not hold what a free block does. The process ends,
/// because the list of free blocks is corrupt.
#[cold]
#[inline(never)]
pub fn written_after_free(p: *const u8) -> ! {
    guard::with_text(true, &mut |text| {
        text.str("masu: free block at ").hex(p.addr() as u64);
        text.str(": it, or the free block that links to it, was written to after it was freed, or the block before it overflowed")
            .line();
        guard::tell(p, false, text);
    });
    fatal::abort()
}

/// Reports a free of a pointer into the engine's memory that is not a live block's start.
#[cold]
#[inline(never)]
pub fn bad_free(p: *const u8) {
    mistake(Act::Free, p, Wrong::NoBlock);
}

fn say(ends: bool, act: Act, p: *const u8, wrong: Wrong, at: Place) {
    guard::with_text(ends, &mut |text| say_to(text, act, p, wrong, at));
}

fn say_to(text: &mut Text, act: Act, p: *const u8, wrong: Wrong, at: Place) {
    let what = match (act, wrong) {
        (Act::Free, Wrong::Freed { .. } | Wrong::Tangled) => "double free of ",
        (Act::Free, Wrong::Size { .. }) => "sized free of ",
        (Act::Free, Wrong::Align { .. }) => "aligned free of ",
        (Act::Free, _) => "free of ",
        (Act::Realloc(_), _) => "realloc of ",
        (Act::Measure, _) => "usable size of ",
    };
    text.str("masu: ").str(what).hex(p.addr() as u64).str(": ");
    match wrong {
        Wrong::Freed { bytes } => {
            text.str("the block");
            if bytes != 0 {
                text.str(" of ").decimal(bytes as u64).str(" bytes");
            }
            text.str(" was freed before and not allocated again");
        }
        Wrong::Inside { start, bytes } => {
            text.str("it points ").count((p.addr() - start) as u64, "byte");
            text.str(" into the block of ");
            text.decimal(bytes as u64).str(" bytes at ").hex(start as u64);
            text.str(" (a pointer that was moved?)");
        }
        Wrong::NoBlock => {
            text.str("not the start of a live block (freed before, or inside a block?)");
        }
        Wrong::Tangled => {
            text.str("the chain of freed blocks starting here is broken ");
            text.str("(a block freed by two threads at once, or written to after it was freed?)");
        }
        Wrong::OtherHeap => {
            text.str("the block belongs to another heap");
        }
        Wrong::Size { said, bytes } => {
            text.str("the size given is ").decimal(said as u64).str(" bytes, but the block has ");
            text.decimal(bytes as u64).str(" (deleted as another type?)");
        }
        Wrong::Align { said } => {
            text.str("the alignment given is ").decimal(said as u64);
            text.str(", but the address is not a multiple of it");
        }
        Wrong::Overrun { bytes, at } => {
            text.str("the block of ").decimal(bytes as u64);
            text.str(" bytes was written to ").count(at as u64 + 1, "byte").str(" beyond its end");
        }
        Wrong::Near { bytes, behind } => {
            text.str("memory just ").str(if behind { "after" } else { "before" });
            text.str(" the block of up to ").decimal(bytes as u64);
            text.str(" bytes was written to (an overflow, or a write to freed memory?)");
        }
        Wrong::Elsewhere => say_place(at, text),
    }
    text.line().flush();
    guard::tell(p, matches!(wrong, Wrong::Overrun { .. } | Wrong::Near { .. }), text);
}

fn say_place(at: Place, text: &mut Text) {
    let said = match at {
        Place::Low => "a small number, not an address (a pointer never set?)",
        Place::Beyond => "no program can have this address (overwritten, or never set?)",
        Place::Uneven => {
            "not a multiple of 8, as every block's address is (a pointer that was moved?)"
        }
        Place::Stack => "it points to the stack, to a local variable",
        Place::File(name) => {
            text.str("it points into ");
            if name.is_empty() {
                text.str("the program's file");
            } else {
                text.printable(name.to_bytes());
            }
            ", to a variable, a constant or code"
        }
        Place::Unmapped => "no memory is mapped there (given back long ago, or overwritten?)",
        Place::Nobodys => "not allocated by masu, and there is no other allocator",
        Place::Other => {
            text.str("not allocated by masu (another allocator in this process?); ");
            if settings::hardened() {
                "a hardened heap accepts only its own blocks"
            } else {
                "left alone"
            }
        }
    };
    text.str(said);
}

/// Whether the engine has reported that memory is out.
static TOLD: AtomicBool = AtomicBool::new(false);

/// Notes that a request for `bytes` has failed. If a limit of the process is the reason, the engine reports that
/// once, because the program may end without a message of its own.
#[cold]
#[inline(never)]
pub fn out_of_memory(bytes: usize) {
    if !settings::show_errors() || TOLD.load(Ordering::Relaxed) {
        return;
    }
    for (limit, name) in [
        (Limit::AddressSpace, "address space (RLIMIT_AS, ulimit -v)"),
        (Limit::Data, "data (RLIMIT_DATA, ulimit -d)"),
    ] {
        let Some(most) = rlimit::get(limit) else { continue };
        let used = if settings::cgroup() { rlimit::used(limit) } else { None };
        // Less may be missing than is mapped at once for it.
        let passed = used.is_none_or(|used| used.saturating_add(bytes.max(NEEDED)) > most);
        if passed && !TOLD.swap(true, Ordering::Relaxed) && fatal::may_tell() {
            let mut sink = fatal::write_stderr as fn(&[u8]);
            let mut text = Text::new(&mut sink);
            text.str("masu: out of memory: the limit on ").str(name).str(" is ");
            text.decimal((most >> 10) as u64).str(" KiB");
            if let Some(used) = used {
                text.str(", of which ").decimal((used >> 10) as u64).str(" are in use");
            }
            text.str("; asked for ").decimal(bytes as u64).str(" bytes").line();
        }
    }
}

/// What the engine maps at once where it must be careful, tables included: 128 KiB.
const NEEDED: usize = 128 << 10;

/// How many pointers to no known block were freed, resized or measured.
pub fn foreign_frees() -> u64 {
    FOREIGN.load(Ordering::Relaxed)
}

//! What the engine says about a program's mistakes: one line with what, the address and the likely
//! cause. A double or misaligned free of the engine's own block ends the process, since its heap
//! can no longer be trusted; a pointer that is not the engine's may belong to another allocator in
//! the process, so it is reported once and left alone.

use crate::settings;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crate::sys::fatal;
use crate::sys::rlimit::{self, Limit};
use crate::text::Text;

static FOREIGN_FREES: AtomicU64 = AtomicU64::new(0);

#[cold]
#[inline(never)]
fn line(what: &str, p: *const u8, cause: &str) {
    let mut sink = fatal::write_stderr as fn(&[u8]);
    let sink = &mut sink;
    Text::new(sink).str("masu: ").str(what).hex(p as u64).str(cause).line();
}

/// A block was freed twice.
#[cold]
#[inline(never)]
pub fn double_free(p: *const u8) {
    line("double free of ", p, ": the block was freed before and not allocated again");
    fatal::abort();
}

/// A pointer into the engine's memory that is not a live block's start.
#[cold]
#[inline(never)]
pub fn bad_free(p: *const u8) {
    line("free of ", p, ": not the start of a live block (freed before, or inside a block?)");
    fatal::abort();
}

/// What a program does with a pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// It frees it.
    Free,
    /// It changes its size.
    Realloc,
}

/// What is wrong with a pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// Its block was freed before.
    Freed { bytes: usize },
    /// It points into a block.
    Inside { start: usize, bytes: usize },
    /// It points into the engine's memory, where no block starts.
    NoBlock,
    /// It points elsewhere.
    Elsewhere,
}

/// A mistake.
#[cold]
#[inline(never)]
pub fn mistake(act: Act, p: *const u8, wrong: Wrong) {
    match (act, wrong) {
        (Act::Free, Wrong::Elsewhere) => foreign_free(p),
        (Act::Free, _) => bad_free(p),
        (Act::Realloc, _) => bad_realloc(p, wrong != Wrong::Elsewhere),
    }
}

/// A pointer whose block is to change its size, though none that is live starts there. `ours`: it lies in the
/// engine's memory.
#[cold]
#[inline(never)]
pub fn bad_realloc(p: *const u8, ours: bool) {
    if ours {
        line(
            "realloc of ",
            p,
            ": not the start of a live block (freed before, or inside a block?)",
        );
        fatal::abort();
    }
    foreign(
        "realloc of ",
        p,
        ": not allocated by masu (another allocator in this process?); it fails",
    );
}

/// A pointer that is not the engine's.
#[cold]
#[inline(never)]
pub fn foreign_free(p: *const u8) {
    foreign("free of ", p, ": not allocated by masu (another allocator in this process?); ignored");
}

/// Says so the first time.
fn foreign(what: &str, p: *const u8, cause: &str) {
    if FOREIGN_FREES.fetch_add(1, Ordering::Relaxed) == 0 && settings::show_errors() {
        line(what, p, cause);
    }
}

/// Whether it was told that memory is out.
static TOLD: AtomicBool = AtomicBool::new(false);

/// A request for `bytes` has failed. If a limit of the process's stands in its way, that is said once, for
/// a program may end without a word of its own.
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
        // What is missing may be less than what is mapped at once for it.
        let passed = used.is_none_or(|used| used.saturating_add(bytes.max(NEEDED)) > most);
        if passed && !TOLD.swap(true, Ordering::Relaxed) {
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

/// How many foreign pointers were freed.
pub fn foreign_frees() -> u64 {
    FOREIGN_FREES.load(Ordering::Relaxed)
}

//! What the engine says about a program's mistakes: one line with what, the address and the likely
//! cause. A double or misaligned free of the engine's own block ends the process, since its heap
//! can no longer be trusted; a pointer that is not the engine's may belong to another allocator in
//! the process, so it is reported once and left alone.

use crate::settings;
use crate::sync::{AtomicU64, Ordering};
use crate::sys::fatal;
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

/// A pointer that is not the engine's.
#[cold]
#[inline(never)]
pub fn foreign_free(p: *const u8) {
    if FOREIGN_FREES.fetch_add(1, Ordering::Relaxed) == 0 && settings::show_errors() {
        line(
            "free of ",
            p,
            ": not allocated by masu (another allocator in this process?); ignored",
        );
    }
}

/// How many foreign pointers were freed.
pub fn foreign_frees() -> u64 {
    FOREIGN_FREES.load(Ordering::Relaxed)
}

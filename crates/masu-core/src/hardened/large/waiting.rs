//! A large block that was freed while a fork stands still has a mark until it is over: in its second word, behind the
//! link of deferred blocks, because the forking thread may move its entry in the table meanwhile. A program that writes
//! to a freed block may take that mark off.

use super::record::AT;
use crate::sync::{AtomicUsize, Ordering, shared_static};

shared_static! {
    /// Large blocks that wait, or more: those that go with their first-class heap count for ever.
    static COUNT: AtomicUsize = AtomicUsize::new(0);
}

/// Makes no address of a mark, and a mark of no address.
const NO_ADDRESS: usize = 0x9e37_79b9_7f4a_7c15;

/// Marks the large block at `p`. Returns `false` if it has a mark already.
///
/// # Safety
/// The block must be the caller's, which gives it up.
pub unsafe fn begin(p: *mut u8) -> bool {
    COUNT.fetch_add(1, Ordering::Relaxed);
    // SAFETY: passed on; it has a page.
    let was = unsafe { second_word(p) }.swap(mark(p), Ordering::Relaxed);
    if was == mark(p) {
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
    was != mark(p)
}

/// Takes the mark off the large block at `p`, and what the list of deferred blocks has written.
///
/// # Safety
/// The block must wait.
pub unsafe fn end(p: *mut u8) {
    // A block may be shorter than what was written to it.
    // SAFETY: passed on.
    unsafe { p.cast::<[usize; 2]>().write([0; 2]) };
    COUNT.fetch_sub(1, Ordering::Relaxed);
}

/// Whether the large block at `p` waits. One load if none does.
///
/// # Safety
/// There must be a large block, which stays meanwhile.
pub unsafe fn waits(p: *mut u8) -> bool {
    // SAFETY: passed on; it has a page.
    COUNT.load(Ordering::Relaxed) != 0
        && unsafe { second_word(p) }.load(Ordering::Relaxed) == mark(p)
}

fn mark(p: *mut u8) -> usize {
    p.addr() ^ AT.load(Ordering::Relaxed) ^ NO_ADDRESS
}

/// # Safety
/// A large block must begin at `p`.
unsafe fn second_word<'a>(p: *mut u8) -> &'a AtomicUsize {
    // SAFETY: passed on: two words of its first page.
    unsafe { &*p.cast::<AtomicUsize>().add(1) }
}

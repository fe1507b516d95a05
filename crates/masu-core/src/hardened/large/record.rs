//! The table of all large blocks behind its lock, and what it says of a pointer. [`large`](super) has the invariants.

use crate::features;
use crate::hardened::entry::Entry;
use crate::hardened::place::map_records;
use crate::hardened::table::{Table, peek};
use crate::lock::{Guard, Lock, fork};
use crate::report::Wrong;
use crate::sync::{AtomicUsize, Ordering};
use crate::sys::rlimit::{self, Limit};
use core::cell::UnsafeCell;
use core::mem::offset_of;

/// The lock and the table.
struct Large {
    lock: Lock,
    table: UnsafeCell<Table>,
}

// SAFETY: invariant 1 of `hardened::large`.
unsafe impl Sync for Large {}

/// Where it lies; 0 if nowhere.
pub static AT: AtomicUsize = AtomicUsize::new(0);
/// Where the table is in it, and its bytes, for `outside`.
pub const TABLE: [usize; 2] = [offset_of!(Large, table), size_of::<Large>()];

/// Makes the table. Returns `false` if memory is out.
pub fn start() -> bool {
    let Some(at) = map_records(size_of::<Large>()) else { return false };
    // SAFETY: fresh and zero, which is an empty table and a free lock; no other thread knows of it.
    let table = unsafe { &mut *(*(at as *const Large)).table.get() };
    table.stream.renew();
    table.narrow = rlimit::get(Limit::AddressSpace).is_some();
    AT.store(at, Ordering::Release);
    true
}

fn large() -> Option<&'static Large> {
    let at = AT.load(Ordering::Acquire);
    // SAFETY: invariant 3 of `hardened::large`.
    unsafe { (at as *const Large).as_ref() }
}

/// Runs `f` with the table. Returns `None` if there is none, or a fork stands still.
pub fn with<T>(f: impl FnOnce(&mut Table) -> T) -> Option<T> {
    let (_guard, table) = enter()?;
    // SAFETY: invariant 1 of `hardened::large`.
    Some(f(unsafe { &mut *table.get() }))
}

#[inline(never)]
fn enter() -> Option<(Guard<'static>, &'static UnsafeCell<Table>)> {
    let large = large()?;
    Some((large.lock.enter()?, &large.table))
}

/// The lock, once there is a table.
pub fn lock_for_fork() -> Option<&'static Lock> {
    large().map(|large| &large.lock)
}

/// Renews the stream, in a fork's child.
pub fn after_fork_in_child() {
    if let Some(large) = large() {
        // SAFETY: invariant 1 of `hardened::large`: there is one thread.
        unsafe { &mut *large.table.get() }.stream.renew();
    }
}

/// Whether any part of the hardened heap exists.
#[inline]
pub fn is_there() -> bool {
    features::HARDENED && AT.load(Ordering::Acquire) != 0
}

/// The entry of the block at `p`, if there is one, as far as that can be told while a fork stands still.
pub fn entry_of(p: usize) -> Option<Entry> {
    let large = large()?;
    loop {
        if let Some(found) = with(|table| table.find(p)) {
            return found.map(|(_, entry)| entry);
        }
        // A fork that stands still holds the lock, and no thread writes.
        // SAFETY: a table, for ever.
        if let Some(entry) = unsafe { peek(large.table.get(), p) } {
            return Some(entry);
        }
        // Otherwise the fork is over, and a thread may have written meanwhile.
        if fork::is_in_progress() {
            return None;
        }
    }
}

/// The bytes of the block at `p`, or what is wrong with it; `None` if `p` is near no block.
pub fn look(p: usize) -> Option<Result<usize, Wrong>> {
    let large = large()?;
    loop {
        let found = with(|table| match table.find(p) {
            Some((_, entry)) => Some(Ok(entry.asked)),
            None => table.explain(p).map(Err),
        });
        if let Some(found) = found {
            return found;
        }
        // A fork that stands still holds the lock, and no thread writes.
        // SAFETY: invariant 3 of `hardened::large`.
        if let Some(entry) = unsafe { peek(large.table.get(), p) } {
            return Some(Ok(entry.asked));
        }
        if fork::is_in_progress() {
            return None;
        }
    }
}

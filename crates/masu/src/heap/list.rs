//! The list of all live heaps, for statistics.
//!
//! A list under one lock, which is taken when a heap is made, reset after a scope or dropped, and
//! when the list is read. It is the outermost of all locks: a fork takes it before the engine's.
//! Code that runs under it calls no code of the program, and allocates nothing: a soft limit's callback, which runs in
//! an allocation, may read the list.
//!
//! Invariants:
//!
//! 1. What is linked from [`FIRST`] are entries made by [`insert`] and not yet unlinked by [`remove`].
//! 2. [`FIRST`], and the links and heaps of entries, are accessed with [`LOCK`] held; names never change.

#[cfg(doc)]
use super::Heap;
use super::HeapStats;
use crate::unscoped;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::ptr::{NonNull, null};
use masu_core::Arena;
use masu_core::lock::{Guard, Lock};

#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"),
    not(masu_elsewhere)
))]
pub(crate) use fork::{fork_done, fork_prepare, fork_prepared};

/// The state of a heap when the list was read: a row of [`all`].
///
/// ```
/// let _index = masu::Heap::builder().name("index").hard_limit(1 << 20).build()?;
/// let row = masu::heap::all().into_iter().find(|row| row.name.as_deref() == Some("index"));
/// assert_eq!(row.map(|row| row.hard_limit), Some(Some(1 << 20)));
/// # Ok::<(), masu::heap::HeapError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HeapRow {
    /// [`Heap::id`].
    pub id: u32,
    /// [`Heap::name`].
    pub name: Option<Arc<str>>,
    /// Bytes of live blocks above which the heap keeps no free memory.
    pub soft_limit: Option<usize>,
    /// Maximum bytes of live blocks.
    pub hard_limit: Option<usize>,
    /// [`Heap::stats`].
    pub stats: HeapStats,
}

/// Returns all live heaps ([`Heap`]), in no particular order. A heap that was dropped while blocks
/// of a [`scope`](crate::scope) live is not among them. O(heaps + their slabs).
///
/// The rows are read one after the other while other threads run; only threads that make or drop a
/// heap wait until all are read. The threads' own heaps are in [`ctl::heaps`](crate::ctl::heaps).
///
/// ```
/// use masu::allocator_api2::vec::Vec;
/// use masu::{Heap, heap};
///
/// let tenants = ["a", "b"].map(|name| Heap::builder().name(name).build().unwrap());
/// let mut data = Vec::new_in(&tenants[1]);
/// data.resize(1000, 0u8);
///
/// let most = heap::all().into_iter().max_by_key(|row| row.stats.allocated).unwrap();
/// assert_eq!(most.name.as_deref(), Some("b"));
/// ```
#[must_use]
pub fn all() -> Vec<HeapRow> {
    let mut rows = Vec::new();
    loop {
        let needed = {
            let list = List::lock();
            let needed = list.entries().count();
            if needed <= rows.capacity() {
                rows.extend(list.entries().map(Entry::row));
                return rows;
            }
            needed
        };
        // Outside the lock. Some more, because heaps may be made meanwhile.
        rows.reserve(needed + needed / 8 + 4);
    }
}

/// A heap on the list.
struct Entry {
    raw: Cell<&'static Arena>,
    name: Option<Arc<str>>,
    next: Cell<*const Entry>,
    previous: Cell<*const Entry>,
}

/// A heap's entry on the list, until [`remove`].
pub(super) struct Listed(NonNull<Entry>);

// SAFETY: invariant 2: a key, with which the list's functions take the lock first.
unsafe impl Send for Listed {}
// SAFETY: invariant 2: a key, with which the list's functions take the lock first.
unsafe impl Sync for Listed {}

impl Entry {
    fn row(&self) -> HeapRow {
        let raw = self.raw.get();
        let (soft, hard) = raw.limits();
        let limit = |bytes| (bytes != usize::MAX).then_some(bytes);
        HeapRow {
            id: raw.id(),
            name: self.name.clone(),
            soft_limit: limit(soft),
            hard_limit: limit(hard),
            stats: raw.stats(),
        }
    }
}

static LOCK: Lock = Lock::new();
static FIRST: First = First(Cell::new(null()));

/// What [`LOCK`] protects.
struct First(Cell<*const Entry>);

// SAFETY: invariant 2: only a `List` accesses it, and only one exists at a time.
unsafe impl Sync for First {}

/// The list, locked.
struct List(#[allow(dead_code, reason = "held until dropped")] Guard<'static>);

impl List {
    fn lock() -> List {
        List(LOCK.lock())
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        // SAFETY: invariants 1 and 2: `remove` needs the lock, whose guard the entries are borrowed from.
        let at = |entry: *const Entry| unsafe { entry.as_ref() };
        core::iter::successors(at(FIRST.0.get()), move |entry| at(entry.next.get()))
    }

    /// Sets what leads to an entry, or to the end of the list, from `previous`, or from [`FIRST`] if that is null.
    fn link(&self, previous: *const Entry, next: *const Entry) {
        // SAFETY: invariants 1 and 2: entries of the list, whose lock is held.
        unsafe {
            previous.as_ref().map_or(&FIRST.0, |entry| &entry.next).set(next);
            if let Some(entry) = next.as_ref() {
                entry.previous.set(previous);
            }
        }
    }
}

/// Puts a heap on the list. The heap must stay valid until [`remove`].
pub(super) fn insert(raw: &'static Arena, name: Option<Arc<str>>) -> Listed {
    let entry =
        Entry { raw: Cell::new(raw), name, next: Cell::new(null()), previous: Cell::new(null()) };
    // Outside any open scope: the list's memory must not come from one.
    let entry = unscoped(|| NonNull::from(Box::leak(Box::new(entry))));
    let list = List::lock();
    // All pointers to it come from this one: a second `&mut` would end the first ones' right to it.
    list.link(entry.as_ptr(), FIRST.0.get());
    list.link(null(), entry.as_ptr());
    Listed(entry)
}

/// Makes the entry stand for another heap from now on.
pub(super) fn replace(entry: &Listed, raw: &'static Arena) {
    let _list = List::lock();
    // SAFETY: invariants 1 and 2: an entry of the list, whose lock is held.
    unsafe { entry.0.as_ref() }.raw.set(raw);
}

/// Removes a heap from the list, so that no thread reads it any more.
///
/// # Safety
/// The entry must not be used again.
pub(super) unsafe fn remove(entry: &Listed) {
    let list = List::lock();
    // SAFETY: invariants 1 and 2: an entry of the list, whose lock is held.
    let (previous, next) =
        unsafe { (entry.0.as_ref().previous.get(), entry.0.as_ref().next.get()) };
    list.link(previous, next);
    drop(list);
    // SAFETY: as the caller says, not used again; invariant 1: made by `insert`, and unlinked.
    drop(unsafe { Box::from_raw(entry.0.as_ptr()) });
}

#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"),
    not(masu_elsewhere)
))]
mod fork {
    use super::LOCK;

    /// Runs before a fork, ahead of the engine's handler.
    pub(crate) fn fork_prepare() {
        LOCK.acquire();
    }

    /// Runs after the engine's handler: the forking thread may use the list.
    ///
    /// # Safety
    /// The calling thread must have called [`fork_prepare`], and then the engine's handler.
    pub(crate) unsafe fn fork_prepared() {
        // SAFETY: as the caller says, held since `fork_prepare`, and the fork has begun.
        unsafe { LOCK.mark_fork() }
    }

    /// Runs after a fork, in the parent and in the child, after the engine's handler.
    ///
    /// # Safety
    /// The calling thread must have called [`fork_prepare`].
    pub(crate) unsafe fn fork_done() {
        // SAFETY: as the caller says, held since `fork_prepare`.
        unsafe { LOCK.release() }
    }
}

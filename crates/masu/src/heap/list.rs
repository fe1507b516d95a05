//! The list of all live heaps, for statistics.
//!
//! A slab under one lock, which is taken when a heap is made, reset after a scope or dropped, and
//! when the list is read. It is the outermost of all locks: a fork takes it before the engine's.
//! Code that runs under it calls no code of the program except its global allocator, when the list
//! grows.

#[cfg(doc)]
use super::Heap;
use super::HeapStats;
use crate::{Slab, unscoped};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::UnsafeCell;
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
            let heaps = list.heaps();
            if heaps.len() <= rows.capacity() {
                rows.extend(heaps.iter().map(|(_, entry)| entry.row()));
                return rows;
            }
            heaps.len()
        };
        // Outside the lock. Some more, because heaps may be made meanwhile.
        rows.reserve(needed + needed / 8 + 4);
    }
}

/// A heap on the list.
struct Entry {
    raw: &'static Arena,
    name: Option<Arc<str>>,
}

impl Entry {
    fn row(&self) -> HeapRow {
        let (soft, hard) = self.raw.limits();
        let limit = |bytes| (bytes != usize::MAX).then_some(bytes);
        HeapRow {
            id: self.raw.id(),
            name: self.name.clone(),
            soft_limit: limit(soft),
            hard_limit: limit(hard),
            stats: self.raw.stats(),
        }
    }
}

static LOCK: Lock = Lock::new();
static HEAPS: Heaps = Heaps(UnsafeCell::new(Slab::new()));

/// The data that [`LOCK`] protects.
struct Heaps(UnsafeCell<Slab<Entry>>);

// SAFETY: only a `List` accesses it, and only one exists at a time.
unsafe impl Sync for Heaps {}

/// The list, locked.
struct List(#[allow(dead_code, reason = "held until dropped")] Guard<'static>);

impl List {
    fn lock() -> List {
        List(LOCK.lock())
    }

    fn heaps(&self) -> &Slab<Entry> {
        // SAFETY: the lock is held, and the result is borrowed from its guard.
        unsafe { &*HEAPS.0.get() }
    }

    fn heaps_mut(&mut self) -> &mut Slab<Entry> {
        // SAFETY: as above.
        unsafe { &mut *HEAPS.0.get() }
    }
}

/// Puts a heap on the list and returns the key of its entry. The heap must stay valid until
/// [`remove`].
pub(super) fn insert(raw: &'static Arena, name: Option<Arc<str>>) -> usize {
    let mut list = List::lock();
    let heaps = list.heaps_mut();
    if heaps.len() == heaps.capacity() {
        // Outside any open scope: the list's memory must not come from one.
        unscoped(|| heaps.reserve(1));
    }
    heaps.insert(Entry { raw, name })
}

/// Makes the entry stand for another heap from now on.
pub(super) fn replace(key: usize, raw: &'static Arena) {
    List::lock().heaps_mut()[key].raw = raw;
}

/// Removes a heap from the list, so that no thread reads it any more.
pub(super) fn remove(key: usize) {
    // The name is dropped after the lock is released.
    let _entry = List::lock().heaps_mut().remove(key);
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
        // SAFETY: held since `fork_prepare`, and the fork has begun.
        unsafe { LOCK.mark_fork() }
    }

    /// Runs after a fork, in the parent and in the child, after the engine's handler.
    ///
    /// # Safety
    /// The calling thread must have called [`fork_prepare`].
    pub(crate) unsafe fn fork_done() {
        // SAFETY: held since `fork_prepare`.
        unsafe { LOCK.release() }
    }
}

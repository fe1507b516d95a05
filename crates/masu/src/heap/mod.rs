//! First-class heaps: separate memory for one part of a program, with statistics and limits, freed
//! all at once.
//!
//! A [`Heap`] may be used by any thread. Collections live in it through the `Allocator` trait of the `allocator-api2`
//! crate, in its versions 0.4 and 0.2 (or, with the feature `nightly`, of the standard library): `&Heap` is an
//! allocator for values that do not outlive the borrow, and [`ArcHeap`] is one for values that keep their heap alive.
//! [`masu::allocator_api2`](crate::allocator_api2) is the crate itself. Dropping a heap gives all its memory back
//! without visiting its blocks.
//!
//! ```
//! use masu::allocator_api2::vec::Vec;
//! use masu::Heap;
//!
//! let heap = Heap::builder().name("request").hard_limit(64 << 20).build()?;
//! let mut words = Vec::new_in(&heap);
//! words.extend(["no", "header", "on", "any", "block"]);
//! assert_eq!(heap.stats().blocks, 1);
//! assert!(heap.stats().allocated >= words.len() * size_of::<&str>());
//! # Ok::<(), masu::heap::HeapError>(())
//! ```
//!
//! Code that takes no allocator also allocates from a heap inside a [`scope`](crate::scope).
//! [`all`] lists the live heaps.
//!
//! # What it costs
//!
//! An allocation takes the heap's lock, which is one atomic instruction without contention; a free
//! never waits for it. Threads that allocate heavily at the same time should each have their own
//! heap. A heap takes 8 KiB, and at least one page for each size class in use.

// Invariants:
//
// 1. `raw` is an arena made for this heap, which is destroyed or retired only when the heap is reset or
//    dropped: until then it is alive.
// 2. A block of the heap was allocated through `&Heap` or an `ArcHeap`, and then whatever may use it holds
//    a borrow of the heap; or in a scope, and then the arena knows that it has served one, and lives on
//    until the last such block is freed.
// 3. `entry` stands for `raw` on the list of heaps from the heap's making to its drop.

#[cfg(any(feature = "allocator-api2", feature = "allocator-api2-02", feature = "nightly"))]
mod allocator;
mod arc;
mod builder;
pub(crate) mod list;
mod scope;

pub use arc::ArcHeap;
pub use builder::HeapBuilder;
pub use list::{HeapRow, all};
pub use masu_core::ArenaStats as HeapStats;
pub use scope::{scope, unscoped};

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use masu_core::Arena;

/// The callback that runs when the soft limit is crossed.
type OnSoftLimit = dyn Fn(&HeapStats) + Send + Sync;

/// A separate heap. Dropping it frees everything allocated in it.
///
/// `&Heap` is an allocator. A heap lives at least as long as every value in it; the borrow checker
/// ensures that:
///
/// ```compile_fail,E0505
/// # use masu::Heap;
/// let heap = Heap::new().unwrap();
/// let values = masu::allocator_api2::vec::Vec::<u8, _>::with_capacity_in(100, &heap);
/// drop(heap);
/// drop(values);
/// ```
///
/// Nor can it be reset while a value is in it:
///
/// ```compile_fail,E0502
/// # use masu::Heap;
/// let mut heap = Heap::new().unwrap();
/// let value = masu::allocator_api2::boxed::Box::new_in(7, &heap);
/// heap.reset().unwrap();
/// assert_eq!(*value, 7);
/// ```
///
/// And leaked values are borrowed no longer than the heap:
///
/// ```compile_fail,E0597
/// # use masu::Heap;
/// let leaked: &mut i32 = {
///     let heap = Heap::new().unwrap();
///     masu::allocator_api2::boxed::Box::leak(masu::allocator_api2::boxed::Box::new_in(7, &heap))
/// };
/// *leaked = 8;
/// ```
pub struct Heap {
    raw: &'static Arena,
    name: Option<Arc<str>>,
    entry: list::Listed,
    on_soft_limit: Option<Box<OnSoftLimit>>,
}

/// No heap could be made: memory is out, or 65,536 heaps or 1,024 hardened ones are alive, or a hardened heap was
/// requested where address space is short or pages are not 4 KiB.
///
/// ```
/// use masu::heap::{Heap, HeapError};
///
/// fn cache() -> Result<Heap, HeapError> {
///     Heap::builder().name("cache").build()
/// }
/// assert!(cache().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapError;

impl fmt::Display for HeapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no memory for a heap, or too many heaps")
    }
}

impl core::error::Error for HeapError {}

impl Heap {
    /// Makes a heap without a name and without limits. O(1).
    ///
    /// # Errors
    /// If memory is out, or 65,536 heaps are alive.
    ///
    /// ```
    /// let heap = masu::Heap::new()?;
    /// assert_eq!(heap.stats().allocated, 0);
    /// # Ok::<(), masu::heap::HeapError>(())
    /// ```
    pub fn new() -> Result<Heap, HeapError> {
        Heap::builder().build()
    }

    /// With the feature `hardened`: makes a heap whose blocks are hardened, even if the process is not. It suits the
    /// part of a program that reads untrusted input, or that calls C. Its blocks are guarded as
    /// [`Policy::Hardened`](crate::Policy::Hardened) guards all blocks of a process:
    ///
    /// - each lies in a randomly chosen slot of a slab that holds only blocks of its size class and of this heap;
    /// - it is followed by a canary, or above 8 KiB by an inaccessible page;
    /// - a free that finds the canary changed, or no live block, ends the process with a line on stderr, whichever
    ///   function is called;
    /// - freed blocks are zeroed, reused late, and checked first: if one was written to, the process ends then;
    /// - above 128 KiB a block is a mapping between guards, and inaccessible once it is freed.
    ///
    /// The costs, described in `docs/hardened.md`, apply to this heap's blocks only; each size class in use takes
    /// another 12 KiB. Blocks have exactly the requested size; in a [`scope`](crate::scope), that of their size class.
    ///
    /// # Errors
    /// If memory or address space is out, or 1,024 such heaps are alive, each with less than 192 MiB of a class, or
    /// pages are not 4 KiB.
    ///
    /// ```
    /// use masu::Heap;
    /// use masu::allocator_api2::vec::Vec;
    ///
    /// let heap = Heap::hardened()?;
    /// let mut packet = Vec::with_capacity_in(100, &heap);
    /// packet.extend_from_slice(b"from a stranger");
    /// assert_eq!(heap.allocated(), 100);
    /// # Ok::<(), masu::heap::HeapError>(())
    /// ```
    ///
    /// A write beyond the end is detected when the block is freed:
    ///
    /// ```should_panic
    /// use masu::Heap;
    /// use masu::allocator_api2::boxed::Box;
    ///
    /// # if std::env::var_os("CHILD").is_none() {
    /// #     let this = std::env::current_exe().unwrap();
    /// #     let end = std::process::Command::new(this).env("CHILD", "1").output().unwrap();
    /// #     assert!(String::from_utf8_lossy(&end.stderr).contains("written to 1 byte beyond its end"));
    /// #     panic!("as it should");
    /// # }
    /// let heap = Heap::hardened().unwrap();
    /// let mut block = Box::new_in([0u8; 100], &heap);
    /// // SAFETY: there is none: this is the mistake.
    /// unsafe { block.as_mut_ptr().add(100).write_volatile(1) };
    /// drop(block); // masu: free of 0x…: the block of 100 bytes was written to 1 byte beyond its end
    /// ```
    #[cfg(feature = "hardened")]
    pub fn hardened() -> Result<Heap, HeapError> {
        Heap::builder().hardened(true).build()
    }

    /// Whether the heap's blocks are hardened, by `Heap::hardened` or because the process is.
    ///
    /// ```
    /// assert!(!masu::Heap::new()?.is_hardened());
    /// # Ok::<(), masu::heap::HeapError>(())
    /// ```
    pub fn is_hardened(&self) -> bool {
        self.raw.is_hardened()
    }

    /// Returns a builder for a heap with a name, limits or a callback.
    ///
    /// ```
    /// let heap = masu::Heap::builder().name("cache").hard_limit(1 << 20).build()?;
    /// assert_eq!(heap.name(), Some("cache"));
    /// # Ok::<(), masu::heap::HeapError>(())
    /// ```
    pub fn builder() -> HeapBuilder {
        HeapBuilder::default()
    }

    /// Returns the name given to the builder.
    ///
    /// ```
    /// assert_eq!(masu::Heap::new()?.name(), None);
    /// # Ok::<(), masu::heap::HeapError>(())
    /// ```
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the heap's number, which no other live heap has. It changes only in a [`reset`](Self::reset) after a
    /// [`scope`].
    ///
    /// ```
    /// let heaps = [masu::Heap::new()?, masu::Heap::new()?];
    /// assert_ne!(heaps[0].id(), heaps[1].id());
    /// # Ok::<(), masu::heap::HeapError>(())
    /// ```
    pub fn id(&self) -> u32 {
        self.raw.id()
    }

    /// Returns the heap's current contents and totals. O(spans of 64 KiB).
    ///
    /// ```
    /// use masu::allocator_api2::boxed::Box;
    ///
    /// let heap = masu::Heap::new()?;
    /// let _values = [Box::new_in([0u8; 100], &heap), Box::new_in([1u8; 100], &heap)];
    /// let stats = heap.stats();
    /// assert_eq!((stats.blocks, stats.allocated), (2, 2 * 112));
    /// assert_eq!(stats.by_size().collect::<Vec<_>>(), [(112, 2)]);
    /// # Ok::<(), masu::heap::HeapError>(())
    /// ```
    pub fn stats(&self) -> HeapStats {
        self.raw.stats()
    }

    /// Returns the usable bytes of the live blocks, to which the limits apply. One load.
    ///
    /// ```
    /// let heap = masu::Heap::new()?;
    /// let _value = masu::allocator_api2::boxed::Box::new_in([0u8; 100], &heap);
    /// assert_eq!(heap.allocated(), 112);
    /// # Ok::<(), masu::heap::HeapError>(())
    /// ```
    pub fn allocated(&self) -> usize {
        self.raw.allocated()
    }

    /// Whether a block belongs to this heap. O(1). For a pointer that is not the start of a live block the answer is
    /// meaningless.
    ///
    /// ```
    /// let heap = masu::Heap::new()?;
    /// let value = masu::allocator_api2::boxed::Box::new_in(7, &heap);
    /// assert!(heap.owns(&raw const *value));
    /// # Ok::<(), masu::heap::HeapError>(())
    /// ```
    pub fn owns<T: ?Sized>(&self, block: *const T) -> bool {
        Arena::of(block.cast()).is_some_and(|heap| core::ptr::eq(heap, self.raw))
    }

    /// Sets the limits on the usable bytes of live blocks; `None` means no limit. Allocations
    /// beyond the hard limit fail. One that crosses the soft limit makes the heap give back its
    /// free memory and calls the callback given to [`HeapBuilder::on_soft_limit`].
    ///
    /// ```
    /// use masu::allocator_api2::vec::Vec;
    ///
    /// let heap = masu::Heap::new()?;
    /// heap.set_limits(None, Some(1000));
    /// let mut bytes: Vec<u8, _> = Vec::new_in(&heap);
    /// assert!(bytes.try_reserve(2000).is_err());
    /// assert!(bytes.try_reserve(800).is_ok());
    /// # Ok::<(), masu::heap::HeapError>(())
    /// ```
    pub fn set_limits(&self, soft: Option<usize>, hard: Option<usize>) {
        self.raw.set_limits(soft.unwrap_or(usize::MAX), hard.unwrap_or(usize::MAX));
    }

    /// Gives the heap's free memory back to the process: empty spans, and free pages of sparse
    /// ones. O(spans). Returns the bytes given back.
    ///
    /// ```
    /// let heap = masu::Heap::new()?;
    /// drop(masu::allocator_api2::boxed::Box::new_in([0u8; 100], &heap));
    /// heap.trim();
    /// assert_eq!(heap.stats().active, 0);
    /// # Ok::<(), masu::heap::HeapError>(())
    /// ```
    pub fn trim(&self) -> usize {
        self.raw.trim()
    }

    /// Frees everything at once; the heap can then be used anew. No destructors run: only leaked
    /// values can still be in the heap. O(spans + medium and huge blocks).
    ///
    /// A heap from which a [`scope`] has allocated gets fresh memory, statistics and another [`id`](Self::id), because
    /// blocks allocated in the scope may be anywhere. They stay valid, and the old memory goes back when no block is
    /// left in it: a value that was leaked there keeps it for ever.
    ///
    /// # Errors
    /// Only after a scope, if there is no memory for a fresh heap. The heap is then unchanged.
    ///
    /// ```
    /// use masu::allocator_api2::{boxed::Box, vec::Vec};
    ///
    /// let mut heap = masu::Heap::new()?;
    /// for round in 0..3 {
    ///     let mut nodes = Vec::new_in(&heap);
    ///     nodes.extend((0..1000).map(|i| Box::new_in(i * round, &heap)));
    ///     core::mem::forget(nodes);
    ///     assert_eq!(heap.stats().blocks, 1001);
    ///     heap.reset()?;
    ///     assert_eq!(heap.stats().blocks, 0);
    /// }
    /// # Ok::<(), masu::heap::HeapError>(())
    /// ```
    pub fn reset(&mut self) -> Result<(), HeapError> {
        if !self.raw.has_served_a_scope() {
            // SAFETY: invariant 2: no scope has taken blocks from the heap, and all others are borrowed from it,
            // which is not borrowed now.
            unsafe { self.raw.reset() };
            return Ok(());
        }
        let hardened = self.is_hardened();
        let fresh = if hardened { Arena::create_hardened() } else { Arena::create() };
        let fresh = fresh.ok_or(HeapError)?;
        let (soft, hard) = self.raw.limits();
        fresh.set_limits(soft, hard);
        list::replace(&self.entry, fresh);
        let old = core::mem::replace(&mut self.raw, fresh);
        // SAFETY: invariants 1 and 3: `self` and its entry have forgotten the old one, and nothing else leads to it.
        unsafe { let_go(old) };
        Ok(())
    }

    /// Calls the callback if the soft limit was crossed.
    #[inline]
    fn after_allocation(&self) {
        if self.raw.take_signal() {
            self.crossed();
        }
    }

    /// A panic of the callback must not unwind into the caller, whose block may just have moved: a C function ends
    /// the process instead.
    #[cold]
    extern "C" fn crossed(&self) {
        let Some(on_soft_limit) = &self.on_soft_limit else { return };
        let stats = self.stats();
        // Not if a collection that grew had two blocks for a moment.
        if stats.allocated > self.raw.limits().0 {
            on_soft_limit(&stats);
        }
    }
}

/// Leaves a heap to the blocks that escaped from scopes. They may still grow in it, and its limits could not be lifted
/// any more.
///
/// # Safety
/// As for [`Arena::retire`].
unsafe fn let_go(heap: &'static Arena) {
    heap.set_limits(usize::MAX, usize::MAX);
    // SAFETY: passed on.
    unsafe { heap.retire() };
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: invariants 1, 2 and 3: the entry is dropped with the heap, which is no longer borrowed, so blocks
        // that were borrowed from it are no longer used, and scopes are closed. Blocks of scopes may live: then the
        // heap is retired.
        unsafe {
            list::remove(&self.entry);
            if self.raw.has_served_a_scope() {
                let_go(self.raw);
            } else {
                self.raw.destroy();
            }
        }
    }
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap")
            .field("id", &self.id())
            .field("name", &self.name)
            .field("allocated", &self.allocated())
            .finish_non_exhaustive()
    }
}

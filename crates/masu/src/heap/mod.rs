//! First-class heaps: memory of its own for a part of a program, with statistics and limits, given back
//! at once.
//!
//! A [`Heap`] may be used by any thread. Collections live in it through the `Allocator` trait of the
//! `allocator-api2` crate, in its versions 0.4 and 0.2 (or, with the feature `nightly`, of the standard
//! library): `&Heap` is an allocator for values that do not outlive the borrow, and [`ArcHeap`] is one for
//! values that keep their heap alive. [`masu::allocator_api2`](crate::allocator_api2) is the crate itself. When a heap is dropped, all its memory goes back without a look at single blocks.
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
//! Code that does not take an allocator allocates from a heap too, inside a [`scope`](crate::scope).
//! [`all`] is a table of the heaps there are.
//!
//! # What it costs
//!
//! An allocation takes the heap's lock, which is one atomic instruction when nobody else is in it; a free
//! never waits for it. Threads that allocate a lot at the same time had better have a heap each. A heap
//! takes 8 KiB, and at least one page for each size class in use.

#[cfg(any(feature = "allocator-api2", feature = "allocator-api2-02"))]
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
use core::sync::atomic::{AtomicBool, Ordering};
use masu_core::Arena;

/// What is called when the soft limit is crossed.
type OnSoftLimit = dyn Fn(&HeapStats) + Send + Sync;

/// A heap of its own, which goes with all that was allocated in it.
///
/// `&Heap` is an allocator. A heap lives at least as long as every value in it, as the borrow
/// checker sees to:
///
/// ```compile_fail,E0505
/// # use masu::Heap;
/// let heap = Heap::new().unwrap();
/// let values = masu::allocator_api2::vec::Vec::<u8, _>::with_capacity_in(100, &heap);
/// drop(heap);
/// drop(values);
/// ```
///
/// Nor can it be reset while anything is in it:
///
/// ```compile_fail,E0502
/// # use masu::Heap;
/// let mut heap = Heap::new().unwrap();
/// let value = masu::allocator_api2::boxed::Box::new_in(7, &heap);
/// heap.reset().unwrap();
/// assert_eq!(*value, 7);
/// ```
///
/// And what is leaked is borrowed no longer than the heap:
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
    /// The key of its entry on the list of heaps.
    entry: usize,
    on_soft_limit: Option<Box<OnSoftLimit>>,
    /// Whether a scope was ever open: blocks of the global allocator may be in the heap, and nothing says
    /// how long they live.
    scoped: AtomicBool,
}

/// No heap could be made: memory is out, or 65,536 heaps are alive, or 1,024 hardened ones, or these are asked for where
/// addresses are short or pages are not of 4 KiB.
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
    /// A heap without a name and without limits. O(1).
    ///
    /// # Errors
    /// When memory is out, or 65,536 heaps are alive.
    ///
    /// ```
    /// let heap = masu::Heap::new()?;
    /// assert_eq!(heap.stats().allocated, 0);
    /// # Ok::<(), masu::heap::HeapError>(())
    /// ```
    pub fn new() -> Result<Heap, HeapError> {
        Heap::builder().build()
    }

    /// With the feature `hardened`: a heap whose blocks are hardened, in a process that need not be. It is for the part of a
    /// program that reads what strangers send, or that calls C. Its blocks are guarded as [`Policy::Hardened`](crate::Policy::Hardened) guards all of a
    /// process's:
    ///
    /// - each lies in a slot that is drawn, of a slab that has blocks of its size class and of this heap alone;
    /// - behind it is a canary, and above 8 KiB a page that nobody can access;
    /// - a free that finds the canary changed, or no live block, ends the process with a line, whichever function is called;
    /// - what is freed is zero, comes back late, and is looked at before: a write to it ends the process then;
    /// - above 128 KiB a block is a mapping between guards, and inaccessible once it is freed.
    ///
    /// It costs what `docs/hardened.md` says, for this heap's blocks only, and 12 KiB for each size class in use. Blocks have
    /// exactly the bytes that they are asked for with; in a [`scope`](crate::scope), those of their size class.
    ///
    /// # Errors
    /// When memory or addresses are out, or 1,024 such heaps are alive, each with less than 192 MiB of a class, or pages are
    /// not of 4 KiB.
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
    /// A write beyond the end is seen when the block is freed:
    ///
    /// ```should_panic
    /// use masu::Heap;
    /// use masu::allocator_api2::boxed::Box;
    ///
    /// # if std::env::var_os("CHILD").is_none() {
    /// #     let this = std::env::current_exe().unwrap();
    /// #     let end = std::process::Command::new(this).env("CHILD", "1").output().unwrap();
    /// #     assert!(String::from_utf8_lossy(&end.stderr).contains("written to 1 bytes beyond its end"));
    /// #     panic!("as it should");
    /// # }
    /// let heap = Heap::hardened().unwrap();
    /// let mut block = Box::new_in([0u8; 100], &heap);
    /// // SAFETY: there is none: this is the mistake.
    /// unsafe { block.as_mut_ptr().add(100).write_volatile(1) };
    /// drop(block); // masu: free of 0x…: the block of 100 bytes was written to 1 bytes beyond its end
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

    /// A heap with a name, limits, a callback.
    ///
    /// ```
    /// let heap = masu::Heap::builder().name("cache").hard_limit(1 << 20).build()?;
    /// assert_eq!(heap.name(), Some("cache"));
    /// # Ok::<(), masu::heap::HeapError>(())
    /// ```
    pub fn builder() -> HeapBuilder {
        HeapBuilder::default()
    }

    /// The name given to the builder.
    ///
    /// ```
    /// assert_eq!(masu::Heap::new()?.name(), None);
    /// # Ok::<(), masu::heap::HeapError>(())
    /// ```
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// A number that no other heap alive has.
    ///
    /// ```
    /// let heaps = [masu::Heap::new()?, masu::Heap::new()?];
    /// assert_ne!(heaps[0].id(), heaps[1].id());
    /// # Ok::<(), masu::heap::HeapError>(())
    /// ```
    pub fn id(&self) -> u32 {
        self.raw.id()
    }

    /// What the heap holds and has done. O(spans of 64 KiB).
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

    /// Usable bytes of the live blocks, which the limits are about. One load.
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

    /// Whether a block belongs to this heap. O(1). A pointer that is not the start of a live block gets an
    /// answer without a meaning.
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

    /// Sets the limits on the usable bytes of live blocks; `None` for none. Allocations beyond the hard
    /// limit fail; one that crosses the soft limit makes the heap give back its free memory and calls
    /// what [`HeapBuilder::on_soft_limit`] was given.
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

    /// Gives free memory that the heap keeps back to the process: empty spans, and pages of sparse ones.
    /// O(spans). Returns the bytes.
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

    /// Frees everything at once, and the heap can be used anew. Destructors do not run: nothing can be in
    /// the heap but what was leaked. O(spans + medium and huge blocks).
    ///
    /// A heap that was used for a [`scope`] gets fresh memory and statistics, since what was allocated in the
    /// scope may be anywhere; it stays valid, and its memory goes when the last such block is freed.
    ///
    /// # Errors
    /// Only after a scope: when there is no memory for fresh one. The heap is then as before.
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
        if !*self.scoped.get_mut() {
            // SAFETY: blocks that were not allocated in a scope are borrowed from the heap, which is not
            // borrowed now.
            unsafe { self.raw.reset() };
            return Ok(());
        }
        let hardened = self.is_hardened();
        let fresh = if hardened { Arena::create_hardened() } else { Arena::create() };
        let fresh = fresh.ok_or(HeapError)?;
        let (soft, hard) = self.raw.limits();
        fresh.set_limits(soft, hard);
        list::replace(self.entry, fresh);
        let old = core::mem::replace(&mut self.raw, fresh);
        *self.scoped.get_mut() = false;
        // SAFETY: nobody else has the old one, and `self` has forgotten it.
        unsafe { old.retire() };
        Ok(())
    }

    /// Calls the callback if the soft limit was crossed.
    #[inline]
    fn after_allocation(&self) {
        if self.raw.take_signal() {
            self.crossed();
        }
    }

    #[cold]
    fn crossed(&self) {
        if let Some(on_soft_limit) = &self.on_soft_limit {
            on_soft_limit(&self.stats());
        }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        list::remove(self.entry);
        // SAFETY: the heap is not borrowed any more, so what was allocated through a borrow is not used any
        // more; scopes, which borrow it too, are closed. After a scope there may be other blocks.
        unsafe {
            if self.scoped.load(Ordering::Relaxed) {
                self.raw.retire();
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

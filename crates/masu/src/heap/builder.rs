//! Making a heap.

use super::{Heap, HeapError, HeapStats, OnSoftLimit, list};
use crate::global;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use masu_core::Arena;

/// The settings of a new heap, from [`Heap::builder`].
///
/// ```
/// let heap = masu::Heap::builder().name("tenant").soft_limit(48 << 20).hard_limit(64 << 20).build()?;
/// assert_eq!(heap.name(), Some("tenant"));
/// # Ok::<(), masu::heap::HeapError>(())
/// ```
#[derive(Default)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct HeapBuilder {
    name: Option<Box<str>>,
    soft: Option<usize>,
    hard: Option<usize>,
    on_soft_limit: Option<Box<OnSoftLimit>>,
    hardened: bool,
}

impl HeapBuilder {
    /// Sets the name that statistics show.
    ///
    /// ```
    /// let heap = masu::Heap::builder().name("index").build()?;
    /// assert_eq!(heap.name(), Some("index"));
    /// # Ok::<(), masu::heap::HeapError>(())
    /// ```
    pub fn name(mut self, name: impl Into<Box<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the soft limit: the bytes of live blocks above which the heap keeps no free memory and
    /// calls [`on_soft_limit`](Self::on_soft_limit).
    ///
    /// ```
    /// let heap = masu::Heap::builder().soft_limit(1 << 20).build()?;
    /// # Ok::<(), masu::heap::HeapError>(())
    /// ```
    pub fn soft_limit(mut self, bytes: usize) -> Self {
        self.soft = Some(bytes);
        self
    }

    /// Sets the hard limit: the most bytes that live blocks may take. Allocations beyond it fail,
    /// as they do when memory is out. A collection that must move to grow holds its old and its new
    /// block for a moment; both count.
    ///
    /// ```
    /// use masu::allocator_api2::boxed::Box;
    ///
    /// let heap = masu::Heap::builder().hard_limit(1000).build()?;
    /// assert!(Box::try_new_in([0u8; 500], &heap).is_ok());
    /// assert!(Box::try_new_in([0u8; 2000], &heap).is_err());
    /// # Ok::<(), masu::heap::HeapError>(())
    /// ```
    pub fn hard_limit(mut self, bytes: usize) -> Self {
        self.hard = Some(bytes);
        self
    }

    /// Sets a callback that runs each time an allocation takes the heap above its soft limit. It runs on the allocating
    /// thread, after the allocation or, for allocations in a [`scope`](crate::scope), when the scope ends; not if the
    /// heap is below the limit again by then. A `Vec` that was made in a scope and grows after it calls nothing; the heap's
    /// next allocation does. It may use the heap. It must not unwind: a panic ends the process.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let calls = Arc::new(AtomicUsize::new(0));
    /// let counted = calls.clone();
    /// let heap = masu::Heap::builder()
    ///     .soft_limit(1000)
    ///     .on_soft_limit(move |stats| {
    ///         assert!(stats.allocated > 1000);
    ///         counted.fetch_add(1, Ordering::Relaxed);
    ///     })
    ///     .build()?;
    /// let values = [1, 2, 3].map(|i| masu::allocator_api2::boxed::Box::new_in([i; 400], &heap));
    /// assert_eq!(calls.load(Ordering::Relaxed), 1);
    /// # Ok::<(), masu::heap::HeapError>(())
    /// ```
    pub fn on_soft_limit(mut self, call: impl Fn(&HeapStats) + Send + Sync + 'static) -> Self {
        self.on_soft_limit = Some(Box::new(call));
        self
    }

    /// With the feature `hardened`: sets whether the heap's blocks are placed where bugs do the least harm and are
    /// found soonest, as described at [`Heap::hardened`]. In a hardened process every heap is hardened.
    ///
    /// ```
    /// let heap = masu::Heap::builder().name("parser").hardened(true).hard_limit(64 << 20).build()?;
    /// assert!(heap.is_hardened());
    /// # Ok::<(), masu::heap::HeapError>(())
    /// ```
    #[cfg(feature = "hardened")]
    pub fn hardened(mut self, hardened: bool) -> Self {
        self.hardened = hardened;
        self
    }

    /// Makes the heap. O(1).
    ///
    /// # Errors
    /// If memory is out, or if 65,536 heaps, or 1,024 hardened ones, are alive. A hardened heap also needs pages of 4 KiB
    /// and address space.
    ///
    /// ```
    /// let heap = masu::Heap::builder().build()?;
    /// # Ok::<(), masu::heap::HeapError>(())
    /// ```
    pub fn build(self) -> Result<Heap, HeapError> {
        global::ensure_started();
        let name = self.name.map(Arc::from);
        let raw = if self.hardened { Arena::create_hardened() } else { Arena::create() };
        let raw = raw.ok_or(HeapError)?;
        let heap = Heap {
            raw,
            entry: list::insert(raw, name.clone()),
            name,
            on_soft_limit: self.on_soft_limit,
        };
        heap.set_limits(self.soft, self.hard);
        Ok(heap)
    }
}

impl fmt::Debug for HeapBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeapBuilder")
            .field("name", &self.name)
            .field("soft", &self.soft)
            .field("hard", &self.hard)
            .field("hardened", &self.hardened)
            .finish_non_exhaustive()
    }
}

//! [`PinSlab`]: values that are pinned from their insertion on.
//!
//! Invariants:
//!
//! 1. A value does not move from its insertion until it is dropped in place, and its memory is not used
//!    again before that: nothing here gives out a `&mut T` or a `T` unless `T` is `Unpin`, and a slab
//!    frees its pages only after it has dropped the values.

use super::change::Slab;
use core::fmt;
use core::pin::Pin;

/// A slab that never gives values out, so that it can hand out pinned references: for futures, and
/// for nodes that point to each other.
///
/// Values are dropped in place. If the slab is forgotten, its memory stays for ever, as pinning
/// requires.
///
/// ```
/// use masu::PinSlab;
/// use std::future::Future;
/// use std::task::{Context, Waker};
///
/// let mut tasks = PinSlab::new();
/// let key = tasks.insert(async { 7 });
/// let mut context = Context::from_waker(Waker::noop());
/// assert!(tasks.get_mut(key).unwrap().poll(&mut context).is_ready());
/// tasks.discard(key);
/// ```
///
/// Only values that may move anyway can be taken out:
///
/// ```compile_fail,E0277
/// # use masu::PinSlab;
/// let mut slab = PinSlab::new();
/// let key = slab.insert(std::marker::PhantomPinned);
/// slab.remove(key);
/// ```
pub struct PinSlab<T> {
    slab: Slab<T>,
}

impl<T> PinSlab<T> {
    /// Makes an empty slab. Allocates nothing.
    ///
    /// ```
    /// static EMPTY: masu::PinSlab<i32> = masu::PinSlab::new();
    /// assert!(EMPTY.is_empty());
    /// ```
    pub const fn new() -> Self {
        PinSlab { slab: Slab::new() }
    }

    /// Makes an empty slab whose first page has room for exactly `capacity` values.
    ///
    /// # Panics
    /// With `capacity overflow` if that is more than 2³² − 2 values or `isize::MAX` bytes.
    ///
    /// ```
    /// # use masu::PinSlab;
    /// assert_eq!(PinSlab::<u8>::with_capacity(10).capacity(), 10);
    /// ```
    pub fn with_capacity(capacity: usize) -> Self {
        PinSlab { slab: Slab::with_capacity(capacity) }
    }

    /// Returns the number of values.
    ///
    /// ```
    /// # use masu::PinSlab;
    /// let mut slab = PinSlab::new();
    /// slab.insert(1);
    /// assert_eq!(slab.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether there are no values.
    ///
    /// ```
    /// # use masu::PinSlab;
    /// assert!(PinSlab::<u8>::new().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// Returns the number of values for which there are keys without another page.
    ///
    /// ```
    /// # use masu::PinSlab;
    /// assert_eq!(PinSlab::<u8>::new().capacity(), 0);
    /// ```
    pub fn capacity(&self) -> usize {
        self.slab.capacity()
    }

    /// Like [`Slab::reserve`].
    ///
    /// ```
    /// # use masu::PinSlab;
    /// let mut slab = PinSlab::<u8>::new();
    /// slab.reserve(100);
    /// assert!(slab.capacity() >= 100);
    /// ```
    pub fn reserve(&mut self, additional: usize) {
        self.slab.reserve(additional);
    }

    /// Like [`Slab::vacant_key`].
    ///
    /// ```
    /// # use masu::PinSlab;
    /// let mut slab = PinSlab::new();
    /// let key = slab.vacant_key();
    /// assert_eq!(slab.insert(1), key);
    /// ```
    pub fn vacant_key(&self) -> usize {
        self.slab.vacant_key()
    }

    /// Inserts a value, which will not move from then on. O(1).
    ///
    /// ```
    /// # use masu::PinSlab;
    /// let mut slab = PinSlab::new();
    /// let key = slab.insert(1);
    /// assert_eq!(slab.get(key).as_deref(), Some(&1));
    /// ```
    #[inline]
    pub fn insert(&mut self, value: T) -> usize {
        self.slab.insert(value)
    }

    /// Whether a key has a value. O(1).
    ///
    /// ```
    /// # use masu::PinSlab;
    /// let mut slab = PinSlab::new();
    /// let key = slab.insert(1);
    /// assert!(slab.contains(key) && !slab.contains(key + 1));
    /// ```
    pub fn contains(&self, key: usize) -> bool {
        self.slab.contains(key)
    }

    /// Returns the value of a key, if there is one. O(1).
    ///
    /// ```
    /// # use masu::PinSlab;
    /// let mut slab = PinSlab::new();
    /// let key = slab.insert(1);
    /// assert_eq!(slab.get(key).as_deref(), Some(&1));
    /// ```
    #[inline]
    pub fn get(&self, key: usize) -> Option<Pin<&T>> {
        // SAFETY: invariant 1: the value stays where it is until it is dropped.
        self.slab.get(key).map(|value| unsafe { Pin::new_unchecked(value) })
    }

    /// Returns the value of a key, mutably. O(1).
    ///
    /// ```
    /// # use masu::PinSlab;
    /// let mut slab = PinSlab::new();
    /// let key = slab.insert(1);
    /// *slab.get_mut(key).unwrap() = 2; // `i32` may be moved, so it may be replaced
    /// assert_eq!(slab.get(key).as_deref(), Some(&2));
    /// ```
    #[inline]
    pub fn get_mut(&mut self, key: usize) -> Option<Pin<&mut T>> {
        // SAFETY: invariant 1: the value stays where it is until it is dropped.
        self.slab.get_mut(key).map(|value| unsafe { Pin::new_unchecked(value) })
    }

    /// Drops the value of a key in place. Returns `false` if there is none. O(1).
    ///
    /// ```
    /// # use masu::PinSlab;
    /// let mut slab = PinSlab::new();
    /// let key = slab.insert(std::marker::PhantomPinned);
    /// assert!(slab.discard(key) && slab.is_empty());
    /// ```
    #[inline]
    pub fn discard(&mut self, key: usize) -> bool {
        self.slab.discard(key)
    }

    /// Removes and returns the value of a key, if it may move.
    ///
    /// ```
    /// # use masu::PinSlab;
    /// let mut slab = PinSlab::new();
    /// let key = slab.insert(1);
    /// assert_eq!((slab.remove(key), slab.remove(key)), (Some(1), None));
    /// ```
    #[inline]
    pub fn remove(&mut self, key: usize) -> Option<T>
    where
        T: Unpin,
    {
        self.slab.try_remove(key)
    }

    /// Drops all values for which `keep` returns `false`, in ascending order of their keys.
    ///
    /// ```
    /// # use masu::PinSlab;
    /// let mut slab = PinSlab::new();
    /// for n in 0..10 {
    ///     slab.insert(n);
    /// }
    /// slab.retain(|_, n| *n > 6);
    /// assert_eq!(slab.len(), 3);
    /// ```
    pub fn retain(&mut self, mut keep: impl FnMut(usize, Pin<&mut T>) -> bool) {
        // SAFETY: invariant 1: the value stays where it is until it is dropped.
        self.slab.retain(|key, value| keep(key, unsafe { Pin::new_unchecked(value) }));
    }

    /// Drops all values. The pages stay.
    ///
    /// ```
    /// # use masu::PinSlab;
    /// let mut slab = PinSlab::new();
    /// slab.insert('a');
    /// slab.clear();
    /// assert!(slab.is_empty());
    /// ```
    pub fn clear(&mut self) {
        self.slab.clear();
    }

    /// Like [`Slab::release_empty_pages`].
    ///
    /// ```
    /// # use masu::PinSlab;
    /// let mut slab = PinSlab::with_capacity(64);
    /// (0..256).for_each(|i| _ = slab.insert(i));
    /// slab.retain(|key, _| key == 200);
    /// assert_eq!(slab.release_empty_pages(), 2); // keys 0..64 and 64..128
    /// ```
    pub fn release_empty_pages(&mut self) -> usize {
        self.slab.release_empty_pages()
    }

    /// Iterates over keys and values in ascending order of the keys.
    ///
    /// ```
    /// # use masu::PinSlab;
    /// let mut slab = PinSlab::new();
    /// slab.insert('a');
    /// assert_eq!(slab.iter().map(|(key, value)| (key, *value)).collect::<Vec<_>>(), [(0, 'a')]);
    /// ```
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, Pin<&T>)> {
        // SAFETY: invariant 1: the value stays where it is until it is dropped.
        self.slab.iter().map(|(key, value)| (key, unsafe { Pin::new_unchecked(value) }))
    }

    /// Iterates over keys and mutable values, in ascending order of the keys.
    ///
    /// ```
    /// # use masu::PinSlab;
    /// let mut slab = PinSlab::new();
    /// let key = slab.insert(1);
    /// for (_, mut value) in slab.iter_mut() {
    ///     value.set(2);
    /// }
    /// assert_eq!(*slab.get(key).unwrap(), 2);
    /// ```
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (usize, Pin<&mut T>)> {
        // SAFETY: invariant 1: the value stays where it is until it is dropped.
        self.slab.iter_mut().map(|(key, value)| (key, unsafe { Pin::new_unchecked(value) }))
    }
}

impl<T> Default for PinSlab<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for PinSlab<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.slab, f)
    }
}

//! [`Slab`]: insertion and removal.

use super::entry::VacantEntry;
use super::iter::Drain;
use super::table::Table;

/// A collection of values of one type, under `usize` keys that it chooses, at addresses that never
/// change.
///
/// ```
/// use masu::Slab;
///
/// let mut slab = Slab::new();
/// let hello = slab.insert("hello");
/// let world = slab.insert("world");
/// assert_eq!(slab[hello], "hello");
///
/// slab[world] = "earth";
/// assert_eq!(slab.remove(world), "earth");
/// assert!(!slab.contains(world));
/// ```
///
/// The [module](crate::slab) describes how values are stored and what each operation costs.
pub struct Slab<T> {
    pub(super) table: Table<T, ()>,
}

impl<T> Slab<T> {
    /// Makes an empty slab. Allocates nothing.
    ///
    /// ```
    /// # use masu::Slab;
    /// static EMPTY: Slab<i32> = Slab::new();
    /// assert_eq!(EMPTY.capacity(), 0);
    /// ```
    pub const fn new() -> Self {
        Slab { table: Table::new(()) }
    }

    /// Makes an empty slab whose first page has room for exactly `capacity` values.
    ///
    /// # Panics
    /// With `capacity overflow` if that is more than 2³² − 2 values or `isize::MAX` bytes.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab = Slab::with_capacity(10);
    /// for i in 0..10 {
    ///     slab.insert(i);
    /// }
    /// assert_eq!(slab.capacity(), 10);
    /// slab.insert(10);
    /// assert_eq!(slab.capacity(), 20);
    /// ```
    pub fn with_capacity(capacity: usize) -> Self {
        Slab { table: Table::with_capacity(capacity, ()) }
    }

    /// Drops all values. The pages stay.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab: Slab<_> = (0..3).map(|i| (i, i)).collect();
    /// slab.clear();
    /// assert!(slab.is_empty());
    /// assert_eq!(slab.vacant_key(), 0);
    /// ```
    pub fn clear(&mut self) {
        self.table.clear();
    }

    /// Returns the number of values.
    ///
    /// ```
    /// # use masu::Slab;
    /// let slab: Slab<_> = (0..3).map(|i| (i, i)).collect();
    /// assert_eq!(slab.len(), 3);
    /// ```
    #[inline]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are no values.
    ///
    /// ```
    /// # use masu::Slab;
    /// assert!(Slab::<i32>::new().is_empty());
    /// ```
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Inserts a value and returns its key, which is [`Slab::vacant_key`]. O(1), plus the
    /// allocation of one page when the slab grows.
    ///
    /// # Panics
    /// With `capacity overflow` if the slab would grow beyond 2³² − 2 values.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab = Slab::new();
    /// let key = slab.insert("hello");
    /// assert_eq!(slab[key], "hello");
    /// ```
    #[inline]
    pub fn insert(&mut self, value: T) -> usize {
        self.table.insert(value).0
    }

    /// Inserts `values` and returns their keys in the same order.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab = Slab::new();
    /// let [a, b] = slab.insert_array(["a", "b"]);
    /// assert_eq!((slab[a], slab[b]), ("a", "b"));
    /// ```
    pub fn insert_array<const N: usize>(&mut self, values: [T; N]) -> [usize; N] {
        self.insert_array_with(|_| values)
    }

    /// Reserves `N` slots at once, passes their keys to `make` and inserts the values it returns:
    /// for values that know their own and each other's keys. If `make` panics, nothing is inserted.
    ///
    /// ```
    /// # use masu::Slab;
    /// struct Node {
    ///     next: usize,
    /// }
    /// let mut slab = Slab::new();
    /// let [a, b] = slab.insert_array_with(|[a, b]| [Node { next: b }, Node { next: a }]);
    /// assert_eq!(slab[slab[a].next].next, a);
    /// # let _ = b;
    /// ```
    pub fn insert_array_with<const N: usize>(
        &mut self,
        make: impl FnOnce([usize; N]) -> [T; N],
    ) -> [usize; N] {
        self.reserve(N);
        let mut keys = [0; N];
        // There is room for `N` values, so there are `N` upcoming keys.
        keys.iter_mut().zip(self.upcoming_keys()).for_each(|(key, upcoming)| *key = upcoming);
        for value in make(keys) {
            self.insert(value);
        }
        keys
    }

    /// Returns the key of the next insertion, if nothing is removed before it. O(1).
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab = Slab::new();
    /// let key = slab.vacant_key();
    /// assert_eq!(slab.insert("hello"), key);
    /// ```
    #[inline]
    pub fn vacant_key(&self) -> usize {
        self.table.next()
    }

    /// Yields the keys of the next insertions, in order, up to the capacity, if nothing is removed
    /// before them.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab: Slab<char> = Slab::with_capacity(4);
    /// slab.insert_array(['a', 'b', 'c']);
    /// slab.remove(0);
    /// slab.remove(1);
    /// assert_eq!(slab.upcoming_keys().collect::<Vec<_>>(), [1, 0, 3]);
    /// ```
    pub fn upcoming_keys(&self) -> impl Iterator<Item = usize> + '_ {
        self.table.upcoming()
    }

    /// Returns the slot of the next insertion, for a value that needs its key or is to be built in
    /// place.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab = Slab::new();
    /// let entry = slab.vacant_entry();
    /// let key = entry.key();
    /// entry.insert((key, "hello"));
    /// assert_eq!(slab[key].0, key);
    /// ```
    #[inline]
    pub fn vacant_entry(&mut self) -> VacantEntry<'_, T> {
        VacantEntry::new(&mut self.table)
    }

    /// Removes and returns the value of a key; `None` if there is none. The key is the next to be
    /// reused, unless this removal gives memory back ([`Slab::set_automatic_release`]): then the lowest one is. O(1); use
    /// [`Slab::discard`] if the value is not needed.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab = Slab::new();
    /// let hello = slab.insert("hello");
    /// assert_eq!(slab.try_remove(hello), Some("hello"));
    /// assert_eq!(slab.try_remove(hello), None);
    /// ```
    #[inline]
    pub fn try_remove(&mut self, key: usize) -> Option<T> {
        let place = self.table.occupied_leaving(key)?;
        // SAFETY: invariant 1 of `slab::table`: the place is that of an occupied key.
        Some(unsafe { self.table.take(key, &place) })
    }

    /// Removes and returns the value of a key.
    ///
    /// # Panics
    /// With `invalid key` if it has no value.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab = Slab::new();
    /// let hello = slab.insert("hello");
    /// assert_eq!(slab.remove(hello), "hello");
    /// assert!(!slab.contains(hello));
    /// ```
    #[inline]
    #[track_caller]
    pub fn remove(&mut self, key: usize) -> T {
        // Not through `try_remove`, whose `Option` would be another copy of the value.
        match self.table.occupied_leaving(key) {
            // SAFETY: invariant 1 of `slab::table`: the place is that of an occupied key.
            Some(place) => unsafe { self.table.take(key, &place) },
            None => invalid_key(),
        }
    }

    /// Drops the value of a key in place, without moving it. Returns `false` if there is none. O(1)
    /// and independent of the value's size.
    ///
    /// If the drop panics, the key is vacant nonetheless.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab = Slab::new();
    /// let key = slab.insert([0u8; 4096]);
    /// assert!(slab.discard(key));
    /// assert!(!slab.discard(key));
    /// ```
    #[inline]
    pub fn discard(&mut self, key: usize) -> bool {
        match self.table.occupied_leaving(key) {
            Some(place) => {
                // SAFETY: invariant 1 of `slab::table`: the place is that of an occupied key.
                unsafe { self.table.discard(key, place) }
                true
            }
            None => false,
        }
    }

    /// [`Slab::discard`] for a key that must have a value.
    ///
    /// # Panics
    /// With `invalid key` if it has none.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab = Slab::new();
    /// let key = slab.insert(String::from("hello"));
    /// slab.remove_in_place(key);
    /// assert!(slab.is_empty());
    /// ```
    #[inline]
    #[track_caller]
    pub fn remove_in_place(&mut self, key: usize) {
        if !self.discard(key) {
            invalid_key();
        }
    }

    /// Drops all values for which `keep` returns `false`, in ascending order of their keys. O(n +
    /// capacity / 8).
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab: Slab<_> = (0..3).map(|i| (i, i)).collect();
    /// slab.retain(|key, value| key != 1 && *value < 2);
    /// assert_eq!(slab.len(), 1);
    /// assert!(slab.contains(0));
    /// ```
    pub fn retain(&mut self, mut keep: impl FnMut(usize, &mut T) -> bool) {
        let mut cursor = self.table.cursor();
        // SAFETY: invariant 1 of `slab::cursor`: the keys are occupied, and a discarded one is behind the cursor,
        // which is this table's.
        unsafe {
            while let Some((key, place)) = cursor.next(&self.table) {
                if !keep(key, &mut *place.value()) {
                    self.table.discard(key, place);
                }
            }
        }
    }

    /// Removes all values and yields them in ascending order of their keys. Dropping the iterator
    /// drops the remaining values; forgetting it leaks them and the pages.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab: Slab<_> = (0..3).map(|i| (i, i)).collect();
    /// assert_eq!(slab.drain().collect::<Vec<_>>(), [0, 1, 2]);
    /// assert!(slab.is_empty());
    /// ```
    pub fn drain(&mut self) -> Drain<'_, T> {
        Drain::new(self)
    }
}

#[cold]
#[inline(never)]
#[track_caller]
pub(super) fn invalid_key() -> ! {
    panic!("invalid key")
}

//! [`GenSlab`]: keys that miss once their value is gone.

use super::key::Key;
use super::table::{Place, Table};
use core::fmt;
use core::ops::{Index, IndexMut};

/// A slab whose keys find only their own value: once that is gone, the key misses, even if the slot
/// has another value.
///
/// It costs four bytes more for each slot than [`Slab`](super::Slab), and one more comparison for
/// each access. Generations survive [`GenSlab::clear`] and the release of pages. They wrap around:
/// once 2³¹ values have come after its own, a key may find one of them.
///
/// ```
/// use masu::GenSlab;
///
/// let mut slab = GenSlab::new();
/// let old = slab.insert("old");
/// slab.remove(old);
/// let new = slab.insert("new"); // in the same slot
/// assert_eq!(old.index(), new.index());
/// assert_eq!((slab.get(old), slab.get(new)), (None, Some(&"new")));
/// ```
pub struct GenSlab<T> {
    /// A slot's extra is the generation of its value, or of its next one.
    table: Table<T, u32>,
}

impl<T> GenSlab<T> {
    /// Makes an empty slab. Allocates nothing.
    ///
    /// ```
    /// # use masu::GenSlab;
    /// assert!(GenSlab::<u8>::new().is_empty());
    /// ```
    pub const fn new() -> Self {
        GenSlab { table: Table::new(1) }
    }

    /// Makes an empty slab whose first page has room for exactly `capacity` values.
    ///
    /// # Panics
    /// With `capacity overflow` if that is more than 2³² − 2 values or `isize::MAX` bytes.
    ///
    /// ```
    /// # use masu::GenSlab;
    /// assert_eq!(GenSlab::<u8>::with_capacity(10).capacity(), 10);
    /// ```
    pub fn with_capacity(capacity: usize) -> Self {
        GenSlab { table: Table::with_capacity(capacity, 1) }
    }

    /// Returns the number of values for which there are slots without another page.
    ///
    /// ```
    /// # use masu::GenSlab;
    /// assert_eq!(GenSlab::<u8>::with_capacity(10).capacity(), 10);
    /// ```
    pub fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// Returns the number of values.
    ///
    /// ```
    /// # use masu::GenSlab;
    /// let mut slab = GenSlab::new();
    /// slab.insert(1);
    /// assert_eq!(slab.len(), 1);
    /// ```
    #[inline]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are no values.
    ///
    /// ```
    /// # use masu::GenSlab;
    /// assert!(GenSlab::<u8>::new().is_empty());
    /// ```
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Inserts a value. O(1), plus the allocation of one page when the slab grows.
    ///
    /// # Panics
    /// With `capacity overflow` if the slab would grow beyond 2³² − 2 values.
    ///
    /// ```
    /// # use masu::GenSlab;
    /// let mut slab = GenSlab::new();
    /// let key = slab.insert("hello");
    /// assert_eq!(slab[key], "hello");
    /// ```
    #[inline]
    pub fn insert(&mut self, value: T) -> Key {
        self.insert_with(|_| value)
    }

    /// Inserts the value that `make` builds from its own key.
    ///
    /// ```
    /// # use masu::GenSlab;
    /// let mut slab = GenSlab::new();
    /// let key = slab.insert_with(|key| key);
    /// assert_eq!(slab[key], key);
    /// ```
    #[inline]
    pub fn insert_with(&mut self, make: impl FnOnce(Key) -> T) -> Key {
        let Ok(index) = u32::try_from(self.table.next()) else { panic!("capacity overflow") };
        let place = self.table.claim();
        // SAFETY: invariant 1 of `slab::table`: a claimed slot's extra is initialised.
        let key = Key::new(index, unsafe { (*place.slot()).extra });
        let value = make(key);
        // SAFETY: invariants 2 and 9 of `slab::table`: the slot is vacant and belongs to this call; `make` could not
        // reach the table.
        unsafe {
            self.table.commit(&place);
            place.value().write(value);
        }
        key
    }

    #[inline]
    fn find(&self, key: Key) -> Option<Place<T, u32>> {
        let place = self.table.occupied(key.index() as usize)?;
        // SAFETY: invariant 1 of `slab::table`: an occupied slot's extra is initialised.
        (unsafe { (*place.slot()).extra } == key.generation()).then_some(place)
    }

    /// Returns the value of a key, if it still exists. O(1).
    ///
    /// ```
    /// # use masu::GenSlab;
    /// let mut slab = GenSlab::new();
    /// let key = slab.insert(1);
    /// slab.remove(key);
    /// assert_eq!(slab.get(key), None);
    /// ```
    #[inline]
    pub fn get(&self, key: Key) -> Option<&T> {
        // SAFETY: invariants 1 and 9 of `slab::table`: occupied, and borrowed with the slab.
        self.find(key).map(|place| unsafe { &*place.value() })
    }

    /// Returns the value of a key, mutably. O(1).
    ///
    /// ```
    /// # use masu::GenSlab;
    /// let mut slab = GenSlab::new();
    /// let key = slab.insert(1);
    /// *slab.get_mut(key).unwrap() += 1;
    /// assert_eq!(slab[key], 2);
    /// ```
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        // SAFETY: invariants 1 and 9 of `slab::table`: occupied, and borrowed exclusively with the slab.
        self.find(key).map(|place| unsafe { &mut *place.value() })
    }

    /// Whether the value of a key still exists. O(1).
    ///
    /// ```
    /// # use masu::GenSlab;
    /// let mut slab = GenSlab::new();
    /// let key = slab.insert(1);
    /// assert!(slab.contains(key));
    /// ```
    #[inline]
    pub fn contains(&self, key: Key) -> bool {
        self.find(key).is_some()
    }

    /// Removes and returns the value of a key. O(1).
    ///
    /// ```
    /// # use masu::GenSlab;
    /// let mut slab = GenSlab::new();
    /// let key = slab.insert(1);
    /// assert_eq!((slab.remove(key), slab.remove(key)), (Some(1), None));
    /// ```
    #[inline]
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let place = self.find(key)?;
        let index = key.index() as usize;
        // SAFETY: invariant 1 of `slab::table`: occupied; the value is read once, because its slot is vacant
        // afterwards.
        unsafe {
            advance(&place);
            self.table.vacate(index, &place);
            Some(place.value().read())
        }
    }

    /// Drops the value of a key in place. Returns `false` if there is none. O(1).
    ///
    /// ```
    /// # use masu::GenSlab;
    /// let mut slab = GenSlab::new();
    /// let key = slab.insert([0u8; 4096]);
    /// assert!(slab.discard(key) && !slab.discard(key));
    /// ```
    #[inline]
    pub fn discard(&mut self, key: Key) -> bool {
        let Some(place) = self.find(key) else { return false };
        // SAFETY: invariant 1 of `slab::table`: occupied.
        unsafe {
            advance(&place);
            self.table.discard(key.index() as usize, place);
        }
        true
    }

    /// Drops all values for which `keep` returns `false`. O(n + capacity / 8).
    ///
    /// ```
    /// # use masu::GenSlab;
    /// let mut slab = GenSlab::new();
    /// let [a, b] = [1, 2].map(|n| slab.insert(n));
    /// slab.retain(|_, n| *n > 1);
    /// assert!(!slab.contains(a) && slab.contains(b));
    /// ```
    pub fn retain(&mut self, mut keep: impl FnMut(Key, &mut T) -> bool) {
        let mut cursor = self.table.cursor();
        // SAFETY: invariant 1 of `slab::cursor`: the slots are occupied, and a discarded one is behind the cursor,
        // which is this table's.
        unsafe {
            while let Some((index, place)) = cursor.next(&self.table) {
                if !keep(key_of(index, &place), &mut *place.value()) {
                    advance(&place);
                    self.table.discard(index, place);
                }
            }
        }
    }

    /// Drops all values; their keys miss from then on. O(capacity).
    ///
    /// ```
    /// # use masu::GenSlab;
    /// let mut slab = GenSlab::new();
    /// let old = slab.insert(1);
    /// slab.clear();
    /// slab.insert(2);
    /// assert_eq!(slab.get(old), None);
    /// ```
    pub fn clear(&mut self) {
        self.raise_fresh(true);
        self.table.clear();
    }

    /// Gives back the memory of all pages without values, and returns how many there were. Keys
    /// that were given out for them still miss. O(capacity).
    ///
    /// ```
    /// # use masu::GenSlab;
    /// let mut slab = GenSlab::new();
    /// let keys: Vec<_> = (0..1000).map(|n| slab.insert(n)).collect();
    /// slab.retain(|_, _| false);
    /// assert!(slab.release_empty_pages() > 0);
    /// slab.insert(0);
    /// assert_eq!(slab.get(keys[0]), None);
    /// ```
    pub fn release_empty_pages(&mut self) -> usize {
        self.raise_fresh(false);
        self.table.release_empty_pages()
    }

    /// Cuts off the capacity beyond the last value. O(capacity).
    ///
    /// ```
    /// # use masu::GenSlab;
    /// let mut slab = GenSlab::with_capacity(1000);
    /// let key = slab.insert('a');
    /// slab.shrink_to_fit();
    /// assert!(slab.capacity() < 1000 && slab[key] == 'a');
    /// ```
    pub fn shrink_to_fit(&mut self) {
        self.raise_fresh(false);
        self.table.shrink_to_fit();
    }

    /// Iterates over keys and values in ascending order of the indices. O(n + capacity / 8) in all.
    ///
    /// ```
    /// # use masu::GenSlab;
    /// let mut slab = GenSlab::new();
    /// let key = slab.insert('a');
    /// assert_eq!(slab.iter().collect::<Vec<_>>(), [(key, &'a')]);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        let mut cursor = self.table.cursor();
        core::iter::from_fn(move || {
            // SAFETY: invariant 1 of `slab::cursor`, and invariant 9 of `slab::table`: occupied, and borrowed with
            // the slab.
            unsafe {
                let (index, place) = cursor.next(&self.table)?;
                Some((key_of(index, &place), &*place.value()))
            }
        })
    }

    /// Iterates over keys and mutable values.
    ///
    /// ```
    /// # use masu::GenSlab;
    /// let mut slab = GenSlab::new();
    /// let key = slab.insert(1);
    /// for (_, n) in slab.iter_mut() {
    ///     *n += 1;
    /// }
    /// assert_eq!(slab[key], 2);
    /// ```
    ///
    /// The iterator may go to another thread if the values may:
    ///
    /// ```compile_fail,E0277
    /// # use masu::GenSlab;
    /// # use std::sync::MutexGuard;
    /// fn elsewhere(slab: &mut GenSlab<MutexGuard<'_, i32>>) {
    ///     let values = slab.iter_mut();
    ///     std::thread::scope(|s| _ = s.spawn(move || values.count()));
    /// }
    /// ```
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut T)> {
        let mut cursor = self.table.cursor();
        // Exclusive, so that the iterator may be sent where a `&mut T` may.
        let table = &mut self.table;
        core::iter::from_fn(move || {
            // SAFETY: invariant 1 of `slab::cursor`, and invariant 9 of `slab::table`: occupied, borrowed exclusively
            // with the slab, and yielded once.
            unsafe {
                let (index, place) = cursor.next(table)?;
                Some((key_of(index, &place), &mut *place.value()))
            }
        })
    }

    /// Makes the slots that lose their memory, or all slots, begin after every generation given out
    /// so far.
    fn raise_fresh(&mut self, occupied_too: bool) {
        for index in 0..self.table.carved_end() {
            let Some(place) = self.table.locate(index) else { continue };
            // SAFETY: invariant 1 of `slab::table`: a located slot's extra is initialised.
            let generation = unsafe { (*place.slot()).extra };
            let vacant = self.table.occupied(index).is_none();
            if vacant {
                self.table.fresh = later(self.table.fresh, generation);
            } else if occupied_too {
                self.table.fresh = later(self.table.fresh, next(generation));
            }
        }
    }
}

fn next(generation: u32) -> u32 {
    generation.checked_add(1).unwrap_or(1)
}

/// The later of two generations, also where they have wrapped around.
fn later(a: u32, b: u32) -> u32 {
    if b.wrapping_sub(a).cast_signed() > 0 { b } else { a }
}

/// Gives the slot's next value another generation.
///
/// # Safety
/// The slot must be occupied.
#[inline]
unsafe fn advance<T>(place: &Place<T, u32>) {
    // SAFETY: as the caller says, the slot is occupied; invariant 1 of `slab::table`: its extra is initialised.
    unsafe { (*place.slot()).extra = next((*place.slot()).extra) }
}

/// Returns the key of a slot's value.
///
/// # Safety
/// The slot must be occupied, and have that index.
#[inline]
unsafe fn key_of<T>(index: usize, place: &Place<T, u32>) -> Key {
    // SAFETY: as the caller says, the slot is occupied; invariant 1 of `slab::table`: its extra is initialised.
    // Indices fit, as `insert_with` ensures.
    Key::new(index as u32, unsafe { (*place.slot()).extra })
}

impl<T> Default for GenSlab<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Clone> Clone for GenSlab<T> {
    fn clone(&self) -> Self {
        let mut slab = GenSlab { table: Table::new(self.table.fresh) };
        slab.table.copy_from(&self.table, T::clone);
        slab
    }
}

impl<T: fmt::Debug> fmt::Debug for GenSlab<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<T> Index<Key> for GenSlab<T> {
    type Output = T;

    #[inline]
    #[track_caller]
    fn index(&self, key: Key) -> &T {
        match self.get(key) {
            Some(value) => value,
            None => super::change::invalid_key(),
        }
    }
}

impl<T> IndexMut<Key> for GenSlab<T> {
    #[inline]
    #[track_caller]
    fn index_mut(&mut self, key: Key) -> &mut T {
        match self.get_mut(key) {
            Some(value) => value,
            None => super::change::invalid_key(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_miss_once_their_values_are_cleared_although_generations_wrap_around() {
        let mut slab = GenSlab { table: Table::new(u32::MAX - 1) };
        let keys: [Key; 5] = core::array::from_fn(|_| {
            let key = slab.insert(());
            slab.clear();
            key
        });
        slab.insert(());
        assert!(keys.iter().all(|key| !slab.contains(*key)), "{keys:?}");
        assert_eq!(keys.map(Key::generation), [u32::MAX - 1, u32::MAX, 1, 2, 3]);
    }
}

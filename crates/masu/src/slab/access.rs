//! [`Slab`]: access to values.

use super::change::Slab;
use super::iter::{Iter, IterMut};
use core::fmt;
use core::ptr::NonNull;

/// Why [`Slab::get_disjoint_mut`] failed.
///
/// ```
/// use masu::Slab;
/// use masu::slab::GetDisjointMutError;
///
/// let mut slab: Slab<_> = [(0, 'a'), (1, 'b')].into_iter().collect();
/// slab.remove(1);
/// assert_eq!(slab.get_disjoint_mut([0, 0]), Err(GetDisjointMutError::OverlappingIndices));
/// assert_eq!(slab.get_disjoint_mut([0, 1]), Err(GetDisjointMutError::IndexVacant));
/// assert_eq!(slab.get_disjoint_mut([0, 9]), Err(GetDisjointMutError::IndexOutOfBounds));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GetDisjointMutError {
    /// A key has no value.
    IndexVacant,
    /// A key is above every key used so far.
    IndexOutOfBounds,
    /// A key was given twice.
    OverlappingIndices,
}

impl fmt::Display for GetDisjointMutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GetDisjointMutError::IndexVacant => "a key is vacant",
            GetDisjointMutError::IndexOutOfBounds => "a key is out of bounds",
            GetDisjointMutError::OverlappingIndices => "a key was given twice",
        })
    }
}

impl core::error::Error for GetDisjointMutError {}

impl<T> Slab<T> {
    /// Returns the value of a key, if there is one. O(1).
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab = Slab::new();
    /// let key = slab.insert("hello");
    /// assert_eq!(slab.get(key), Some(&"hello"));
    /// assert_eq!(slab.get(123), None);
    /// ```
    #[inline]
    pub fn get(&self, key: usize) -> Option<&T> {
        // SAFETY: invariants 1 and 9 of `slab::table`: occupied, and borrowed with the slab.
        self.table.occupied(key).map(|place| unsafe { &*place.value() })
    }

    /// Returns the value of a key, mutably. O(1).
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab = Slab::new();
    /// let key = slab.insert("hello");
    /// *slab.get_mut(key).unwrap() = "world";
    /// assert_eq!(slab[key], "world");
    /// ```
    #[inline]
    pub fn get_mut(&mut self, key: usize) -> Option<&mut T> {
        // SAFETY: invariants 1 and 9 of `slab::table`: occupied, and borrowed exclusively with the slab.
        self.table.occupied(key).map(|place| unsafe { &mut *place.value() })
    }

    /// Returns the address of a key's value, if there is one.
    ///
    /// The address stays the same and usable until the value is removed, dropped, or moved by
    /// [`Slab::compact`], whatever else happens to the slab. As for every raw pointer, reading
    /// through it while a `&mut` to this value exists, or writing while any reference to it exists,
    /// is undefined behaviour; references to other values do not matter.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab = Slab::new();
    /// let key = slab.insert(1);
    /// let p = slab.as_ptr(key).unwrap();
    /// for i in 0..10_000 {
    ///     slab.insert(i);
    /// }
    /// // SAFETY: the value is still there, and nobody else holds a reference to it.
    /// unsafe { p.write(2) }
    /// assert_eq!(slab[key], 2);
    /// ```
    #[inline]
    pub fn as_ptr(&self, key: usize) -> Option<NonNull<T>> {
        self.table.occupied(key).and_then(|place| NonNull::new(place.value()))
    }

    /// Returns two values at once, mutably; `None` if one of them does not exist.
    ///
    /// # Panics
    /// If the keys are equal.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab = Slab::new();
    /// let [a, b] = slab.insert_array([1, 2]);
    /// let (x, y) = slab.get2_mut(a, b).unwrap();
    /// std::mem::swap(x, y);
    /// assert_eq!((slab[a], slab[b]), (2, 1));
    /// ```
    #[track_caller]
    pub fn get2_mut(&mut self, key1: usize, key2: usize) -> Option<(&mut T, &mut T)> {
        assert!(key1 != key2);
        let (place1, place2) = (self.table.occupied(key1)?, self.table.occupied(key2)?);
        // SAFETY: invariants 1, 4 and 9 of `slab::table`: two different slots, both occupied, borrowed exclusively
        // with the slab.
        Some(unsafe { (&mut *place1.value(), &mut *place2.value()) })
    }

    /// Returns several values at once, mutably. O(N²) comparisons of keys.
    ///
    /// # Errors
    /// If a key is given twice, and otherwise if one has no value.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab: Slab<_> = (0..3).map(|i| (i, i)).collect();
    /// let [a, b] = slab.get_disjoint_mut([0, 2]).unwrap();
    /// std::mem::swap(a, b);
    /// assert_eq!((slab[0], slab[2]), (2, 0));
    /// ```
    pub fn get_disjoint_mut<const N: usize>(
        &mut self,
        keys: [usize; N],
    ) -> Result<[&mut T; N], GetDisjointMutError> {
        for (i, key) in keys.iter().enumerate() {
            if keys[..i].contains(key) {
                return Err(GetDisjointMutError::OverlappingIndices);
            }
        }
        for key in keys {
            if self.table.occupied(key).is_none() {
                return Err(if key < self.table.carved_end() {
                    GetDisjointMutError::IndexVacant
                } else {
                    GetDisjointMutError::IndexOutOfBounds
                });
            }
        }
        // SAFETY: invariants 1, 4 and 9 of `slab::table`: different slots, all occupied, borrowed exclusively with
        // the slab.
        Ok(keys.map(|key| unsafe { &mut *self.table.occupied_unchecked(key).value() }))
    }

    /// Returns the value of a key, unchecked.
    ///
    /// # Safety
    /// The key must have a value.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab = Slab::new();
    /// let key = slab.insert(2);
    /// // SAFETY: just inserted.
    /// assert_eq!(unsafe { slab.get_unchecked(key) }, &2);
    /// ```
    #[inline]
    pub unsafe fn get_unchecked(&self, key: usize) -> &T {
        // SAFETY: passed on.
        unsafe { &*self.table.occupied_unchecked(key).value() }
    }

    /// Returns the value of a key, mutably and unchecked.
    ///
    /// # Safety
    /// The key must have a value.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab = Slab::new();
    /// let key = slab.insert(2);
    /// // SAFETY: just inserted.
    /// unsafe { *slab.get_unchecked_mut(key) = 13 }
    /// assert_eq!(slab[key], 13);
    /// ```
    #[inline]
    pub unsafe fn get_unchecked_mut(&mut self, key: usize) -> &mut T {
        // SAFETY: passed on.
        unsafe { &mut *self.table.occupied_unchecked(key).value() }
    }

    /// Returns two values at once, mutably and unchecked.
    ///
    /// # Safety
    /// Both keys must have values and must differ.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab = Slab::new();
    /// let [a, b] = slab.insert_array([1, 2]);
    /// // SAFETY: just inserted.
    /// let (x, y) = unsafe { slab.get2_unchecked_mut(a, b) };
    /// std::mem::swap(x, y);
    /// assert_eq!((slab[a], slab[b]), (2, 1));
    /// ```
    #[inline]
    pub unsafe fn get2_unchecked_mut(&mut self, key1: usize, key2: usize) -> (&mut T, &mut T) {
        debug_assert_ne!(key1, key2);
        // SAFETY: passed on.
        unsafe {
            let (place1, place2) =
                (self.table.occupied_unchecked(key1), self.table.occupied_unchecked(key2));
            (&mut *place1.value(), &mut *place2.value())
        }
    }

    /// Returns the key of a value, given a reference to it. O(pages).
    ///
    /// # Panics
    /// If the reference is not to a value in this slab.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab = Slab::new();
    /// let key = slab.insert(String::from("hello"));
    /// let value = &slab[key];
    /// assert_eq!(slab.key_of(value), key);
    /// ```
    #[track_caller]
    pub fn key_of(&self, present_element: &T) -> usize {
        match self.table.key_at(present_element) {
            Some(key) => key,
            None => panic!("The reference points to a value outside this slab"),
        }
    }

    /// Whether a key has a value. O(1).
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab = Slab::new();
    /// let hello = slab.insert("hello");
    /// assert!(slab.contains(hello));
    /// slab.remove(hello);
    /// assert!(!slab.contains(hello));
    /// ```
    #[inline]
    pub fn contains(&self, key: usize) -> bool {
        self.table.occupied(key).is_some()
    }

    /// Iterates over keys and values in ascending order of the keys. O(n + capacity / 8) in all.
    ///
    /// ```
    /// # use masu::Slab;
    /// let slab: Slab<_> = [(0, 'a'), (2, 'c')].into_iter().collect();
    /// assert_eq!(slab.iter().collect::<Vec<_>>(), [(0, &'a'), (2, &'c')]);
    /// ```
    pub fn iter(&self) -> Iter<'_, T> {
        Iter::new(&self.table)
    }

    /// Iterates over keys and mutable values, in ascending order of the keys.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab: Slab<_> = (0..3).map(|i| (i, i)).collect();
    /// for (key, value) in slab.iter_mut() {
    ///     *value += key;
    /// }
    /// assert_eq!(slab[2], 4);
    /// ```
    pub fn iter_mut(&mut self) -> IterMut<'_, T> {
        IterMut::new(&mut self.table)
    }
}

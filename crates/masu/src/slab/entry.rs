//! A vacant slot about to be filled.

use super::table::Table;
use core::fmt;

/// The slot of the next insertion: see [`Slab::vacant_entry`](super::Slab::vacant_entry). Dropping
/// it unused has no effect.
///
/// ```
/// use masu::Slab;
///
/// let mut slab = Slab::new();
/// let entry = slab.vacant_entry();
/// let node = (entry.key(), "knows its key");
/// entry.insert(node);
/// assert_eq!(slab[0].0, 0);
/// ```
///
/// While it exists, the slab cannot be used in any other way:
///
/// ```compile_fail,E0502
/// # let mut slab = masu::Slab::new();
/// let entry = slab.vacant_entry();
/// assert!(slab.is_empty());
/// entry.insert(1);
/// ```
pub struct VacantEntry<'a, T> {
    table: &'a mut Table<T, ()>,
}

impl<'a, T> VacantEntry<'a, T> {
    pub(super) fn new(table: &'a mut Table<T, ()>) -> Self {
        VacantEntry { table }
    }

    /// Returns the key that the value will have.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab: Slab<i32> = Slab::new();
    /// assert_eq!(slab.vacant_entry().key(), 0);
    /// ```
    #[inline]
    pub fn key(&self) -> usize {
        self.table.next()
    }

    /// Inserts the value.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab = Slab::new();
    /// let entry = slab.vacant_entry();
    /// let key = entry.key();
    /// *entry.insert(1) += 1;
    /// assert_eq!(slab[key], 2);
    /// ```
    #[inline]
    pub fn insert(self, value: T) -> &'a mut T {
        let (_, place) = self.table.insert(value);
        // SAFETY: invariants 1 and 9 of `slab::table`: occupied now, and borrowed with the slab.
        unsafe { &mut *place.value() }
    }

    /// Lets `init` build the value in its slot, so that nothing is copied. If `init` panics, the
    /// slot stays vacant.
    ///
    /// # Safety
    /// `init` must leave a valid `T` in the memory at its argument, which is uninitialised, valid
    /// for writes and aligned for `T`.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab: Slab<[u8; 4096]> = Slab::new();
    /// // SAFETY: all of it is written.
    /// let value = unsafe { slab.vacant_entry().insert_in_place(|p| p.write_bytes(7, 1)) };
    /// assert_eq!(value[4095], 7);
    /// ```
    #[inline]
    pub unsafe fn insert_in_place(self, init: impl FnOnce(*mut T)) -> &'a mut T {
        let place = self.table.claim();
        let value = place.value();
        init(value);
        // SAFETY: as the caller says, `init` has built a value; invariants 2 and 9 of `slab::table`: the slot is
        // still the claimed one, since `init` could not reach the table. If it had panicked, the slot would still be
        // vacant.
        unsafe {
            self.table.commit(&place);
            &mut *value
        }
    }
}

impl<T> fmt::Debug for VacantEntry<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VacantEntry").field("key", &self.key()).finish()
    }
}

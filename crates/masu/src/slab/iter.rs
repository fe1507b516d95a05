//! The iterators of a [`Slab`].

use super::change::Slab;
use super::cursor::Cursor;
use super::table::{Place, Table};
use core::fmt;
use core::iter::FusedIterator;
use core::marker::PhantomData;
use core::mem;

/// Keys and values of a slab: see [`Slab::iter`].
///
/// ```
/// # use masu::Slab;
/// let slab: Slab<_> = [(0, 'a'), (3, 'b')].into_iter().collect();
/// assert_eq!(slab.iter().rev().collect::<Vec<_>>(), [(3, &'b'), (0, &'a')]);
/// ```
pub struct Iter<'a, T> {
    table: &'a Table<T, ()>,
    cursor: Cursor,
}

/// Keys and mutable values of a slab: see [`Slab::iter_mut`].
///
/// ```
/// # use masu::Slab;
/// let mut slab: Slab<_> = [(0, 1), (3, 2)].into_iter().collect();
/// for (key, value) in &mut slab {
///     *value += key;
/// }
/// assert_eq!((slab[0], slab[3]), (1, 5));
/// ```
pub struct IterMut<'a, T> {
    /// Only a shared borrow of the lookup structure, but an exclusive one of the values.
    table: &'a Table<T, ()>,
    cursor: Cursor,
    values: PhantomData<&'a mut T>,
}

/// Keys and values of a consumed slab.
///
/// ```
/// # use masu::Slab;
/// let slab: Slab<_> = [(0, 'a'), (3, 'b')].into_iter().collect();
/// assert_eq!(slab.into_iter().collect::<Vec<_>>(), [(0, 'a'), (3, 'b')]);
/// ```
pub struct IntoIter<T> {
    table: Table<T, ()>,
    cursor: Cursor,
}

/// The values of a slab being emptied: see [`Slab::drain`].
///
/// ```
/// # use masu::Slab;
/// let mut slab: Slab<_> = [(0, 'a'), (3, 'b')].into_iter().collect();
/// assert_eq!(slab.drain().next(), Some('a')); // and drops the rest
/// assert!(slab.is_empty());
/// ```
pub struct Drain<'a, T> {
    slab: &'a mut Slab<T>,
    values: IntoIter<T>,
}

impl<'a, T> Iter<'a, T> {
    pub(super) fn new(table: &'a Table<T, ()>) -> Self {
        Iter { table, cursor: Cursor::new(table) }
    }
}

impl<'a, T> IterMut<'a, T> {
    pub(super) fn new(table: &'a mut Table<T, ()>) -> Self {
        IterMut { cursor: Cursor::new(table), table, values: PhantomData }
    }
}

impl<T> IntoIter<T> {
    pub(super) fn new(table: Table<T, ()>) -> Self {
        IntoIter { cursor: Cursor::new(&table), table }
    }

    /// Takes out the value that the cursor has found.
    ///
    /// # Safety
    /// `found` must be the last result of a step of the cursor.
    unsafe fn take(&mut self, found: Option<(usize, Place<T, ()>)>) -> Option<(usize, T)> {
        let (key, place) = found?;
        // SAFETY: as the caller says, occupied; invariant 1 of `slab::table`: it is lost here, so it is read once and
        // not dropped later.
        unsafe {
            self.table.lose(&place);
            Some((key, place.value().read()))
        }
    }
}

impl<'a, T> Drain<'a, T> {
    pub(super) fn new(slab: &'a mut Slab<T>) -> Self {
        let table = mem::replace(&mut slab.table, Table::new(()));
        Drain { slab, values: IntoIter::new(table) }
    }
}

impl<T> Drop for Drain<'_, T> {
    fn drop(&mut self) {
        struct GiveBack<'a, 'b, T>(&'a mut Drain<'b, T>);
        impl<T> Drop for GiveBack<'_, '_, T> {
            fn drop(&mut self) {
                mem::swap(&mut self.0.slab.table, &mut self.0.values.table);
            }
        }
        // Also when a value's drop panics; all others have then been dropped nonetheless.
        let give_back = GiveBack(self);
        give_back.0.values.table.clear();
    }
}

impl<T> Clone for Iter<'_, T> {
    fn clone(&self) -> Self {
        Iter { table: self.table, cursor: self.cursor.clone() }
    }
}

macro_rules! both_ends {
    ($type:ty, $item:ty, [$($generics:tt)*], |$self:ident, $step:ident| $item_of:expr) => {
        impl<$($generics)*> Iterator for $type {
            type Item = $item;

            #[inline]
            fn next(&mut self) -> Option<$item> {
                let $self = self;
                let $step = Cursor::next;
                $item_of
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                (self.len(), Some(self.len()))
            }
        }

        impl<$($generics)*> DoubleEndedIterator for $type {
            #[inline]
            fn next_back(&mut self) -> Option<$item> {
                let $self = self;
                let $step = Cursor::next_back;
                $item_of
            }
        }

        impl<$($generics)*> ExactSizeIterator for $type {
            fn len(&self) -> usize {
                self.cursor().remaining()
            }
        }

        impl<$($generics)*> FusedIterator for $type {}
    };
}

impl<T> Iter<'_, T> {
    fn cursor(&self) -> &Cursor {
        &self.cursor
    }
}

impl<T> IterMut<'_, T> {
    fn cursor(&self) -> &Cursor {
        &self.cursor
    }
}

impl<T> IntoIter<T> {
    fn cursor(&self) -> &Cursor {
        &self.cursor
    }
}

impl<T> Drain<'_, T> {
    fn cursor(&self) -> &Cursor {
        &self.values.cursor
    }
}

both_ends!(Iter<'a, T>, (usize, &'a T), ['a, T], |this, step| {
    // SAFETY: invariant 1 of `slab::cursor`, and invariant 9 of `slab::table`: occupied, and borrowed with the slab.
    unsafe {
        let (key, place) = step(&mut this.cursor, this.table)?;
        Some((key, &*place.value()))
    }
});

both_ends!(IterMut<'a, T>, (usize, &'a mut T), ['a, T], |this, step| {
    // SAFETY: invariants 1 and 2 of `slab::cursor`, and invariant 9 of `slab::table`: occupied, yielded once, and
    // borrowed exclusively with the slab.
    unsafe {
        let (key, place) = step(&mut this.cursor, this.table)?;
        Some((key, &mut *place.value()))
    }
});

both_ends!(IntoIter<T>, (usize, T), [T], |this, step| {
    // SAFETY: invariant 1 of `slab::cursor`: made for this table, whose values leave it only where the cursor has
    // passed.
    unsafe {
        let found = step(&mut this.cursor, &this.table);
        this.take(found)
    }
});

both_ends!(Drain<'_, T>, T, [T], |this, step| {
    let values = &mut this.values;
    // SAFETY: invariant 1 of `slab::cursor`: made for this table, whose values leave it only where the cursor has
    // passed.
    unsafe {
        let found = step(&mut values.cursor, &values.table);
        values.take(found).map(|(_, value)| value)
    }
});

macro_rules! debug_remaining {
    ($name:literal, $type:ty) => {
        impl<T: fmt::Debug> fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct($name).field("remaining", &self.cursor().remaining()).finish()
            }
        }
    };
}

debug_remaining!("Iter", Iter<'_, T>);
debug_remaining!("IterMut", IterMut<'_, T>);
debug_remaining!("IntoIter", IntoIter<T>);

impl<T> fmt::Debug for Drain<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain").finish()
    }
}

// SAFETY: invariant 2 of `slab::cursor`: like `&mut [T]`, it yields each `&mut T` once, and nothing else.
unsafe impl<T: Send> Send for IterMut<'_, T> {}
// SAFETY: invariant 2 of `slab::cursor`: `&IterMut` gives access only to the number of values left.
unsafe impl<T: Sync> Sync for IterMut<'_, T> {}

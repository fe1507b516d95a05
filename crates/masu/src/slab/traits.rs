//! The standard library's traits for a [`Slab`].

use super::change::{Slab, invalid_key};
use super::iter::{IntoIter, Iter, IterMut};
use super::table::Table;
use core::fmt;
use core::mem;
use core::ops::{Index, IndexMut};

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab::new()
    }
}

impl<T: Clone> Clone for Slab<T> {
    /// Copies the values under the same keys; the same vacant keys will be reused in the same
    /// order.
    fn clone(&self) -> Self {
        let mut slab = Slab::new();
        slab.clone_from(self);
        slab.set_automatic_release(self.table.releases);
        slab
    }

    /// Uses the existing pages if they suffice.
    fn clone_from(&mut self, source: &Self) {
        self.table.copy_from(&source.table, T::clone);
    }
}

impl<T: fmt::Debug> fmt::Debug for Slab<T> {
    /// Shows length and capacity; with `{:#?}`, keys and values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            f.debug_map().entries(self.iter()).finish()
        } else {
            f.debug_struct("Slab").field("len", &self.len()).field("cap", &self.capacity()).finish()
        }
    }
}

impl<T> Index<usize> for Slab<T> {
    type Output = T;

    #[inline]
    #[track_caller]
    fn index(&self, key: usize) -> &T {
        match self.get(key) {
            Some(value) => value,
            None => invalid_key(),
        }
    }
}

impl<T> IndexMut<usize> for Slab<T> {
    #[inline]
    #[track_caller]
    fn index_mut(&mut self, key: usize) -> &mut T {
        match self.get_mut(key) {
            Some(value) => value,
            None => invalid_key(),
        }
    }
}

impl<T> IntoIterator for Slab<T> {
    type Item = (usize, T);
    type IntoIter = IntoIter<T>;

    fn into_iter(mut self) -> IntoIter<T> {
        IntoIter::new(mem::replace(&mut self.table, Table::new(())))
    }
}

impl<'a, T> IntoIterator for &'a Slab<T> {
    type Item = (usize, &'a T);
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut Slab<T> {
    type Item = (usize, &'a mut T);
    type IntoIter = IterMut<'a, T>;

    fn into_iter(self) -> IterMut<'a, T> {
        self.iter_mut()
    }
}

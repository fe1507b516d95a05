//! Automatic release of pages, where it is turned on.
//!
//! A page goes back when a removal leaves fewer values than `release_below`. That is half of what
//! the table held when its youngest page was needed, and after each release half of what it holds
//! then. So half of the values are removed between the arrival of a page and its release, and a
//! table whose length goes up and down within a factor of two keeps its pages. Page 0 stays.
//!
//! A release costs O(capacity), but there are only as many releases as the length can be halved.

use super::change::Slab;
use super::table::{Table, unlikely};

impl<T, X: Copy> Table<T, X> {
    /// Must be called after a removal.
    #[inline(always)]
    pub(super) fn removed(&mut self) {
        if self.above < 0 {
            unlikely();
            self.aside(Self::release_some);
        }
    }

    /// Must be called when a page other than the first was needed.
    pub(super) fn page_came(&mut self) {
        if self.releases {
            self.set_release_below(self.len().div_ceil(2));
        }
    }

    pub(super) fn set_releases(&mut self, releases: bool) {
        self.releases = releases;
        let halved = self.len().div_ceil(2);
        self.set_release_below(if releases && !self.later.is_empty() { halved } else { 0 });
    }

    #[cold]
    #[inline(never)]
    fn release_some(&mut self) {
        self.release_pages(1);
        self.set_release_below(if self.later.is_empty() { 0 } else { self.len().div_ceil(2) });
    }
}

impl<T> Slab<T> {
    /// Whether pages without values go back automatically, as [`Slab::release_empty_pages`] would
    /// give them back. Off at first: existing capacity stays, as in the `slab` crate.
    ///
    /// They go back when a removal halves the number of values: it leaves fewer than half as many
    /// as there were when the last page was needed, or when pages last went back. A slab whose
    /// length goes up and down within a factor of two keeps its pages; an emptied slab keeps the
    /// first. A page that was reserved and never used also counts as one without values.
    ///
    /// The removal that gives pages back is O(capacity); all others cost the same as usual.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab = Slab::with_capacity(100);
    /// slab.set_automatic_release(true);
    /// let keys: Vec<_> = (0..800).map(|i| slab.insert(i)).collect();
    /// assert_eq!(slab.capacity(), 800);
    /// for key in keys.into_iter().rev() {
    ///     slab.remove(key);
    /// }
    /// assert_eq!(slab.capacity(), 100);
    /// ```
    pub fn set_automatic_release(&mut self, automatic: bool) {
        self.table.set_releases(automatic);
    }
}

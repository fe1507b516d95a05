//! Slabs made from pairs of key and value.

use super::change::Slab;

/// Puts values under given keys.
pub(super) struct Builder<T> {
    slab: Slab<T>,
    /// A hole was filled, so the list of vacant keys is broken.
    broken: bool,
}

impl<T> Builder<T> {
    pub fn with_capacity(capacity: usize) -> Self {
        Builder { slab: Slab::with_capacity(capacity), broken: false }
    }

    /// A later value replaces an earlier one under the same key.
    pub fn pair(&mut self, key: usize, value: T) {
        let table = &mut self.slab.table;
        if let Some(place) = table.occupied(key) {
            // SAFETY: invariants 1 and 9 of `slab::table`: occupied, and the slab is this builder's alone.
            unsafe { *place.value() = value };
            return;
        }
        self.broken |= table.locate(key).is_some();
        table.insert_at(key, value);
    }

    /// Skipped keys are vacant: the highest first if the pairs came in ascending order, otherwise
    /// the lowest first.
    pub fn build(mut self) -> Slab<T> {
        if self.broken {
            self.slab.table.rebuild_vacancies();
        } else {
            self.slab.table.chain_vacancies();
        }
        self.slab
    }
}

impl<T> FromIterator<(usize, T)> for Slab<T> {
    /// Puts each value under its key; if a key occurs twice, the last value counts. Takes memory
    /// for as many values as the highest key requires.
    fn from_iter<I: IntoIterator<Item = (usize, T)>>(pairs: I) -> Self {
        let pairs = pairs.into_iter();
        let mut builder = Builder::with_capacity(pairs.size_hint().0);
        for (key, value) in pairs {
            builder.pair(key, value);
        }
        builder.build()
    }
}

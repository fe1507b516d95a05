//! [`Slab`]: its capacity, and how to give memory back.

use super::change::Slab;

impl<T> Slab<T> {
    /// Returns the number of values for which there are keys without another page. Every key is
    /// below it.
    ///
    /// ```
    /// # use masu::Slab;
    /// let slab: Slab<i32> = Slab::with_capacity(10);
    /// assert_eq!(slab.capacity(), 10);
    /// ```
    pub fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// Makes room for `additional` more values, so that inserting them allocates nothing. Pages
    /// double, so this may reserve up to twice the requested room.
    ///
    /// # Panics
    /// With `capacity overflow` if what it would reserve is more than 2³² − 2 values or `isize::MAX` bytes.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab = Slab::new();
    /// slab.insert("hello");
    /// slab.reserve(1000);
    /// assert!(slab.capacity() >= 1001);
    /// ```
    pub fn reserve(&mut self, additional: usize) {
        let Some(slots) = self.len().checked_add(additional) else { panic!("capacity overflow") };
        self.table.reserve_total(slots);
    }

    /// Like [`Slab::reserve`]. In a slab that has not been used so far the room is exact; later
    /// pages come only in their fixed sizes, because nothing may move.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab: Slab<i32> = Slab::new();
    /// slab.reserve_exact(10);
    /// assert_eq!(slab.capacity(), 10);
    /// ```
    pub fn reserve_exact(&mut self, additional: usize) {
        self.reserve(additional);
    }

    /// Cuts off the capacity beyond the last value and gives back the pages that lie wholly beyond
    /// it. Nothing moves. O(capacity) if there is anything to cut off.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab = Slab::with_capacity(10);
    /// for i in 0..3 {
    ///     slab.insert(i);
    /// }
    /// slab.shrink_to_fit();
    /// assert!(slab.capacity() >= 3 && slab.capacity() < 10);
    /// ```
    pub fn shrink_to_fit(&mut self) {
        self.table.shrink_to_fit();
    }

    /// Gives back the memory of all pages without values, including those in the middle, and
    /// returns how many there were. Keys and addresses of values do not change; the keys of a
    /// released page are used again when no other key is vacant. O(capacity / 8), and O(capacity)
    /// if there is such a page.
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab = Slab::with_capacity(64);
    /// for i in 0..256 {
    ///     slab.insert(i);
    /// }
    /// slab.retain(|_, &mut i| i == 200);
    /// assert_eq!(slab.release_empty_pages(), 2); // keys 0..64 and 64..128
    /// assert_eq!(slab[200], 200);
    /// assert_eq!(slab.insert(7), 128);
    /// ```
    pub fn release_empty_pages(&mut self) -> usize {
        self.table.release_empty_pages()
    }

    /// Moves values from the highest keys to the lowest vacant ones, then shrinks.
    ///
    /// `rekey` is called with the value, its old key and its new one before each move. If it
    /// returns `false`, the value stays and the work ends. **This is the one method that changes
    /// addresses.** If `rekey` panics, the value passed to it is dropped. O(capacity).
    ///
    /// ```
    /// # use masu::Slab;
    /// let mut slab = Slab::with_capacity(10);
    /// let a = slab.insert('a');
    /// slab.insert('b');
    /// slab.insert('c');
    /// slab.remove(a);
    /// slab.compact(|&mut value, from, to| {
    ///     assert_eq!((value, from, to), ('c', 2, 0));
    ///     true
    /// });
    /// assert_eq!(slab[0], 'c');
    /// assert!(slab.capacity() >= 2 && slab.capacity() < 10);
    /// ```
    pub fn compact(&mut self, rekey: impl FnMut(&mut T, usize, usize) -> bool) {
        self.table.compact(rekey);
    }
}

//! [`Slab`]: its capacity, and how to give memory back.

use super::change::Slab;

impl<T> Slab<T> {
    /// The number of values for which there are keys without another page. Every key is below it.
    ///
    /// ```
    /// # use masu::Slab;
    /// let slab: Slab<i32> = Slab::with_capacity(10);
    /// assert_eq!(slab.capacity(), 10);
    /// ```
    pub fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// Makes room for `additional` further values, so that inserting them allocates nothing. Pages
    /// double, so this may reserve up to twice what is asked.
    ///
    /// # Panics
    /// With `capacity overflow` when that is more than 2³² − 2 values or `isize::MAX` bytes.
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

    /// As [`Slab::reserve`]. The room is exactly what is asked for in a slab that has not been used
    /// yet; later pages only come in their sizes, as nothing may move.
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

    /// Cuts off the capacity behind the last value and gives those pages back that lie wholly
    /// behind it. Nothing moves. O(capacity) if there is something to cut off.
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

    /// Gives the memory of all pages back that hold no value, those in the middle included, and
    /// returns how many there were. Keys and addresses of values stay as they are; the keys of a
    /// released page come up again when no other key is vacant. O(capacity / 8), and O(capacity)
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
    /// `rekey` is called with the value, its old key and its new one before each move. When it
    /// returns `false`, the value stays and the work ends. **This is the one method that changes
    /// addresses.** If `rekey` panics, the value it was looking at is dropped. O(capacity).
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

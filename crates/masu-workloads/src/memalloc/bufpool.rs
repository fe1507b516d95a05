//! The buffer pool of the published measurement, as far as it was measured.
//!
//! Buffers lie in one vector and are named by index; free ones are a list in it. A lease gives its
//! buffer back when it is dropped. Growing moves all buffers, which is why a reference into one
//! could dangle in the original; here a lease gives only its buffer's index, and whoever wants to
//! see a buffer asks the pool for its address at that moment.

use std::cell::UnsafeCell;

/// A pool of buffers that `make` makes.
pub struct Bufpool<B> {
    make: fn() -> B,
    inner: UnsafeCell<Inner<B>>,
}

struct Inner<B> {
    entries: Vec<Entry<B>>,
    free: usize,
}

struct Entry<B> {
    buffer: B,
    next: usize,
}

/// No further entry.
const NONE: usize = usize::MAX;

/// A buffer in use.
pub struct Lease<'p, B> {
    pool: &'p Bufpool<B>,
    index: usize,
}

impl<B> Bufpool<B> {
    /// A pool without buffers.
    pub fn new(make: fn() -> B) -> Self {
        Bufpool { make, inner: UnsafeCell::new(Inner { entries: Vec::new(), free: NONE }) }
    }

    /// A free buffer, or a new one.
    pub fn lease(&self) -> Lease<'_, B> {
        // SAFETY: the pool belongs to one thread, and no reference into it leaves a method.
        let inner = unsafe { &mut *self.inner.get() };
        let index = inner.free;
        if let Some(entry) = inner.entries.get(index) {
            inner.free = entry.next;
            return Lease { pool: self, index };
        }
        let index = inner.entries.len();
        inner.entries.push(Entry { buffer: (self.make)(), next: NONE });
        Lease { pool: self, index }
    }
}

impl<B> Lease<'_, B> {
    /// Where the buffer is until the next lease.
    pub fn address(&self) -> *mut B {
        // SAFETY: as in `lease`; a leased index is in range.
        unsafe { &raw mut (&mut *self.pool.inner.get()).entries[self.index].buffer }
    }
}

impl<B> Drop for Lease<'_, B> {
    fn drop(&mut self) {
        // SAFETY: as in `lease`.
        let inner = unsafe { &mut *self.pool.inner.get() };
        inner.entries[self.index].next = inner.free;
        inner.free = self.index;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_that_came_back_last_is_leased_first() {
        let pool = Bufpool::new(|| 7u64);
        let (a, b) = (pool.lease(), pool.lease());
        assert_eq!((a.index, b.index), (0, 1));
        // SAFETY: no lease came in between.
        assert_eq!(unsafe { *a.address() }, 7);
        drop(a);
        drop(b);
        let (first, second, third) = (pool.lease(), pool.lease(), pool.lease());
        assert_eq!((first.index, second.index, third.index), (1, 0, 2));
    }
}

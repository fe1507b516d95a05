//! Extents: what a hook has given, or a split or a join has made of it, as the chunks in it tell.

use super::chunk::Chunk;
use super::hooks::Extent;
use super::map;
use crate::region::CHUNK;

impl Chunk {
    /// The chunk that lies right behind it, if it belongs to the same heap.
    #[cold]
    #[inline(never)]
    pub fn after(&self) -> Option<&'static Chunk> {
        map::find(self.at.get() + CHUNK).filter(|next| next.heap() == self.heap())
    }

    /// The chunk that lies right before it, if it belongs to the same heap.
    #[cold]
    #[inline(never)]
    pub fn before(&self) -> Option<&'static Chunk> {
        let at = self.at.get().checked_sub(CHUNK)?;
        map::find(at).filter(|before| before.heap() == self.heap())
    }

    /// The next chunk of its extent.
    pub fn next_of_extent(&self) -> Option<&'static Chunk> {
        self.after().filter(|next| !next.starts.get())
    }

    /// The first chunk of its extent, and how many there are. O(chunks of it).
    #[cold]
    #[inline(never)]
    pub fn whole_extent(&'static self) -> (&'static Chunk, usize) {
        let mut first = self;
        while let Some(before) = first.before().filter(|_| !first.starts.get()) {
            first = before;
        }
        let (mut n, mut last) = (1, first);
        while let Some(next) = last.next_of_extent() {
            last = next;
            n += 1;
        }
        (first, n)
    }

    /// The extent that it lies in. O(chunks of it).
    #[cold]
    #[inline(never)]
    pub fn extent(&'static self) -> Extent {
        let (first, n) = self.whole_extent();
        Extent { at: first.at.get(), size: n * CHUNK }
    }
}

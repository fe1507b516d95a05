//! What is asked of hook memory, and what is taken for it.

use super::chunk::Chunk;
use crate::region::CHUNK;
use crate::run::UNITS;
use crate::size_class::UNIT;

/// What is asked for.
#[derive(Clone, Copy)]
pub enum Want {
    /// A span of small blocks.
    Span,
    /// So many pages at a multiple of so many.
    Pages(usize, usize),
    /// A huge block of so many bytes at a multiple of so many.
    Huge(usize, usize),
}

impl Want {
    /// Chunks to ask a hook for, and their alignment in bytes.
    pub fn chunks(self) -> (usize, usize) {
        match self {
            Want::Huge(bytes, align) => (bytes.div_ceil(CHUNK), align.max(CHUNK)),
            _ => (1, CHUNK),
        }
    }
}

/// Pages taken: `n` of a chunk from `first` on, or all of `n / UNITS` chunks.
#[derive(Clone, Copy)]
pub struct Run {
    pub chunk: &'static Chunk,
    pub first: usize,
    pub n: usize,
    /// Whether it reads as zeroes, at the latest when it is committed.
    pub zero: bool,
    /// Whether some of it must be committed.
    pub decommitted: bool,
}

impl Run {
    /// Its address.
    pub fn at(&self) -> usize {
        self.chunk.at.get() + self.first * UNIT
    }

    /// Its chunks, and the first page and the number of pages in each.
    pub fn parts(self) -> impl Iterator<Item = (&'static Chunk, usize, usize)> {
        let mut at = Some(self.chunk);
        let mut left = self.n;
        core::iter::from_fn(move || {
            let chunk = at.filter(|_| left != 0)?;
            let n = left.min(UNITS - self.first);
            left -= n;
            at = if left == 0 { None } else { chunk.after() };
            Some((chunk, self.first, n))
        })
    }
}

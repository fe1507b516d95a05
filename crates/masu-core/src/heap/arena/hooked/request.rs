//! What is requested of hook memory, and what is taken for it.

use super::chunk::Chunk;
use crate::region::CHUNK;
use crate::run::UNITS;
use crate::size_class::UNIT;

/// What is requested.
#[derive(Clone, Copy)]
pub enum Want {
    /// A span of small blocks.
    Span,
    /// Pages: how many, and at a multiple of how many.
    Pages(usize, usize),
    /// A huge block: how many bytes, and at a multiple of how many.
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
    /// Whether they read as zeroes, at the latest when they are committed.
    pub zero: bool,
    /// Whether some of them must be committed.
    pub decommitted: bool,
}

impl Run {
    /// Their address.
    pub fn at(&self) -> usize {
        self.chunk.at.get() + self.first * UNIT
    }

    /// Their chunks, and the first page and the number of pages in each.
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

//! A table that lies at a fixed distance below the window and is mapped up to what is needed.

use crate::ledger::TABLES;
use crate::sync::{AtomicUsize, Ordering};
use crate::sys::{Errno, auxv, mem};

/// First piece of a table in bytes: one page of the largest page size, or one page if addresses are
/// scarce.
const FIRST: usize = 64 << 10;
/// Largest piece.
const LARGEST: usize = 4 << 20;

/// One table. All calls happen under the region's lock.
pub struct Table {
    below: usize,
    stride: usize,
    mapped: AtomicUsize,
}

impl Table {
    /// A table of `stride`-byte entries that starts `below` bytes below the base.
    pub const fn new(below: usize, stride: usize) -> Self {
        Table { below, stride, mapped: AtomicUsize::new(0) }
    }

    /// Maps at least the first `entries` entries.
    ///
    /// # Errors
    /// The kernel's reason; what was mapped before stays.
    #[inline(never)]
    pub fn ensure(&self, base: usize, entries: usize) -> Result<(), Errno> {
        let need = entries * self.stride;
        let mapped = self.mapped.load(Ordering::Relaxed);
        if need <= mapped {
            return Ok(());
        }
        // Grow by the present length, so that a large table takes few mappings; the kernel merges
        // them.
        let first = if super::is_scarce() { auxv::page_size() } else { FIRST };
        let step = mapped.clamp(first, LARGEST).max((need - mapped).next_multiple_of(first));
        mem::map_at(base - self.below + mapped, step)?;
        self.mapped.store(mapped + step, Ordering::Relaxed);
        TABLES.fetch_add(step, Ordering::Relaxed);
        Ok(())
    }

    /// Unmaps everything, if the base turns out to be unusable.
    pub fn drop_all(&self, base: usize) {
        let mapped = self.mapped.swap(0, Ordering::Relaxed);
        if mapped != 0 {
            mem::unmap(base - self.below, mapped);
            TABLES.fetch_sub(mapped, Ordering::Relaxed);
        }
    }

    /// Bytes mapped so far.
    pub fn mapped_bytes(&self) -> usize {
        self.mapped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;

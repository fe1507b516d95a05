//! What pools hold.

use super::Pool;
use crate::hardened::shape::{self, EMPTY};

/// What the heap, or a part of it, takes, in bytes.
#[derive(Default)]
pub struct Usage {
    /// In live blocks.
    pub live: usize,
    /// In slabs with taken slots, and in the pages of large blocks.
    pub resident: usize,
    /// Of addresses that are accessible, without metadata.
    pub mapped: usize,
    /// Slabs with taken slots.
    pub slabs: usize,
}

impl Usage {
    /// Adds what a pool has, unless a fork stands still.
    #[inline(never)]
    pub fn add(&mut self, pool: &'static Pool, class: usize) {
        let Some(pool) = pool.enter(class) else { return };
        let live = pool.inner.taken - pool.inner.quarantined;
        let in_use = pool.inner.resident - pool.inner.empty_count as usize;
        let in_use = if class == EMPTY { 0 } else { in_use };
        self.live += live * shape::room(class);
        self.resident += in_use * pool.shape.slab();
        self.slabs += in_use;
    }
}

//! What a pool holds.

use super::Locked;
use crate::hardened::shape::{self, EMPTY};

/// The same, in bytes.
#[derive(Default)]
pub struct Usage {
    /// In slots that the program has, or that threads have in their caches.
    pub live: usize,
    /// In slabs with taken slots.
    pub resident: usize,
    /// Such slabs.
    pub slabs: usize,
}

impl Locked<'_> {
    /// What the pool holds.
    pub fn usage(&self) -> Usage {
        let live = self.inner.taken - self.inner.quarantined;
        let in_use = self.inner.resident - self.inner.empty_count as usize;
        let in_use = if self.class == EMPTY { 0 } else { in_use };
        let resident = in_use * self.shape.slab();
        Usage { live: live * shape::room(self.class), resident, slabs: in_use }
    }
}

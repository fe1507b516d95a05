//! Slots that threads have given back, and that the next threads draw before those of slabs. They stay taken, so that
//! neither thread touches their slabs' metadata; they count as slots in quarantine, and [`Locked::purge`] gives them
//! back.

use super::Locked;
use crate::hardened::slab::Drawn;

/// Most of them, and most bytes in them.
const MOST: usize = 64;
const MOST_BYTES: usize = 8 << 10;

/// The slots of a pool. All zero: none.
pub struct AtHand {
    blocks: [u32; MOST],
    len: u32,
}

impl AtHand {
    /// Forgets them.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    #[inline]
    fn len(&self) -> usize {
        self.len as usize % (MOST + 1)
    }
}

impl Locked<'_> {
    /// Keeps a slot. Returns `false` if there is no room.
    #[inline]
    pub(super) fn keep_at_hand(&mut self, block: u32) -> bool {
        let at_hand = &mut self.inner.at_hand;
        let len = at_hand.len();
        if len >= MOST_BYTES / (self.shape.stride.max(1) as usize) {
            return false;
        }
        let Some(place) = at_hand.blocks.get_mut(len) else { return false };
        *place = block;
        at_hand.len += 1;
        self.inner.quarantined += 1;
        true
    }

    /// Draws as many as there are and as are wanted. Returns how many.
    #[inline]
    pub(super) fn draw_at_hand(&mut self, to: &mut [Drawn]) -> usize {
        let mut drawn = 0;
        for entry in to {
            let Some(block) = self.take_at_hand() else { break };
            *entry = Drawn::used(self.pool.address(block >> 8, block as usize & 0xff, self.shape));
            drawn += 1;
        }
        drawn
    }

    /// One of them, at random.
    #[inline]
    fn take_at_hand(&mut self) -> Option<u32> {
        let at_hand = &mut self.inner.at_hand;
        let last = at_hand.len().checked_sub(1)?;
        let place = self.inner.stream.below(last + 1) % MOST;
        let other = at_hand.blocks[last % MOST];
        let block = core::mem::replace(&mut at_hand.blocks[place], other);
        at_hand.len = last as u32;
        self.inner.quarantined -= 1;
        Some(block - 1)
    }

    /// Gives them back to their slabs.
    pub(super) fn give_back(&mut self) {
        while let Some(block) = self.take_at_hand() {
            self.free(block >> 8, block as usize & 0xff);
        }
    }
}

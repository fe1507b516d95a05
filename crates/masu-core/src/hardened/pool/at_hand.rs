//! Slots that threads have given back, and of pages those that come out of quarantine: they are drawn before those of
//! slabs. They stay taken, so that neither thread touches their slabs' metadata; they count as slots in quarantine, and
//! [`Locked::purge`] gives them back.

use super::Locked;
use crate::hardened::shape::MOST_AT_HAND as MOST;
use crate::hardened::slab::Drawn;
use crate::sync::Ordering;

/// Slots begin at multiples of this.
const UNIT_SHIFT: u32 = 4;

impl Locked<'_> {
    /// Keeps a slot that has waited. Returns `false` if there is no room.
    #[inline]
    pub fn keep_at_hand(&mut self, address: usize) -> bool {
        let start = self.pool.start.load(Ordering::Relaxed);
        let at_hand = &mut self.inner.at_hand;
        let len = at_hand.len;
        if len >= u32::from(self.shape.at_hand) {
            return false;
        }
        at_hand.slots[len as usize % MOST] = ((address - start) >> UNIT_SHIFT) as u32;
        at_hand.len = len + 1;
        self.inner.quarantined += 1;
        true
    }

    /// Draws as many as there are and as are wanted: neighbours here, at a random place. Returns how many.
    pub(super) fn draw_at_hand(&mut self, to: &mut [Drawn]) -> usize {
        let start = self.pool.start.load(Ordering::Relaxed);
        let at_hand = &mut self.inner.at_hand;
        let len = at_hand.len as usize;
        let count = to.len().min(len);
        if count == 0 {
            return 0;
        }
        let left = len - count;
        let first = self.inner.stream.below(left + 1);
        let place = |n: usize| n % MOST;
        for (n, to) in to.iter_mut().take(count).enumerate() {
            let slot = at_hand.slots[place(first + n)] as usize;
            *to = Drawn::used(start + (slot << UNIT_SHIFT));
        }
        // The last ones of the others take their places.
        let behind = left.max(first + count);
        for n in 0..len - behind {
            at_hand.slots[place(first + n)] = at_hand.slots[place(behind + n)];
        }
        at_hand.len = left as u32;
        self.inner.quarantined -= count;
        count
    }

    /// Gives them back to their slabs.
    pub(super) fn give_back(&mut self) {
        let mut slot = [Drawn::default()];
        while self.draw_at_hand(&mut slot) != 0 {
            // SAFETY: slots of this pool, whose lock is held.
            let spot = unsafe { self.pool.spot_of_slot(slot[0].get().0, self.class) };
            self.free(spot.index, spot.slot);
        }
    }
}

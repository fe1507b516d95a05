//! When dirty ranges go back to the kernel.

use super::map::renew;
use super::{Locked, UNIT_BYTES, Window, address, dirty_bytes, record};
use crate::lock::DISCARD;
use crate::sys::mem;

/// Gives a dirty range's pages back and makes it clean. The caller has taken the range out of the
/// lists. Returns `false` if the kernel refused.
pub fn clean(unit: u32) -> bool {
    let r = record(unit);
    let all = r.units.get() * UNIT_BYTES;
    // Whole units: the kernel may have made huge pages unasked.
    let dirty = r.dirty.get().next_multiple_of(UNIT_BYTES);
    // SAFETY: invariant 6 of `space`: the caller took it out of the lists.
    let discard = |bytes| unsafe { mem::discard(address(unit), bytes) };
    // A fresh mapping may be refused, for example beyond a limit that was lowered.
    let done = r.apart.get() == 0 && discard(dirty) || renew(unit, r.units.get()) || discard(all);
    if done {
        r.dirty.set(0);
        r.set_apart(0);
    }
    done
}

impl Locked {
    /// Makes the oldest dirty range a clean one. Returns `false` if there is none, or the kernel
    /// refused.
    fn clean_oldest(&self) -> bool {
        let Some(unit) = self.oldest_dirty() else { return false };
        self.remove_dirty(unit);
        let done = clean(unit);
        self.put_back(unit, done);
        done
    }

    /// Puts back a range on which [`clean`] was called.
    fn put_back(&self, unit: u32, done: bool) {
        if done {
            self.insert_clean(unit, record(unit).units.get());
        } else {
            self.insert_dirty(unit);
        }
    }

    /// Gives back the oldest kept ranges, until the others have at most `bytes` bytes.
    pub fn keep_at_most(&self, bytes: usize) {
        while dirty_bytes() > bytes && self.clean_oldest() {}
    }

    /// Gives back everything kept, including addresses kept without pages.
    pub fn discard_all(&self) {
        while self.clean_oldest() {}
    }
}

/// Unmaps all free ranges. Returns whether there were any.
pub fn unmap_free() -> bool {
    let Some(space) = Locked::enter() else { return false };
    space.discard_all();
    let any = space.strip_clean();
    let blocks = Window::Blocks;
    if let Some(unit) = space.take_last(blocks.end() as u32) {
        if record(unit).bare.get() {
            blocks.set_end(unit as usize);
        } else {
            space.insert_clean(unit, record(unit).units.get());
        }
    }
    any
}

/// Gives kept ranges back: all, or those freed before the last tick. Returns the bytes given back.
pub fn purge(all: bool) -> usize {
    let mut purged = 0;
    let mut left = usize::MAX;
    while left != 0 {
        let Some(_discard) = DISCARD.enter() else { break };
        let space = Locked::lock();
        left = left.min(space.dirty_count());
        let Some(oldest) = space.oldest_dirty() else { break };
        if !all && !record(oldest).tick.get().rested() {
            break;
        }
        left = left.saturating_sub(1);
        space.remove_dirty(oldest);
        drop(space);
        let bytes = record(oldest).dirty.get();
        let done = clean(oldest);
        purged += if done { bytes } else { 0 };
        Locked::lock().put_back(oldest, done);
    }
    purged
}

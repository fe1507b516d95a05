//! When dirty ranges go back to the kernel.

use super::locked::Locked;
use super::map::clean;
use super::ranges::dirty_bytes;
use super::record::record;
use super::window::Window;
use crate::lock::DISCARD;

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

//! A lock for each arena: eight arenas to a core, a cache of seven blocks of each class for each
//! thread, and behind that a list under the lock of the arena that a block came from. Blocks beyond
//! 1,032 bytes are not cached.

use super::super::machine::Line;
use super::super::what::What;
use super::{Binned, Bins, CLASSES, Caller, Slots, bins, block_size};

/// Blocks of a class that a thread keeps for itself, and the longest that it keeps.
const CACHE: usize = 7;
const LONGEST_CACHED: u32 = 1032;
/// Instructions for a block under the lock.
const EACH: u32 = 130;

struct One {
    lock: Line,
    bins: Bins,
}

/// See the module.
pub struct Arena {
    slots: Slots,
    arenas: Vec<One>,
    caches: Vec<Bins>,
}

impl Arena {
    pub fn new(threads: usize, cores: usize) -> Self {
        let arena = || One { lock: Line::of(What::ArenaLock), bins: bins() };
        Arena {
            slots: Slots::default(),
            arenas: (0..threads.min(8 * cores)).map(|_| arena()).collect(),
            caches: (0..threads).map(|_| vec![Vec::new(); CLASSES]).collect(),
        }
    }
}

/// Blocks that a thread keeps of a class.
fn kept(class: usize) -> usize {
    if block_size(class) <= LONGEST_CACHED { CACHE } else { 0 }
}

impl Binned for Arena {
    fn slots(&mut self) -> &mut Slots {
        &mut self.slots
    }

    fn bin(&mut self, thread: usize, class: usize) -> &mut Vec<u32> {
        &mut self.caches[thread][class]
    }

    /// While it has the lock, it takes what the cache holds at most.
    fn refill(&mut self, caller: &mut Caller<'_>, class: usize) {
        let home = caller.thread % self.arenas.len();
        let arena = &mut self.arenas[home];
        let since = caller.acquire(&mut arena.lock);
        if arena.bins[class].is_empty() {
            arena.bins[class].extend(self.slots.carve(class, home as u32).rev());
        }
        let count = arena.bins[class].len().min(kept(class).max(1));
        caller.execute(EACH + EACH / 4 * count as u32);
        let first = arena.bins[class].len() - count;
        self.caches[caller.thread][class].extend(arena.bins[class].drain(first..));
        caller.release(&mut arena.lock, since);
    }

    fn put(&mut self, caller: &mut Caller<'_>, slot: u32) {
        let class = self.slots.class(slot);
        let cache = &mut self.caches[caller.thread][class];
        if cache.len() < kept(class) {
            return cache.push(slot);
        }
        let arena = &mut self.arenas[self.slots.home(slot)];
        let since = caller.acquire(&mut arena.lock);
        caller.execute(EACH);
        arena.bins[class].push(slot);
        caller.release(&mut arena.lock, since);
    }
}

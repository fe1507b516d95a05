//! A lock for each arena: eight arenas to a core, a cache of seven blocks of each class for each
//! thread, and behind that a list under the lock of the arena that a block came from. Blocks beyond
//! 1,032 bytes are not cached, and those up to 128 go back to an arena without its lock. A thread that ends empties its
//! cache, and leaves its arena to the next one.

use super::super::machine::Line;
use super::super::what::What;
use super::{Binned, Bins, CLASSES, Caller, Slots, bins, block_size};

/// Blocks of a class that a thread keeps for itself, and the longest that it keeps.
const CACHE: usize = 7;
const LONGEST_CACHED: u32 = 1032;
/// The longest blocks that go back by a compare-and-swap on the arena's line (glibc's fast bins).
const LONGEST_FAST: u32 = 128;
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
    /// The lock of the list of arenas without threads.
    unused: Line,
}

impl Arena {
    pub fn new(threads: usize, cores: usize) -> Self {
        let arena = || One { lock: Line::of(What::ArenaLock), bins: bins() };
        Arena {
            slots: Slots::default(),
            arenas: (0..threads.min(8 * cores)).map(|_| arena()).collect(),
            caches: (0..threads).map(|_| vec![Vec::new(); CLASSES]).collect(),
            unused: Line::of(What::Arenas),
        }
    }

    /// Gives a block back to its arena.
    fn give(&mut self, caller: &mut Caller<'_>, slot: u32) {
        let class = self.slots.class(slot);
        let arena = &mut self.arenas[self.slots.home(slot)];
        if block_size(class) <= LONGEST_FAST {
            caller.atomic(&mut arena.lock);
            return arena.bins[class].push(slot);
        }
        let since = caller.acquire(&mut arena.lock);
        caller.execute(EACH);
        arena.bins[class].push(slot);
        caller.release(&mut arena.lock, since);
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
        self.give(caller, slot);
    }

    fn end(&mut self, caller: &mut Caller<'_>) {
        for class in 0..CLASSES {
            for slot in std::mem::take(&mut self.caches[caller.thread][class]) {
                self.give(caller, slot);
            }
        }
        // The arena is left, and taken again.
        for _ in 0..2 {
            let since = caller.acquire(&mut self.unused);
            caller.execute(EACH);
            caller.release(&mut self.unused, since);
        }
    }
}

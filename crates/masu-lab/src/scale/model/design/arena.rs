//! A lock for each arena: eight arenas to a core, a cache of seven blocks of each class for each
//! thread, and behind that a list under the lock of the arena that a block came from.

use super::super::machine::{Line, Machine};
use super::{Bins, CLASSES, Slots, bins, capacity};

/// Blocks of a class that a thread keeps for itself.
const CACHE: usize = 7;

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
        let arena = || One { lock: Line::default(), bins: bins() };
        Arena {
            slots: Slots::default(),
            arenas: (0..threads.min(8 * cores)).map(|_| arena()).collect(),
            caches: (0..threads).map(|_| vec![Default::default(); CLASSES]).collect(),
        }
    }

    pub fn alloc(
        &mut self,
        machine: &mut Machine,
        core: usize,
        thread: usize,
        class: usize,
    ) -> u32 {
        let cached = self.caches[thread][class].pop_back();
        let slot = cached.unwrap_or_else(|| {
            let home = thread % self.arenas.len();
            let arena = &mut self.arenas[home];
            if arena.bins[class].is_empty() {
                let fresh = self.slots.carve(class, home as u32, capacity(class));
                arena.bins[class].extend(fresh);
            }
            // While it has the lock, it takes what the cache holds at most.
            let count = arena.bins[class].len().min(CACHE);
            machine.locked(core, &mut arena.lock, 1 + count / 4);
            let first = arena.bins[class].len() - count;
            self.caches[thread][class].extend(arena.bins[class].drain(first..));
            self.caches[thread][class].pop_back().expect("at least one was taken")
        });
        self.slots.touch(machine, core, slot);
        slot
    }

    pub fn free(&mut self, machine: &mut Machine, core: usize, thread: usize, slot: u32) {
        let class = self.slots.class(slot);
        self.slots.touch(machine, core, slot);
        let cache = &mut self.caches[thread][class];
        if cache.len() < CACHE {
            return cache.push_back(slot);
        }
        let arena = &mut self.arenas[self.slots.home(slot) as usize];
        machine.locked(core, &mut arena.lock, 1);
        arena.bins[class].push_back(slot);
    }
}

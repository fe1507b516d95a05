//! Caches per processor, which the threads of an oversubscribed process have in place of bins (the engine's
//! `heap/processor_cache`): two magazines of each class, and for each class a depot that all share. Their locks are
//! given back by a store.

use std::mem;

use masu_core::rules::{DEPOT, MAGAZINE_BLOCKS, WHOLE_MAGAZINES_UP_TO};
use masu_core::size_class::{SMALL_MAX, size_of_class};

use super::super::super::machine::Line;
use super::super::super::what::What;
use super::super::Caller;
use super::heap::CLASSES;

/// Instructions under a cache's lock, and under a depot's.
const IN_CACHE: u32 = 30;
const IN_DEPOT: u32 = 30;

/// The magazines of a class.
#[derive(Clone, Default)]
struct Pair {
    loaded: Vec<u32>,
    previous: Vec<u32>,
}

struct Cache {
    lock: Line,
    pairs: Vec<Pair>,
}

struct Depot {
    lock: Line,
    full: Vec<Vec<u32>>,
}

/// See the module.
pub struct Processors {
    caches: Vec<Cache>,
    depots: Vec<Depot>,
    /// How often magazines are halved.
    halved: u32,
}

impl Depot {
    /// A magazine; an empty one if there is none.
    fn take(&mut self, caller: &mut Caller<'_>) -> Vec<u32> {
        let since = caller.acquire(&mut self.lock);
        caller.execute(IN_DEPOT);
        caller.lay_down(&mut self.lock, since);
        self.full.pop().unwrap_or_default()
    }

    /// Takes a magazine in, or gives it back.
    fn give(&mut self, caller: &mut Caller<'_>, magazine: Vec<u32>) -> Vec<u32> {
        let since = caller.acquire(&mut self.lock);
        caller.execute(IN_DEPOT);
        caller.lay_down(&mut self.lock, since);
        if self.full.len() == DEPOT {
            return magazine;
        }
        self.full.push(magazine);
        Vec::new()
    }
}

impl Processors {
    /// Empty ones.
    pub fn new(cores: usize) -> Self {
        let lock = || Line::of(What::ProcessorCache);
        let cache = || Cache { lock: lock(), pairs: vec![Pair::default(); CLASSES] };
        let depot = || Depot { lock: Line::of(What::Depot), full: Vec::new() };
        Processors {
            caches: (0..cores).map(|_| cache()).collect(),
            depots: (0..CLASSES).map(|_| depot()).collect(),
            halved: (cores as u32 / WHOLE_MAGAZINES_UP_TO).max(1).ilog2(),
        }
    }

    /// Most blocks in a magazine of a class.
    pub fn most(&self, class: usize) -> usize {
        ((SMALL_MAX / size_of_class(class)).min(MAGAZINE_BLOCKS) >> self.halved).max(1)
    }

    /// A block, if there is one at hand.
    pub fn pop(&mut self, caller: &mut Caller<'_>, class: usize) -> Option<u32> {
        let cache = &mut self.caches[caller.core];
        let since = caller.acquire(&mut cache.lock);
        caller.execute(IN_CACHE);
        let pair = &mut cache.pairs[class];
        if pair.loaded.is_empty() {
            mem::swap(&mut pair.loaded, &mut pair.previous);
        }
        if pair.loaded.is_empty() {
            pair.loaded = self.depots[class].take(caller);
        }
        let block = pair.loaded.pop();
        caller.lay_down(&mut cache.lock, since);
        block
    }

    /// Takes a block in. What has no room comes back.
    pub fn push(&mut self, caller: &mut Caller<'_>, class: usize, block: u32) -> Vec<u32> {
        let most = self.most(class);
        let cache = &mut self.caches[caller.core];
        let since = caller.acquire(&mut cache.lock);
        caller.execute(IN_CACHE);
        let pair = &mut cache.pairs[class];
        let mut surplus = Vec::new();
        if pair.loaded.len() >= most {
            surplus = mem::replace(&mut pair.previous, mem::take(&mut pair.loaded));
            if !surplus.is_empty() {
                surplus = self.depots[class].give(caller, surplus);
            }
        }
        pair.loaded.push(block);
        caller.lay_down(&mut cache.lock, since);
        surplus
    }

    /// Takes a magazine in. What has no room comes back.
    pub fn put(&mut self, caller: &mut Caller<'_>, class: usize, magazine: Vec<u32>) -> Vec<u32> {
        let cache = &mut self.caches[caller.core];
        let since = caller.acquire(&mut cache.lock);
        caller.execute(IN_CACHE);
        let pair = &mut cache.pairs[class];
        let mut surplus = Vec::new();
        if pair.loaded.is_empty() {
            pair.loaded = magazine;
        } else if pair.previous.is_empty() {
            pair.previous = magazine;
        } else if !magazine.is_empty() {
            surplus = self.depots[class].give(caller, magazine);
        }
        caller.lay_down(&mut cache.lock, since);
        surplus
    }
}

#[cfg(test)]
mod tests {
    use masu_core::size_class::class_of;

    use super::super::super::super::machine::{COSTS, Machine};
    use super::*;

    #[test]
    fn magazines_move_between_processors_through_the_depot() {
        let (mut machine, mut all, class) =
            (Machine::new(2, COSTS), Processors::new(2), class_of(64));
        let most = all.most(class);
        let freed = (2 + DEPOT) * most;
        let caller = &mut Caller { machine: &mut machine, core: 0, thread: 0 };
        assert_eq!(all.pop(caller, class), None);
        let surplus: Vec<u32> =
            (0..freed as u32).flat_map(|block| all.push(caller, class, block)).collect();
        assert_eq!(surplus.len(), 0, "two here, and as many as the depot has room for");
        let more = most as u32..2 * most as u32;
        let surplus = more.flat_map(|block| all.push(caller, class, block)).count();
        assert_eq!(surplus, most);
        let caller = &mut Caller { machine: &mut machine, core: 1, thread: 1 };
        let taken = (0..freed).map_while(|_| all.pop(caller, class)).count();
        assert_eq!(taken, DEPOT * most);
        assert_eq!(machine.counts.hand_overs, 1, "of the depot's lock");
    }

    #[test]
    fn magazines_are_shorter_on_many_processors() {
        let most = |cores, size| Processors::new(cores).most(class_of(size));
        assert_eq!([most(16, 64), most(32, 64), most(128, 64)], [32, 16, 4]);
        assert_eq!(most(2, SMALL_MAX), 1);
    }
}

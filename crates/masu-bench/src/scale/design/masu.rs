//! masu's protocol, as its engine has it: bins of its own for each thread, an outbox of 64 slots
//! that sends sixteen blocks at once, slabs beyond a few full ones that nobody owns and that the
//! thread that frees into them claims, and one pool of slabs under one lock.

use std::collections::VecDeque;

use super::super::machine::{Copied, Line, Machine};
use super::{Bins, CLASSES, Slots, bins, block_size, capacity};

/// Slots of an outbox; slabs share them by their numbers.
const OUTBOX: usize = 64;
/// Blocks and bytes that go out at once.
const CHAIN: usize = 16;
const CHAIN_BYTES: usize = 16 << 10;
/// Full slabs that a thread keeps as its own.
const RETAIN_FULL: usize = 32;
/// The part of a slab's blocks that has to come back before who frees them claims it.
const CLAIM: u32 = 16;

struct Slab {
    owner: Option<usize>,
    class: usize,
    /// The remote word's line.
    word: Line,
    chain: Vec<u32>,
    /// The line with the entry that says who owns it.
    entry: Copied,
}

#[derive(Clone)]
struct Heap {
    bins: Bins,
    /// Slabs that others may have pushed on, by class.
    waiting: Vec<Vec<u32>>,
    /// Slabs that were carved empty, the oldest first.
    full: VecDeque<u32>,
    /// The slab that blocks are carved from, by class.
    active: Vec<Option<u32>>,
    outbox: Vec<(u32, Vec<u32>)>,
}

/// See the module.
pub struct Masu {
    slots: Slots,
    slabs: Vec<Slab>,
    heaps: Vec<Heap>,
    pool: Line,
}

impl Masu {
    pub fn new(threads: usize) -> Self {
        let heap = Heap {
            bins: bins(),
            waiting: vec![Vec::new(); CLASSES],
            full: VecDeque::new(),
            active: vec![None; CLASSES],
            outbox: vec![(0, Vec::new()); OUTBOX],
        };
        Masu {
            slots: Slots::default(),
            slabs: Vec::new(),
            heaps: vec![heap; threads],
            pool: Line::default(),
        }
    }

    pub fn alloc(
        &mut self,
        machine: &mut Machine,
        core: usize,
        thread: usize,
        class: usize,
    ) -> u32 {
        if self.heaps[thread].bins[class].is_empty() {
            self.refill(machine, core, thread, class);
        }
        let slot = self.heaps[thread].bins[class].pop_back().expect("the bin was filled");
        self.slots.touch(machine, core, slot);
        slot
    }

    /// What others freed comes first, then a slab from the pool.
    fn refill(&mut self, machine: &mut Machine, core: usize, thread: usize, class: usize) {
        let heap = &mut self.heaps[thread];
        while let Some(number) = heap.waiting[class].pop() {
            let slab = &mut self.slabs[number as usize];
            if slab.owner == Some(thread) && !slab.chain.is_empty() {
                machine.atomic(core, &mut slab.word);
                heap.bins[class].extend(slab.chain.drain(..));
                return;
            }
        }
        machine.locked(core, &mut self.pool, 1);
        let number = self.slabs.len() as u32;
        let fresh = self.slots.carve(class, number, capacity(class));
        heap.bins[class].extend(fresh.rev());
        let mut entry = Copied::default();
        machine.change(core, &mut entry);
        let (owner, word) = (Some(thread), Line::default());
        self.slabs.push(Slab { owner, class, word, chain: Vec::new(), entry });
        if let Some(full) = heap.active[class].replace(number) {
            heap.full.push_back(full);
        }
        if heap.full.len() > RETAIN_FULL {
            let given_up = heap.full.pop_front().expect("there are many");
            let slab = &mut self.slabs[given_up as usize];
            machine.atomic(core, &mut slab.word);
            machine.change(core, &mut slab.entry);
            slab.owner = None;
        }
    }

    pub fn free(&mut self, machine: &mut Machine, core: usize, thread: usize, slot: u32) {
        self.slots.touch(machine, core, slot);
        let number = self.slots.home(slot);
        let slab = &mut self.slabs[number as usize];
        if slab.owner == Some(thread) {
            return self.heaps[thread].bins[slab.class].push_back(slot);
        }
        machine.read(core, &mut slab.entry);
        if slab.owner.is_none() {
            return self.push(machine, core, thread, number, vec![slot]);
        }
        let most = CHAIN.min(CHAIN_BYTES / block_size(slab.class) as usize).max(1);
        let place = &mut self.heaps[thread].outbox[number as usize % OUTBOX];
        if place.0 != number && !place.1.is_empty() {
            let (other, chain) = std::mem::take(place);
            self.push(machine, core, thread, other, chain);
        }
        let place = &mut self.heaps[thread].outbox[number as usize % OUTBOX];
        place.0 = number;
        place.1.push(slot);
        if place.1.len() >= most {
            let chain = std::mem::take(&mut place.1);
            self.push(machine, core, thread, number, chain);
        }
    }

    /// One compare-and-swap on the slab's remote word, which may make the slab this thread's.
    fn push(
        &mut self,
        machine: &mut Machine,
        core: usize,
        thread: usize,
        number: u32,
        chain: Vec<u32>,
    ) {
        let slab = &mut self.slabs[number as usize];
        machine.atomic(core, &mut slab.word);
        slab.chain.extend(chain);
        match slab.owner {
            Some(owner) => {
                let waiting = &mut self.heaps[owner].waiting[slab.class];
                if !waiting.contains(&number) {
                    waiting.push(number);
                }
            }
            None if slab.chain.len() as u32 >= (capacity(slab.class) / CLAIM).max(1) => {
                slab.owner = Some(thread);
                machine.change(core, &mut slab.entry);
                let heap = &mut self.heaps[thread];
                heap.bins[slab.class].extend(slab.chain.drain(..));
                heap.full.push_back(number);
            }
            None => {}
        }
    }
}

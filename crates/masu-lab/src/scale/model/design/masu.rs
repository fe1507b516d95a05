//! masu's protocol, as its engine has it: bins of its own for each thread, an outbox of 64 slots
//! that sends sixteen blocks at once, spans beyond a few full ones that nobody owns and that the
//! thread that frees into them claims, and one pool of spans under one lock.

use std::collections::VecDeque;

use super::super::machine::{Copied, Line, Machine};
use super::{Bins, CLASSES, Slots, bins, block_size, capacity};

/// Slots of an outbox; spans share them by their numbers.
const OUTBOX: usize = 64;
/// Blocks and bytes that go out at once.
const CHAIN: usize = 16;
const CHAIN_BYTES: usize = 16 << 10;
/// Full spans that a thread keeps as its own.
const RETAIN_FULL: usize = 32;
/// The part of a span's blocks that has to come back before who frees them claims it.
const CLAIM: u32 = 16;

struct Span {
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
    /// Spans that others may have pushed on, by class.
    waiting: Vec<Vec<u32>>,
    /// Spans that were carved empty, the oldest first.
    full: VecDeque<u32>,
    /// The span that blocks are carved from, by class.
    active: Vec<Option<u32>>,
    outbox: Vec<(u32, Vec<u32>)>,
}

/// See the module.
pub struct Masu {
    slots: Slots,
    spans: Vec<Span>,
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
            spans: Vec::new(),
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

    /// What others freed comes first, then a span from the pool.
    fn refill(&mut self, machine: &mut Machine, core: usize, thread: usize, class: usize) {
        let heap = &mut self.heaps[thread];
        while let Some(number) = heap.waiting[class].pop() {
            let span = &mut self.spans[number as usize];
            if span.owner == Some(thread) && !span.chain.is_empty() {
                machine.atomic(core, &mut span.word);
                heap.bins[class].extend(span.chain.drain(..));
                return;
            }
        }
        machine.locked(core, &mut self.pool, 1);
        let number = self.spans.len() as u32;
        let fresh = self.slots.carve(class, number, capacity(class));
        heap.bins[class].extend(fresh.rev());
        let mut entry = Copied::default();
        machine.change(core, &mut entry);
        let (owner, word) = (Some(thread), Line::default());
        self.spans.push(Span { owner, class, word, chain: Vec::new(), entry });
        if let Some(full) = heap.active[class].replace(number) {
            heap.full.push_back(full);
        }
        if heap.full.len() > RETAIN_FULL {
            let given_up = heap.full.pop_front().expect("there are many");
            let span = &mut self.spans[given_up as usize];
            machine.atomic(core, &mut span.word);
            machine.change(core, &mut span.entry);
            span.owner = None;
        }
    }

    pub fn free(&mut self, machine: &mut Machine, core: usize, thread: usize, slot: u32) {
        self.slots.touch(machine, core, slot);
        let number = self.slots.home(slot);
        let span = &mut self.spans[number as usize];
        if span.owner == Some(thread) {
            return self.heaps[thread].bins[span.class].push_back(slot);
        }
        machine.read(core, &mut span.entry);
        if span.owner.is_none() {
            return self.push(machine, core, thread, number, vec![slot]);
        }
        let most = CHAIN.min(CHAIN_BYTES / block_size(span.class) as usize).max(1);
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

    /// One compare-and-swap on the span's remote word, which may make the span this thread's.
    fn push(
        &mut self,
        machine: &mut Machine,
        core: usize,
        thread: usize,
        number: u32,
        chain: Vec<u32>,
    ) {
        let span = &mut self.spans[number as usize];
        machine.atomic(core, &mut span.word);
        span.chain.extend(chain);
        match span.owner {
            Some(owner) => {
                let waiting = &mut self.heaps[owner].waiting[span.class];
                if !waiting.contains(&number) {
                    waiting.push(number);
                }
            }
            None if span.chain.len() as u32 >= (capacity(span.class) / CLAIM).max(1) => {
                span.owner = Some(thread);
                machine.change(core, &mut span.entry);
                let heap = &mut self.heaps[thread];
                heap.bins[span.class].extend(span.chain.drain(..));
                heap.full.push_back(number);
            }
            None => {}
        }
    }
}

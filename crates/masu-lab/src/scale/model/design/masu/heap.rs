//! What a simulated heap has: bins, spans in their places, an outbox, a cache, and what it has borrowed.

use masu_core::rules::{
    CROSSING_WEIGHT, EMPTIES_PER_TICK, GRANULE, LONGEST_CHAINS, OVERSUBSCRIBED_SLOTS, SLOTS,
    capacity,
};
use masu_core::size_class::{LAST_CLASS, UNIT, size_of_class};

use super::super::super::machine::Line;
use super::super::super::what::What;
use super::cache::Cache;
use super::list::List;

/// Entries of a table by class.
pub const CLASSES: usize = LAST_CLASS + 1;

/// Pages of a span.
const PAGES: usize = GRANULE / UNIT;

/// Where a span is, as its owner sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Unowned,
    Active,
    Partial,
    Full,
}

/// A span, by its granule. Blocks go by their numbers in it.
pub struct Span {
    pub owner: Option<u32>,
    pub class: usize,
    pub place: Place,
    /// Whether it is on its class's list of abandoned ones.
    pub listed: bool,
    /// The heap that gave it up for having too many.
    pub former: Option<u32>,
    pub free: Vec<u16>,
    pub carved: u32,
    /// What others have pushed, and the blocks out when nobody came to own it.
    pub chain: Vec<u16>,
    pub used: u32,
    /// Pages that were given back, a bit each.
    pub purged: u32,
    /// Blocks that were out at the last look, and whether pages went back then.
    pub looked: u32,
    pub went: bool,
    /// Whether it has been nobody's, and on its class's list, since the tick.
    pub rested: bool,
    pub word: Line,
    pub record: Line,
    /// The blocks' first lines.
    pub lines: Vec<Line>,
}

impl Span {
    /// One of the pool's.
    pub fn new() -> Self {
        Span {
            owner: None,
            class: 0,
            place: Place::Unowned,
            listed: false,
            former: None,
            free: Vec::new(),
            carved: 0,
            chain: Vec::new(),
            used: 0,
            purged: 0,
            looked: 0,
            went: false,
            rested: false,
            word: Line::of(What::RemoteWord),
            record: Line::of(What::Record),
            lines: Vec::new(),
        }
    }

    /// Makes it an empty one of a class.
    pub fn init(&mut self, class: usize, owner: u32) {
        (self.owner, self.class, self.former) = (Some(owner), class, None);
        (self.carved, self.looked, self.went, self.purged) = (0, 0, false, 0);
        self.free.clear();
        self.chain.clear();
        self.lines.resize(capacity(class) as usize, Line::of(What::Block));
    }

    /// Blocks that are not on its list, those in a bin and in the chain included.
    pub fn out(&self) -> u32 {
        self.carved - self.free.len() as u32
    }

    /// Whether some blocks never existed.
    pub fn has_uncarved(&self) -> bool {
        self.carved < capacity(self.class)
    }

    /// Ranges of pages of it that only free blocks lie on, and that have not been given back.
    pub fn free_ranges(&self) -> u32 {
        let pages = self.free_pages();
        (pages & !(pages << 1)).count_ones()
    }

    /// Those pages, a bit each.
    pub fn free_pages(&self) -> u32 {
        let size = size_of_class(self.class);
        let mut used = vec![true; self.carved as usize];
        self.free.iter().for_each(|&place| used[usize::from(place)] = false);
        let mut free = (1u32 << (self.carved as usize * size).div_ceil(UNIT).min(PAGES)) - 1;
        for place in (0..used.len()).filter(|&place| used[place]) {
            let (first, last) = (place * size / UNIT, ((place + 1) * size - 1) / UNIT);
            (first..=last).for_each(|page| free &= !(1 << page));
        }
        free & !self.purged
    }

    /// Takes what others have pushed, whose word the caller has.
    pub fn merge(&mut self) {
        self.free.append(&mut self.chain);
    }
}

/// A thread's heap, or the shared arena's.
pub struct Heap {
    pub bins: Vec<Vec<u32>>,
    pub active: [Option<u32>; CLASSES],
    pub partial: [List; CLASSES],
    pub full: [List; CLASSES],
    pub full_count: u32,
    /// Whether blocks cross between it and others.
    pub shares: bool,
    /// Spans claimed back after the heap had given them up, where blocks cross one between two refills, less what
    /// crossings take away.
    pub claimed_back: u32,
    /// Whether it has refilled a bin since it claimed one back.
    pub refilled: bool,
    /// Spans that may run empty in a class before one stays.
    pub empties: [u8; CLASSES],
    pub outbox: Outbox,
    pub cache: Cache,
    pub borrowed: [u8; CLASSES],
    pub sent: [u32; CLASSES],
    /// Bytes in blocks that it has handed out and got back.
    pub held: i64,
    /// Fresh units when it last gave back what its sparse spans hold.
    pub grown: usize,
}

impl Heap {
    /// One that owns nothing.
    pub fn new() -> Self {
        Heap {
            bins: vec![Vec::new(); CLASSES],
            active: [None; CLASSES],
            partial: [List::default(); CLASSES],
            full: [List::default(); CLASSES],
            full_count: 0,
            shares: false,
            claimed_back: 0,
            refilled: false,
            empties: [EMPTIES_PER_TICK; CLASSES],
            outbox: Outbox::new(),
            cache: Cache::new(),
            borrowed: [0; CLASSES],
            sent: [0; CLASSES],
            held: 0,
            grown: 0,
        }
    }

    /// Notes that blocks cross between it and others.
    pub fn note_sharing(&mut self) {
        self.shares = true;
        self.claimed_back = self.claimed_back.saturating_sub(CROSSING_WEIGHT);
    }
}

/// Blocks on their way to one span.
#[derive(Clone)]
pub struct Chain {
    pub span: u32,
    pub blocks: Vec<u16>,
    /// How many there were when it was last looked at.
    seen: usize,
}

impl Chain {
    /// One that goes out at once.
    pub fn of(span: u32, blocks: Vec<u16>) -> Self {
        Chain { span, blocks, seen: 0 }
    }

    /// Takes the blocks out of a slot, which keeps the span.
    fn go(&mut self) -> Self {
        self.seen = 0;
        Chain::of(self.span, std::mem::take(&mut self.blocks))
    }
}

/// No span.
const NIL: u32 = u32::MAX;

/// An outbox.
pub struct Outbox {
    slots: Vec<Chain>,
    hand: usize,
    /// Whether it counts among those that hold something.
    pub holds: bool,
}

impl Outbox {
    fn new() -> Self {
        Outbox { slots: vec![Chain::of(NIL, Vec::new()); SLOTS], hand: 0, holds: false }
    }

    /// Adds a block. What goes out because of it comes back.
    pub fn put(&mut self, span: u32, class: usize, block: u16, oversubscribed: bool) -> Vec<Chain> {
        if most(class, oversubscribed) == 1 {
            return vec![Chain::of(span, vec![block])];
        }
        let mut out = Vec::new();
        let slots = if oversubscribed { OVERSUBSCRIBED_SLOTS } else { SLOTS };
        let place = span as usize % slots;
        let slot = &mut self.slots[place];
        if slot.span != span || slot.blocks.is_empty() {
            out.push(slot.go());
            slot.span = span;
            if !oversubscribed {
                self.hand = (self.hand + 1) % SLOTS;
                let looked = &mut self.slots[self.hand];
                if looked.seen == looked.blocks.len() {
                    out.push(looked.go());
                }
                looked.seen = looked.blocks.len();
            }
        }
        let slot = &mut self.slots[place];
        slot.span = span;
        slot.blocks.push(block);
        if slot.blocks.len() as u32 >= most(class, oversubscribed) {
            out.push(slot.go());
        }
        out.retain(|chain| !chain.blocks.is_empty());
        out
    }

    /// Whether it has a chain of a span, in a process that is not oversubscribed.
    pub fn has_chain_of(&self, span: u32) -> bool {
        let slot = &self.slots[span as usize % SLOTS];
        slot.span == span && !slot.blocks.is_empty()
    }

    /// The spans to which it has sent chains last.
    pub fn served(&self) -> impl Iterator<Item = u32> {
        self.slots.iter().map(|slot| slot.span).filter(|&span| span != NIL)
    }

    /// All that is in it.
    pub fn drain(&mut self) -> Vec<Chain> {
        let all = self.slots.iter_mut().map(Chain::go);
        all.filter(|chain| !chain.blocks.is_empty()).collect()
    }
}

/// Most blocks in a chain of a class.
fn most(class: usize, oversubscribed: bool) -> u32 {
    LONGEST_CHAINS[usize::from(oversubscribed)][class].into()
}

#[cfg(test)]
mod tests {
    use masu_core::size_class::{SMALL_MAX, class_of};

    use super::*;

    #[test]
    fn pages_of_free_blocks_alone_are_free() {
        let mut span = Span::new();
        span.init(class_of(1024), 0);
        span.carved = 16;
        assert_eq!(span.free_ranges(), 0);
        span.free = (0..4).chain(8..16).collect();
        assert_eq!((span.free_pages(), span.free_ranges()), (0b1101, 2));
        span.purged = 1;
        assert_eq!((span.free_pages(), span.free_ranges()), (0b1100, 1));
        span.free.pop();
        assert_eq!(span.free_pages(), 0b0100);
    }

    #[test]
    fn a_chain_goes_out_when_it_is_full_or_another_span_needs_its_place() {
        let (mut outbox, class) = (Outbox::new(), class_of(64));
        let longest = most(class, false) as usize;
        let sent: Vec<usize> = (0..2 * longest as u16)
            .flat_map(|block| outbox.put(7, class, block, false))
            .map(|chain| chain.blocks.len())
            .collect();
        assert_eq!(sent, [longest; 2]);
        assert!(outbox.put(7, class, 0, false).is_empty());
        let long = outbox.put(7 + SLOTS as u32, class_of(SMALL_MAX), 0, false);
        assert_eq!((long.len(), long[0].span), (1, 7 + SLOTS as u32));
        let evicted = outbox.put(7 + SLOTS as u32, class, 0, false);
        assert_eq!((evicted.len(), evicted[0].span), (1, 7));
        assert_eq!(outbox.drain().len(), 1);
        assert!(outbox.drain().is_empty());
    }

    #[test]
    fn a_chain_that_does_not_grow_goes_out() {
        let (mut outbox, class) = (Outbox::new(), class_of(64));
        let mut sent = Vec::new();
        outbox.put(0, class, 1, false);
        // Two rounds of other spans, which never need the place of the first one.
        for span in 1..2 * SLOTS as u32 + 4 {
            if !span.is_multiple_of(SLOTS as u32) {
                sent.extend(outbox.put(span, class, 1, false));
            }
        }
        assert!(sent.iter().any(|chain| chain.span == 0));
    }
}

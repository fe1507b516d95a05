//! Which spans a simulated heap keeps, and what frees do to them (the engine's `heap/retain`, `heap/free`,
//! `heap/event` and `span/abandoned`).

use masu_core::control;
use masu_core::rules::{
    CLAIMED_EARLY, GIVEN_UP_AT_ONCE, LEFT_FREE, LITTLE_CARVED, Mode, NEAR_LOOKED_AT,
    PURGED_AT_ONCE, SPARSE_PER_PAGE, capacity, threshold,
};
use masu_core::size_class::{LAST_CLASS, UNIT, size_of_class};

use super::super::Caller;
use super::chunk::PER_GRANULE;
use super::heap::{CLASSES, Chain, Place};
use super::list::List;
use super::{Masu, SEND, number, place_of};

/// Instructions under the locks of abandoned spans, and of the table of heaps.
const LISTED: u32 = 40;
/// Instructions of a look at a span that an outbox has served.
const SERVED: u32 = 10;
const TABLE: u32 = 60;

impl Masu {
    pub(super) fn free_small(&mut self, caller: &mut Caller<'_>, block: u32) {
        let (span, place) = place_of(block);
        caller.fetch(&mut self.spans[span].lines[place]);
        caller.read(self.pages.entry(span as u32));
        let thread = caller.thread;
        let class = self.spans[span].class;
        self.heaps[thread].held -= size_of_class(class) as i64;
        let owner = self.spans[span].owner;
        if owner != Some(thread as u32) {
            if self.oversubscribed && owner.is_none_or(|owner| self.lends(owner as usize)) {
                let surplus = self.processors.push(caller, class, block);
                return self.give_magazine(caller, surplus);
            }
            if !self.pages.homes.has_heap(thread) {
                return self.send(caller, Chain::of(span as u32, vec![place as u16]));
            }
            if self.claims_early(thread, span) {
                caller.execute(SEND);
                caller.atomic(&mut self.spans[span].word);
                self.spans[span].chain.push(place as u16);
                self.claim(caller, span as u32);
                self.look_at_free(caller);
                return self.sent(caller, class, 1);
            }
            self.count_outbox(caller, true);
            let outbox = &mut self.heaps[thread].outbox;
            let out = outbox.put(span as u32, class, place as u16, self.oversubscribed);
            return out.into_iter().for_each(|chain| self.send(caller, chain));
        }
        let s = &mut self.spans[span];
        caller.fetch(&mut s.record);
        s.free.push(place as u16);
        match s.place {
            Place::Full if s.free.len() as u32 >= threshold(class) => {
                self.heaps[thread].full[class].remove(&mut self.links, span as u32);
                self.heaps[thread].full_count -= 1;
                self.keep_partial(caller, thread, span as u32);
                self.look_at_free(caller);
            }
            Place::Partial if s.out() == 0 => {
                if self.heaps[thread].partial[class].len > 1 || !self.stays(thread, span) {
                    self.heaps[thread].partial[class].remove(&mut self.links, span as u32);
                    self.give(caller, span as u32);
                }
                self.look_at_free(caller);
            }
            _ => {}
        }
    }

    /// Whether a heap takes over a span at its thread's first free into it.
    fn claims_early(&self, heap: usize, span: usize) -> bool {
        let (s, heap_of) = (&self.spans[span], &self.heaps[heap]);
        s.owner.is_none()
            && s.listed
            && !self.oversubscribed
            && heap_of.partial[s.class].len < CLAIMED_EARLY
            && !heap_of.outbox.has_chain_of(span as u32)
            && !self.borrows(heap, s.class)
    }

    /// Blocks of a class for which there is no room in the caches go to their spans, those of one together.
    pub(super) fn give_magazine(&mut self, caller: &mut Caller<'_>, mut magazine: Vec<u32>) {
        magazine.sort_unstable();
        for blocks in magazine.chunk_by(|one, other| place_of(*one).0 == place_of(*other).0) {
            let places = blocks.iter().map(|block| place_of(*block).1 as u16).collect();
            self.send(caller, Chain::of(place_of(blocks[0]).0 as u32, places));
        }
    }

    /// The caller's outbox may hold something from now on, or nothing: the sum of all is two words of one line.
    fn count_outbox(&mut self, caller: &mut Caller<'_>, holds: bool) {
        let outbox = &mut self.heaps[caller.thread].outbox;
        if std::mem::replace(&mut outbox.holds, holds) != holds {
            caller.change_atomic(&mut self.outboxes);
            caller.change_atomic(&mut self.outboxes);
        }
    }

    /// Whether an empty span stays, of which little was used.
    fn stays(&mut self, heap: usize, span: usize) -> bool {
        let s = &self.spans[span];
        if s.carved > 1 && s.carved * size_of_class(s.class) as u32 > LITTLE_CARVED {
            return false;
        }
        let left = &mut self.heaps[heap].empties[s.class];
        let spent = *left == 0;
        *left = left.saturating_sub(1);
        spent
    }

    /// An empty span goes back to the pool.
    fn give(&mut self, caller: &mut Caller<'_>, span: u32) {
        let s = &mut self.spans[span as usize];
        (s.owner, s.place) = (None, Place::Unowned);
        let touched = (s.carved as usize * size_of_class(s.class)).div_ceil(UNIT).min(PER_GRANULE);
        self.pages.give_granule(caller, span, touched);
    }

    /// Pushes a chain to its span, which that may make the caller's.
    fn send(&mut self, caller: &mut Caller<'_>, chain: Chain) {
        caller.execute(SEND);
        let (span, n) = (chain.span as usize, chain.blocks.len());
        let s = &mut self.spans[span];
        let class = s.class;
        caller.atomic(&mut s.word);
        s.chain.extend(chain.blocks);
        let total = s.chain.len() as u32;
        if s.owner.is_some() {
            if total == capacity(class) {
                caller.change_atomic(&mut self.emptied);
                self.look_at_free(caller);
            }
        } else if total >= threshold(class) || total == s.used {
            self.claim(caller, chain.span);
            self.look_at_free(caller);
        }
        self.sent(caller, class, n);
    }

    /// The caller has freed so much into a span of nobody's that it is its own now.
    fn claim(&mut self, caller: &mut Caller<'_>, span: u32) {
        let s = &mut self.spans[span as usize];
        let (thread, class) = (caller.thread, s.class);
        let line = self.variant.line_of(class);
        if std::mem::take(&mut s.listed) {
            let since = caller.enter(&mut self.abandoned_lines[line]);
            self.unlist(caller, class, span);
            caller.leave(&mut self.abandoned_lines[line], since);
        }
        let keeps = !self.oversubscribed && !self.borrows(thread, class);
        let s = &mut self.spans[span as usize];
        caller.fetch(&mut s.record);
        s.merge();
        caller.change(self.pages.entry(span));
        if keeps {
            if s.former.take() == Some(thread as u32) {
                let heap = &mut self.heaps[thread];
                let counts = std::mem::take(&mut heap.refilled) || !heap.shares;
                heap.claimed_back += u32::from(counts);
            } else {
                self.heaps[thread].note_sharing();
            }
            s.owner = Some(thread as u32);
            self.tally.claimed += 1;
            self.keep_partial(caller, thread, span);
        } else {
            self.give_up_partial(caller, span);
        }
    }

    /// Before memory grows: a thread takes a long chain that it has sent to another heap's span back into its bin.
    /// Returns whether there was one.
    pub(super) fn take_pending(
        &mut self,
        caller: &mut Caller<'_>,
        heap: usize,
        class: usize,
    ) -> bool {
        if self.lends(heap) || self.mode(heap) == Mode::Alone {
            return false;
        }
        let served: Vec<u32> = self.heaps[heap].outbox.served().collect();
        for span in served {
            caller.execute(SERVED);
            caller.read(self.pages.entry(span));
            let s = &mut self.spans[span as usize];
            if s.class != class {
                continue;
            }
            caller.fetch(&mut s.word);
            let n = s.chain.len() as u32;
            if s.owner.is_some() && n >= threshold(class) && n < capacity(class) {
                caller.atomic(&mut s.word);
                let blocks = s.chain.drain(..).map(|place| number(span, place));
                self.heaps[heap].bins[class].extend(blocks);
                return true;
            }
        }
        false
    }

    /// Claims a span of the class that nobody owns.
    pub(super) fn adopt(
        &mut self,
        caller: &mut Caller<'_>,
        heap: usize,
        class: usize,
    ) -> Option<u32> {
        let line = self.variant.line_of(class);
        caller.read(&mut self.abandoned_lines[line]);
        let first = self.abandoned[class].front()?;
        let mut since = caller.enter(&mut self.abandoned_lines[line]);
        let near = self.nearest(caller, first);
        if near.is_none() {
            // None is: it looks again, for any.
            caller.leave(&mut self.abandoned_lines[line], since);
            since = caller.enter(&mut self.abandoned_lines[line]);
        }
        let span = near.unwrap_or(first);
        caller.atomic(&mut self.spans[span as usize].word);
        self.unlist(caller, class, span);
        caller.leave(&mut self.abandoned_lines[line], since);
        caller.change(self.pages.entry(span));
        let s = &mut self.spans[span as usize];
        s.merge();
        (s.listed, s.former, s.owner) = (false, None, Some(heap as u32));
        self.tally.adopted += u64::from(!self.lends(heap));
        Some(span)
    }

    /// Takes a span off its list, under the lock: its neighbours' links lie in their records, which others may have
    /// written last.
    fn unlist(&mut self, caller: &mut Caller<'_>, class: usize, span: u32) {
        caller.execute(LISTED);
        caller.fetch(&mut self.spans[span as usize].record);
        for other in self.abandoned[class].around(&self.links, span).into_iter().flatten() {
            caller.fetch(&mut self.spans[other as usize].record);
        }
        self.abandoned[class].remove(&mut self.links, span);
    }

    /// Of the first spans of a list, one of the caller's node; behind those whichever comes. Where there is one node,
    /// the first one.
    fn nearest(&mut self, caller: &Caller<'_>, first: u32) -> Option<u32> {
        if !self.variant.nodes || caller.machine.nodes.number == 1 {
            return Some(first);
        }
        let (links, pages) = (&self.links, &mut self.pages);
        let mut all = std::iter::successors(Some(first), |&span| List::after(links, span));
        let near = all.by_ref().take(NEAR_LOOKED_AT).find(|&span| pages.is_near(caller, span));
        near.or_else(|| all.next())
    }

    /// Puts the former active span, none of whose blocks is free, where it belongs.
    pub(super) fn park(&mut self, caller: &mut Caller<'_>, heap: usize, span: u32) {
        let s = &mut self.spans[span as usize];
        let class = s.class;
        if s.free.is_empty() && !s.has_uncarved() {
            s.place = Place::Full;
            self.heaps[heap].full[class].push_back(&mut self.links, span);
            self.heaps[heap].full_count += 1;
            return self.trim_full(caller, heap, class);
        }
        s.place = Place::Partial;
        self.heaps[heap].partial[class].push_back(&mut self.links, span);
    }

    /// Keeps a span with free blocks as partial, or gives it back if it is empty.
    fn keep_partial(&mut self, caller: &mut Caller<'_>, heap: usize, span: u32) {
        let s = &mut self.spans[span as usize];
        if s.out() == 0 {
            return self.give(caller, span);
        }
        s.place = Place::Partial;
        let class = s.class;
        self.heaps[heap].partial[class].push_front(&mut self.links, span);
        if self.heaps[heap].partial[class].len > 1 {
            self.trim_partial(caller, heap, class);
        }
    }

    /// Gives up the oldest full spans that the heap does not keep.
    fn trim_full(&mut self, caller: &mut Caller<'_>, heap: usize, class: usize) {
        let Some(keeps) = self.mode(heap).retention() else { return };
        for _ in 0..GIVEN_UP_AT_ONCE {
            let h = &mut self.heaps[heap];
            let n = h.full_count;
            let beyond = n > control::retain_full() || h.full[class].len > keeps.full_of_class;
            let too_many = beyond && n > h.claimed_back;
            let Some(span) = h.full[class].front().filter(|_| too_many) else { return };
            h.full[class].remove(&mut self.links, span);
            h.full_count -= 1;
            self.spans[span as usize].former = Some(heap as u32);
            if !self.give_up_full(caller, span) {
                self.keep_partial(caller, heap, span);
            }
        }
    }

    fn trim_partial(&mut self, caller: &mut Caller<'_>, heap: usize, class: usize) {
        let Some(keeps) = self.mode(heap).retention() else { return };
        for _ in 0..GIVEN_UP_AT_ONCE {
            let h = &mut self.heaps[heap];
            let n = h.partial[class].len;
            let too_many = n > keeps.partial && n > h.claimed_back;
            let Some(span) = h.partial[class].back().filter(|_| too_many) else { return };
            h.partial[class].remove(&mut self.links, span);
            self.spans[span as usize].former = Some(heap as u32);
            self.give_up_partial(caller, span);
        }
    }

    /// Gives up a span without room. `false`: much has come back meanwhile, and is merged.
    fn give_up_full(&mut self, caller: &mut Caller<'_>, span: u32) -> bool {
        let s = &mut self.spans[span as usize];
        caller.change(self.pages.entry(span));
        caller.atomic(&mut s.word);
        let n = s.chain.len() as u32;
        if n >= threshold(s.class) || n == s.out() {
            s.merge();
            return false;
        }
        (s.owner, s.place, s.used) = (None, Place::Unowned, s.out());
        true
    }

    /// Publishes a span with room, or gives it back if it is empty.
    fn give_up_partial(&mut self, caller: &mut Caller<'_>, span: u32) {
        let s = &mut self.spans[span as usize];
        let n = s.chain.len() as u32;
        if n >= threshold(s.class) || n == s.out() {
            caller.atomic(&mut s.word);
            s.merge();
        }
        if s.out() == 0 {
            return self.give(caller, span);
        }
        (s.owner, s.place, s.used, s.listed) = (None, Place::Unowned, s.out(), true);
        s.rested = false;
        let class = s.class;
        let line = self.variant.line_of(class);
        let since = caller.enter(&mut self.abandoned_lines[line]);
        caller.execute(LISTED);
        caller.change(self.pages.entry(span));
        caller.atomic(&mut self.spans[span as usize].word);
        if let Some(first) = self.abandoned[class].front() {
            caller.fetch(&mut self.spans[first as usize].record);
        }
        self.abandoned[class].push_front(&mut self.links, span);
        caller.leave(&mut self.abandoned_lines[line], since);
    }

    /// Gives up a span whatever it holds.
    fn give_up(&mut self, caller: &mut Caller<'_>, span: u32) {
        let s = &self.spans[span as usize];
        let has_room = !s.free.is_empty() || s.has_uncarved();
        if has_room || !self.give_up_full(caller, span) {
            self.give_up_partial(caller, span);
        }
    }

    /// A thread ends, and the next one takes over its heap with its active spans.
    pub(super) fn end_thread(&mut self, caller: &mut Caller<'_>) {
        let thread = caller.thread;
        if !self.pages.homes.has_heap(thread) {
            return;
        }
        let heap = &mut self.heaps[thread];
        heap.cache.drain(caller, &mut self.caches, &mut self.pages);
        for chain in heap.outbox.drain() {
            self.send(caller, chain);
        }
        self.count_outbox(caller, false);
        for class in 1..=LAST_CLASS {
            let lists = [self.heaps[thread].partial[class], self.heaps[thread].full[class]];
            for list in lists {
                let mut at = list.front();
                while let Some(span) = at {
                    at = List::after(&self.links, span);
                    self.give_up(caller, span);
                }
            }
            self.heaps[thread].partial[class] = List::default();
            self.heaps[thread].full[class] = List::default();
            if self.heaps[thread].active[class].is_none() {
                for block in std::mem::take(&mut self.heaps[thread].bins[class]) {
                    let (span, place) = place_of(block);
                    self.send(caller, Chain::of(span as u32, vec![place as u16]));
                }
            }
        }
        let heap = &mut self.heaps[thread];
        (heap.full_count, heap.held) = (0, 0);
        (heap.borrowed, heap.sent) = ([0; CLASSES], [0; CLASSES]);
        // An active span into which much was freed is not left.
        let leaves = self.mode(thread) != Mode::Oversubscribed;
        for class in 1..=LAST_CLASS {
            let Some(span) = self.heaps[thread].active[class] else { continue };
            let free = self.spans[span as usize].free.len() * size_of_class(class);
            if leaves && free <= LEFT_FREE as usize {
                continue;
            }
            self.heaps[thread].active[class] = None;
            let bin = std::mem::take(&mut self.heaps[thread].bins[class]);
            let places = bin.into_iter().map(|block| place_of(block).1 as u16);
            self.spans[span as usize].free.extend(places);
            self.give_up(caller, span);
        }
        // The heap is left, and taken again; and the heaps in use are counted.
        for _ in 0..2 {
            caller.locked(&mut self.table, TABLE);
            caller.change_atomic(&mut self.table);
        }
    }

    /// Gives back the free pages of the caller's sparse spans, unless somebody else is at it.
    pub(super) fn purge_sparse(&mut self, caller: &mut Caller<'_>) {
        let now = caller.machine.clock(caller.core);
        if self.discarding > now {
            return caller.atomic(&mut self.discards);
        }
        // Nobody waits for it, so it is not busy while it is held.
        caller.acquire(&mut self.discards);
        for class in 1..=LAST_CLASS {
            let list = &mut self.heaps[caller.thread].partial[class];
            let mut at = list.front();
            for _ in 0..list.len.min(PURGED_AT_ONCE) {
                let Some(span) = at else { break };
                at = List::after(&self.links, span);
                let s = &mut self.spans[span as usize];
                let out = s.out();
                if out > SPARSE_PER_PAGE * PER_GRANULE as u32 || out == 0 {
                    continue;
                }
                if out != s.looked {
                    // One that is in use may fill up again: not before the next look.
                    (s.looked, s.went) = (out, false);
                    continue;
                }
                if std::mem::replace(&mut s.went, true) {
                    break;
                }
                caller.discard(u64::from(s.free_ranges()));
                let pages = s.free_pages();
                let first = span as usize * PER_GRANULE;
                let given = (0..PER_GRANULE).filter(|page| pages >> page & 1 != 0);
                given.for_each(|page| caller.machine.nodes.forget(first + page));
                s.purged |= pages;
                list.remove(&mut self.links, span);
                list.push_back(&mut self.links, span);
            }
        }
        caller.atomic(&mut self.discards);
        self.discarding = caller.machine.clock(caller.core);
    }
}

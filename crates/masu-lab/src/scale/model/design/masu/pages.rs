//! The simulated page pool: chunks under one lock, or under one for each shard.
//!
//! A shard has chunks of its own, with their buckets and their counters. Whoever needs pages takes them from
//! one shard, by the thread's home; what is given back goes to the shard that it came from. A shard
//! that has nothing takes a chunk of the fullest one, if much is free, or else a fresh one from the space.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use masu_core::rules::{Affinity, TICK_CALLS, TICK_TURNS, UNITS};

use super::super::super::machine::{Copied, Line};
use super::super::super::what::What;
use super::super::Caller;
use super::chunk::{Chunk, GRANULES, PER_GRANULE};
use super::homes::Homes;

/// Instructions under the pool's lock, as callgrind counts them on `medium` and `prodcons`.
const TAKE_RUN: u32 = 560;
const GIVE_RUN: u32 = 350;
const TAKE_SPAN: u32 = 600;
const GIVE_SPAN: u32 = 400;
/// And under that of the space.
const TAKE_CHUNK: u32 = 1_500;
/// Page map entries on one cache line.
const ENTRIES: usize = 8;

/// Where a shard looks for a granule.
#[derive(Clone, Copy, PartialEq)]
enum Has {
    Room,
    DirtyRoom,
    DirtyRunRoom,
    RoomOf(usize),
    DirtyRoomOf(usize),
}

/// What a shard has no room for: so many units in a row, or a granule.
#[derive(Clone, Copy, PartialEq)]
enum Want {
    Run(usize),
    Span,
}

struct Shard {
    lock: Line,
    /// Where the buckets begin.
    buckets: Line,
    /// The line of all counters.
    account: Copied,
    /// Chunks for runs and for spans, by their longest free range.
    by_longest: [BTreeSet<(usize, usize)>; 2],
    /// Hints, by [`Has`].
    room: Vec<BTreeSet<usize>>,
    /// Units.
    dirty: usize,
    /// A chunk that moves does not take them along, so only the sum over all shards means something.
    used: usize,
    /// Units handed out that nobody had touched, so far.
    fresh_units: usize,
}

/// See the module.
pub struct Pages {
    chunks: Vec<Chunk>,
    shards: Vec<Shard>,
    space: Line,
    /// Lines of the page map.
    entries: Vec<Copied>,
    /// How many threads' numbers stand for different chunks.
    affinities: usize,
    /// Which shards threads take from.
    pub homes: Homes,
}

impl Pages {
    /// None so far.
    pub fn new(shards: usize, homes: Homes) -> Self {
        let first = Affinity::of(0);
        let affinities = (1..).find(|&n| Affinity::of(n) == first).unwrap_or(1) as usize;
        let shard = || Shard {
            lock: Line::of(What::Pool),
            buckets: Line::of(What::Chunk),
            account: Copied::of(What::Account),
            by_longest: Default::default(),
            room: vec![BTreeSet::new(); 3 + 2 * affinities],
            dirty: 0,
            used: 0,
            fresh_units: 0,
        };
        Pages {
            chunks: Vec::new(),
            shards: (0..shards.max(1)).map(|_| shard()).collect(),
            space: Line::of(What::Space),
            entries: Vec::new(),
            affinities,
            homes,
        }
    }

    /// Granules so far.
    pub fn granules(&self) -> usize {
        self.chunks.len() * GRANULES
    }

    /// The line of the page map that has a granule's entry.
    pub fn entry(&mut self, granule: u32) -> &mut Copied {
        &mut self.entries[granule as usize / ENTRIES]
    }

    /// The chunk of a unit, and its place there.
    pub fn chunk_of(&mut self, unit: u32) -> (&mut Chunk, usize) {
        (&mut self.chunks[unit as usize / UNITS], unit as usize % UNITS)
    }

    /// Units of spans and runs in use.
    pub fn used(&self) -> usize {
        self.shards.iter().fold(0, |sum, shard| sum.wrapping_add(shard.used))
    }

    /// A tick begins.
    pub fn tick(&mut self) {
        self.chunks.iter_mut().for_each(Chunk::tick);
    }

    /// Ranges of pages that have been free since the tick and have been touched, which the next tick would give back:
    /// all of the shards that have most, of so many that all have their turn in time, and of the others short ones only while
    /// that takes few calls.
    pub fn old_ranges(&self) -> usize {
        let count = |shortest| {
            let mut of = vec![0; self.shards.len()];
            for chunk in &self.chunks {
                of[chunk.shard] += chunk.old_ranges(shortest);
            }
            of
        };
        let (all, long) = (count(1), count(PER_GRANULE));
        let mut shorts: Vec<usize> = all.iter().zip(&long).map(|(all, long)| all - long).collect();
        shorts.sort_unstable_by(|one, other| other.cmp(one));
        let most: usize = shorts.iter().take(shorts.len().div_ceil(TICK_TURNS)).sum();
        let short = most.max(shorts.iter().sum::<usize>().min(TICK_CALLS));
        long.iter().sum::<usize>() + short
    }

    fn shard_of(&mut self, caller: &Caller<'_>) -> usize {
        self.homes.of(caller) % self.shards.len()
    }

    /// Whether a granule's shard serves threads of the caller's node.
    pub fn is_near(&mut self, caller: &Caller<'_>, granule: u32) -> bool {
        let nodes = caller.machine.nodes.number.min(self.shards.len());
        let shard = self.chunks[granule as usize / GRANULES].shard;
        shard % nodes == self.homes.of(caller) % nodes
    }

    /// The caller looks how much is free, unless there are several shards. Whether it did.
    pub fn look_at_free(&mut self, caller: &mut Caller<'_>) -> bool {
        let [only] = &mut self.shards[..] else { return false };
        caller.read(&mut only.account);
        true
    }

    /// The caller looks how many fresh units its shard has handed out, or, without a heap, the first shard.
    pub fn look_at_fresh(&mut self, caller: &mut Caller<'_>) -> usize {
        let has_heap = self.homes.has_heap(caller.thread);
        let shard = if has_heap { self.shard_of(caller) } else { 0 };
        caller.read(&mut self.shards[shard].account);
        self.shards[shard].fresh_units
    }

    /// The caller adds to the counter of long runs freed of the run's shard, which lies beside its lock.
    pub fn count_long_run(&mut self, caller: &mut Caller<'_>, run: u32) {
        let shard = self.chunks[run as usize / UNITS].shard;
        caller.atomic(&mut self.shards[shard].lock);
    }

    /// A run's first unit.
    pub fn take_run(&mut self, caller: &mut Caller<'_>, units: usize) -> u32 {
        let number = self.shard_of(caller);
        let mut since = self.enter(caller, number);
        let at_least = |set: &BTreeSet<(usize, usize)>| set.range((units, 0)..).next().copied();
        let [runs, spans] = &self.shards[number].by_longest;
        let found = at_least(runs).or_else(|| at_least(spans)).map(|(_, chunk)| chunk);
        let chunk = match found {
            Some(chunk) => chunk,
            None => self.more(caller, number, Want::Run(units), &mut since),
        };
        if self.chunks[chunk].longest == UNITS {
            self.adapt(chunk, false);
        }
        caller.follow(&mut self.chunks[chunk].record);
        caller.execute(TAKE_RUN);
        let start = self.chunks[chunk].find(units).expect("the chunk has room");
        caller.fetch(self.chunks[chunk].length_line(start));
        self.take(caller, chunk, start, units);
        self.leave(caller, number, since);
        (chunk * UNITS + start) as u32
    }

    /// The runs that start at these units go back, under one lock for those of a shard.
    pub fn give_runs(&mut self, caller: &mut Caller<'_>, runs: &[u32]) {
        let mut rest: Vec<u32> = runs.to_vec();
        while let Some(first) = rest.first() {
            let number = self.chunks[*first as usize / UNITS].shard;
            let since = self.enter(caller, number);
            rest.retain(|&unit| {
                let (chunk, start) = (unit as usize / UNITS, unit as usize % UNITS);
                if self.chunks[chunk].shard != number {
                    return true;
                }
                caller.follow(&mut self.chunks[chunk].record);
                caller.fetch(self.chunks[chunk].length_line(start));
                caller.execute(GIVE_RUN);
                let n = self.chunks[chunk].length(start);
                self.give(caller, chunk, start, n, n);
                false
            });
            self.leave(caller, number, since);
        }
    }

    /// A granule for a span, by its number. `own`: whose chunks come first.
    pub fn take_granule(
        &mut self,
        caller: &mut Caller<'_>,
        dense: bool,
        own: Option<usize>,
    ) -> u32 {
        let number = self.shard_of(caller);
        let mut since = self.enter(caller, number);
        let own = own.map(|thread| thread % self.affinities);
        let mut found = match own {
            Some(own) => self
                .find(number, Has::DirtyRoomOf(own))
                .or_else(|| self.free_chunk(number))
                .or_else(|| self.find(number, Has::RoomOf(own))),
            None => self.find(number, Has::DirtyRoom).or_else(|| self.find(number, Has::Room)),
        };
        if found.is_none() && own.is_some() && self.is_plenty_free(caller) {
            found = self.find(number, Has::DirtyRoom);
        }
        if found.is_none() && dense {
            found = self.find(number, Has::DirtyRunRoom);
        }
        let chunk = match found {
            Some(chunk) => chunk,
            None => self.more(caller, number, Want::Span, &mut since),
        };
        caller.follow(&mut self.chunks[chunk].record);
        caller.execute(TAKE_SPAN);
        if self.chunks[chunk].longest == UNITS {
            self.adapt(chunk, true);
            self.chunks[chunk].affinity = own;
            self.has_room(chunk);
        }
        let dirty = self.chunks[chunk].free_granule(true);
        let granule = dirty.or_else(|| self.chunks[chunk].free_granule(false));
        let granule = granule.expect("the chunk has room");
        self.take(caller, chunk, granule * PER_GRANULE, PER_GRANULE);
        self.leave(caller, number, since);
        (chunk * GRANULES + granule) as u32
    }

    /// A span goes back, of which so many units were touched.
    pub fn give_granule(&mut self, caller: &mut Caller<'_>, granule: u32, touched: usize) {
        let (chunk, place) = (granule as usize / GRANULES, granule as usize % GRANULES);
        let number = self.chunks[chunk].shard;
        let since = self.enter(caller, number);
        caller.change(self.entry(granule));
        caller.follow(&mut self.chunks[chunk].record);
        caller.execute(GIVE_SPAN);
        self.give(caller, chunk, place * PER_GRANULE, PER_GRANULE, touched);
        self.leave(caller, number, since);
    }

    fn enter(&mut self, caller: &mut Caller<'_>, number: usize) -> f64 {
        let shard = &mut self.shards[number];
        let since = caller.acquire(&mut shard.lock);
        caller.follow(&mut shard.buckets);
        since
    }

    fn leave(&mut self, caller: &mut Caller<'_>, number: usize, since: f64) {
        caller.release(&mut self.shards[number].lock, since);
    }

    fn take(&mut self, caller: &mut Caller<'_>, chunk: usize, start: usize, n: usize) {
        self.unlist(chunk);
        self.chunks[chunk].sets.iter_mut().for_each(|set| caller.fetch(set));
        let dirty = self.chunks[chunk].take(start, n);
        self.list(chunk);
        let shard = &mut self.shards[self.chunks[chunk].shard];
        shard.fresh_units += n - dirty;
        shard.dirty -= dirty;
        shard.used = shard.used.wrapping_add(n);
        caller.change(&mut shard.account);
    }

    fn give(
        &mut self,
        caller: &mut Caller<'_>,
        chunk: usize,
        start: usize,
        n: usize,
        dirty: usize,
    ) {
        self.unlist(chunk);
        let [used, dirty_ones, _] = &mut self.chunks[chunk].sets;
        [used, dirty_ones].into_iter().for_each(|set| caller.fetch(set));
        self.chunks[chunk].give(start, n, dirty);
        self.list(chunk);
        let shard = &mut self.shards[self.chunks[chunk].shard];
        shard.dirty += dirty;
        shard.used = shard.used.wrapping_sub(n);
        caller.change(&mut shard.account);
        if self.chunks[chunk].longest >= PER_GRANULE {
            self.has_room(chunk);
        }
    }

    fn unlist(&mut self, chunk: usize) {
        let c = &self.chunks[chunk];
        self.shards[c.shard].by_longest[usize::from(c.for_spans)].remove(&(c.longest, chunk));
    }

    fn list(&mut self, chunk: usize) {
        let c = &self.chunks[chunk];
        if c.longest != 0 {
            self.shards[c.shard].by_longest[usize::from(c.for_spans)].insert((c.longest, chunk));
        }
    }

    fn adapt(&mut self, chunk: usize, for_spans: bool) {
        self.unlist(chunk);
        self.chunks[chunk].for_spans = for_spans;
        self.list(chunk);
    }

    /// Notes that a chunk has a free granule, and perhaps a dirty one.
    fn has_room(&mut self, chunk: usize) {
        let c = &self.chunks[chunk];
        let (for_spans, affinity) = (c.for_spans, c.affinity);
        let shard = &mut self.shards[c.shard];
        if !for_spans {
            shard.room[index(Has::DirtyRunRoom)].insert(chunk);
            return;
        }
        shard.room[index(Has::Room)].insert(chunk);
        shard.room[index(Has::DirtyRoom)].insert(chunk);
        if let Some(of) = affinity {
            shard.room[index(Has::RoomOf(of))].insert(chunk);
            shard.room[index(Has::DirtyRoomOf(of))].insert(chunk);
        }
    }

    /// The lowest chunk that has such a granule.
    fn find(&mut self, number: usize, has: Has) -> Option<usize> {
        let dirty = !matches!(has, Has::Room | Has::RoomOf(_));
        let affinity = match has {
            Has::RoomOf(of) | Has::DirtyRoomOf(of) => Some(of),
            _ => None,
        };
        while let Some(&chunk) = self.shards[number].room[index(has)].first() {
            let c = &self.chunks[chunk];
            if c.shard == number
                && c.for_spans == (has != Has::DirtyRunRoom)
                && (affinity.is_none() || c.affinity == affinity)
                && c.free_granule(dirty).is_some()
            {
                return Some(chunk);
            }
            self.shards[number].room[index(has)].remove(&chunk);
        }
        None
    }

    /// A chunk of the shard that is all free.
    fn free_chunk(&self, number: usize) -> Option<usize> {
        let all_free = |set: &BTreeSet<(usize, usize)>| set.range((UNITS, 0)..).next().copied();
        let [runs, spans] = &self.shards[number].by_longest;
        all_free(spans).or_else(|| all_free(runs)).map(|(_, chunk)| chunk)
    }

    /// Whether a sixteenth of all pages is free: the sum over all shards, a line of each.
    fn is_plenty_free(&mut self, caller: &mut Caller<'_>) -> bool {
        self.shards.iter_mut().for_each(|shard| caller.read(&mut shard.account));
        let dirty: usize = self.shards.iter().map(|shard| shard.dirty).sum();
        dirty > self.used() / 16
    }

    /// A chunk with room for what the shard, which the caller has had the lock of `since` then, has none for: from the
    /// fullest one, or from the space.
    fn more(
        &mut self,
        caller: &mut Caller<'_>,
        number: usize,
        want: Want,
        since: &mut f64,
    ) -> usize {
        if self.shards.len() > 1
            && self.is_plenty_free(caller)
            && let Some(chunk) = self.steal(caller, number, want, since)
        {
            return chunk;
        }
        // What is in use decides whether a fresh chunk comes as a huge page.
        self.shards.iter_mut().for_each(|shard| caller.read(&mut shard.account));
        let taken = caller.acquire(&mut self.space);
        caller.execute(TAKE_CHUNK);
        caller.release(&mut self.space, taken);
        self.chunks.push(Chunk::new(want == Want::Span, number));
        let chunk = self.chunks.len() - 1;
        self.list(chunk);
        let lines = self.granules() / ENTRIES;
        self.entries.resize(lines, Copied::of(What::PageMap));
        chunk
    }

    /// Moves a chunk of the shard with most free pages to the caller's. Of two locks, that of the lower number is taken
    /// first.
    fn steal(
        &mut self,
        caller: &mut Caller<'_>,
        number: usize,
        want: Want,
        since: &mut f64,
    ) -> Option<usize> {
        let others = (0..self.shards.len()).filter(|&other| other != number);
        let others = others.filter(|&other| self.shards[other].dirty != 0);
        let other = others.min_by_key(|&other| Reverse(self.shards[other].dirty))?;
        let theirs = if number < other {
            self.enter(caller, other)
        } else {
            self.leave(caller, number, *since);
            let theirs = self.enter(caller, other);
            *since = self.enter(caller, number);
            theirs
        };
        caller.execute(GIVE_RUN);
        let found = self.spare(other, want);
        if let Some(chunk) = found {
            caller.follow(&mut self.chunks[chunk].record);
            caller.fetch(&mut self.chunks[chunk].sets[1]);
            self.unlist(chunk);
            let dirty = self.chunks[chunk].dirty_units();
            self.shards[other].dirty -= dirty;
            self.shards[number].dirty += dirty;
            self.chunks[chunk].shard = number;
            if self.chunks[chunk].longest == UNITS {
                self.chunks[chunk].for_spans = want == Want::Span;
            }
            self.list(chunk);
            self.has_room(chunk);
            caller.change(&mut self.shards[other].account);
            caller.change(&mut self.shards[number].account);
        }
        self.leave(caller, other, theirs);
        found
    }

    /// A chunk of a shard whose dirty pages would serve a request, among the first few that have most room: one that is
    /// all free, or else one of the same kind.
    fn spare(&self, number: usize, want: Want) -> Option<usize> {
        const FEW: usize = 16;
        let (for_spans, units) = match want {
            Want::Run(units) => (false, units),
            Want::Span => (true, 1),
        };
        let serves = |chunk: &usize| match want {
            Want::Run(units) => self.chunks[*chunk].dirty_units() >= units,
            Want::Span => self.chunks[*chunk].free_granule(true).is_some(),
        };
        let kinds = [(for_spans, UNITS), (!for_spans, UNITS), (for_spans, units)];
        kinds.into_iter().find_map(|(kind, least)| {
            let with_room = self.shards[number].by_longest[usize::from(kind)].range((least, 0)..);
            with_room.rev().map(|(_, chunk)| *chunk).take(FEW).find(serves)
        })
    }
}

/// Where the hints of a kind are.
fn index(has: Has) -> usize {
    match has {
        Has::Room => 0,
        Has::DirtyRoom => 1,
        Has::DirtyRunRoom => 2,
        Has::RoomOf(of) => 3 + 2 * of,
        Has::DirtyRoomOf(of) => 4 + 2 * of,
    }
}

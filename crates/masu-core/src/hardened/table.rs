//! The table of large blocks: an open-addressed one from addresses to lengths; and the freed ones that wait or are
//! kept.

use super::entry::{Entry, KEPT_LONGEST, Kept, LIVE, Range};
use super::filled::Filled;
use super::options;
use super::place::{OPENED, map_records};
use super::random::Stream;
use super::spares::Spares;
use crate::ledger;
use crate::report::Wrong;
use crate::size_class::UNIT;
use crate::sync::Ordering;
use crate::sys::mem;
use core::mem::offset_of;

/// From this many blocks on guards are short; the second applies if the kernel marks guards without mappings.
const MANY: usize = 8192;
const MANY_MARKED: usize = 2048;
/// From this many live narrow blocks on, the addresses of freed ones stay.
const ISLANDS: usize = 8192;
/// Least bytes of a guard behind a block, and the least range from which its random part is drawn.
const WIDE: usize = 1 << 20;
/// Mappings that wait: in random places, then in a queue.
const DRAWN: usize = 64;
const QUEUE: usize = 192;
/// Freed blocks whose pages are kept for the next ones, and the bounds of their bytes: within these, one in eight of the
/// bytes that are live.
pub const KEPT: usize = 64;
const KEPT_LEAST: usize = 24 << 20;
const KEPT_MOST: usize = 256 << 20;
/// This many blocks are kept after one before its addresses serve again.
const PAUSE: u32 = 8;
/// Entries of the first table.
const FIRST: usize = 256;

/// How far a walk over a table has come.
#[derive(Default)]
pub struct Cursor {
    table: usize,
    index: usize,
}

pub struct Table {
    /// Address of `capacity` entries, a power of two; 0 if there are none so far.
    entries: usize,
    capacity: usize,
    count: usize,
    pub stream: Stream,
    pub filled: Filled,
    /// Whether there is a limit on addresses.
    pub narrow: bool,
    waiting: [Range; DRAWN + QUEUE],
    next: usize,
    kept: [Kept; KEPT],
    kept_bytes: usize,
    /// How many blocks have been kept so far.
    keeps: u32,
    /// Live narrow blocks, and addresses for others.
    narrow_count: usize,
    pub spares: Spares,
}

/// Where entries and capacity are in a table, what is kept, and the address and the bytes of pages in that, for `outside`.
pub const FIELDS: [usize; 5] = [
    offset_of!(Table, entries),
    offset_of!(Table, capacity),
    offset_of!(Table, kept),
    offset_of!(Kept, pages) + offset_of!(Range, at),
    offset_of!(Kept, pages) + offset_of!(Range, len),
];

/// Where the search for an address begins.
fn place(address: usize) -> usize {
    ((address / UNIT) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(24) as usize
}

/// Puts an entry among those of a table, which must have room.
fn put(entries: &mut [Entry], entry: Entry) {
    let mask = entries.len().wrapping_sub(1);
    let mut at = place(entry.address) & mask;
    while let Some(there) = entries.get_mut(at) {
        if there.address == 0 {
            *there = entry;
            return;
        }
        at = (at + 1) & mask;
    }
}

impl Table {
    pub fn entries(&mut self) -> &mut [Entry] {
        if self.entries == 0 {
            return &mut [];
        }
        // SAFETY: invariant 1 of `hardened::large`; mapped for that many, for ever.
        unsafe { core::slice::from_raw_parts_mut(self.entries as *mut Entry, self.capacity) }
    }

    /// The index of an address's entry, and the entry.
    pub fn find(&mut self, address: usize) -> Option<(usize, Entry)> {
        let mask = self.capacity.wrapping_sub(1);
        let entries = self.entries();
        let mut at = place(address) & mask;
        loop {
            match entries.get(at)? {
                Entry { address: 0, .. } => return None,
                entry if entry.address == address => return Some((at, *entry)),
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Makes sure that there is room for one more. Former tables stay mapped, without pages: see [`peek`].
    pub fn make_room(&mut self) -> bool {
        if (self.count + 1) * 2 <= self.capacity {
            return true;
        }
        let capacity = (self.capacity * 2).max(FIRST);
        let bytes = capacity * size_of::<Entry>();
        let Some(fresh) = map_records(bytes) else { return false };
        // SAFETY: fresh and zero, which is a table without entries.
        let entries = unsafe { core::slice::from_raw_parts_mut(fresh as *mut Entry, capacity) };
        for entry in self.entries().iter().filter(|entry| entry.address != 0) {
            put(entries, *entry);
        }
        let (former, was) = (self.entries, self.capacity * size_of::<Entry>());
        (self.entries, self.capacity) = (fresh, capacity);
        // SAFETY: only `peek` may still read it, and takes zeroes for no entry.
        let is_left = was == 0 || !unsafe { mem::discard(former, was) };
        ledger::TABLES.fetch_add(if is_left { bytes } else { bytes - was }, Ordering::Relaxed);
        true
    }

    /// Puts an entry in, for which there must be room.
    pub fn put(&mut self, entry: Entry) {
        put(self.entries(), entry);
        self.narrow_count += usize::from(entry.is_narrow());
        self.count += 1;
    }

    /// Changes the entry at an index, but not its address.
    pub fn change(&mut self, index: usize, to: Entry) {
        if let Some(entry) = self.entries().get_mut(index) {
            *entry = to;
        }
    }

    /// Takes out an entry of a heap, from `from` on, which then says where to go on. Returns `None` if there is none.
    pub fn take_of(&mut self, owner: u32, from: &mut Cursor) -> Option<Entry> {
        if from.table != self.entries {
            *from = Cursor { table: self.entries, index: 0 };
        }
        loop {
            let begun = from.index;
            while let Some(entry) = self.entries().get(from.index).copied() {
                if entry.address != 0 && entry.owner == owner {
                    self.take(from.index);
                    return Some(entry);
                }
                from.index += 1;
            }
            if begun == 0 {
                return None;
            }
            // Between two calls other threads take out entries, which may move the heap's to where the walk has been.
            from.index = 0;
        }
    }

    /// Takes out the entry at an index.
    pub fn take(&mut self, index: usize) {
        let mask = self.capacity.wrapping_sub(1);
        let entries = self.entries();
        let narrow = entries.get(index).is_some_and(Entry::is_narrow);
        // Entries that follow without a gap may belong before it.
        let (mut hole, mut at) = (index, (index + 1) & mask);
        while let Some(entry) = entries.get(at).copied().filter(|entry| entry.address != 0) {
            let home = place(entry.address) & mask;
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                if let Some(there) = entries.get_mut(hole) {
                    *there = entry;
                }
                hole = at;
            }
            at = (at + 1) & mask;
        }
        if let Some(there) = entries.get_mut(hole) {
            *there = Entry::default();
        }
        self.count -= 1;
        self.narrow_count -= usize::from(narrow);
    }

    /// Whether unmapping a narrow range now may leave others as islands, each a mapping.
    pub fn has_islands(&self) -> bool {
        self.narrow_count >= ISLANDS
    }

    /// Puts a mapping into quarantine. Returns the one that comes out.
    pub fn wait(&mut self, range: Range) -> Range {
        let place = self.stream.below(DRAWN);
        let mut put = |place: usize, range| match self.waiting.get_mut(place) {
            Some(there) => core::mem::replace(there, range),
            None => range,
        };
        let drawn = put(place, range);
        let out = put(DRAWN + self.next, drawn);
        self.next = if self.next + 1 >= QUEUE { 0 } else { self.next + 1 };
        out
    }

    /// Keeps a freed block's pages. Returns `false` if there is no room, and the pages are to go.
    pub fn keep(&mut self, new: Kept) -> bool {
        let most = (LIVE.load(Ordering::Relaxed) / 8).clamp(KEPT_LEAST, KEPT_MOST);
        let room = self.kept_bytes + new.pages.len <= most;
        let Some(place) = self.kept.iter_mut().find(|kept| room && kept.pages.len == 0) else {
            return false;
        };
        *place = Kept { since: self.keeps, ..new };
        self.keeps = self.keeps.wrapping_add(1);
        self.count_kept(new.pages.len.cast_signed());
        true
    }

    /// Takes kept pages where a block of `len` bytes can be put: some of those that have waited, at random. If all are
    /// too short, takes the longest of those to which the guard behind leaves room to grow.
    pub fn take_place(&mut self, len: usize, align: usize) -> Option<Kept> {
        let (first, keeps) = (self.stream.below(KEPT), self.keeps);
        let (after, before) = self.kept.split_at_mut_checked(first)?;
        let mut found: Option<&mut Kept> = None;
        for kept in before.iter_mut().chain(after) {
            let bytes = kept.pages.len;
            let end = (kept.mapping.at + kept.mapping.len).wrapping_sub(WIDE + UNIT);
            let fits = bytes.wrapping_sub(1) < 2 * len
                && (bytes >= len || len <= KEPT_LONGEST && kept.pages.at + len <= end)
                && kept.pages.at.is_multiple_of(align)
                && keeps.wrapping_sub(kept.since) > PAUSE;
            if fits && found.as_ref().is_none_or(|found| found.pages.len < bytes) {
                found = Some(kept);
                if bytes >= len {
                    break;
                }
            }
        }
        let found = found?;
        let kept = *found;
        found.pages.len = 0;
        self.count_kept(-kept.pages.len.cast_signed());
        Some(kept)
    }

    /// Takes the shortest kept pages that are enough for `len` bytes, or else the longest. Returns `None` if there are
    /// none, or so few that they had better wait until a block can be put there.
    pub fn take_kept(&mut self, len: usize) -> Option<Kept> {
        if self.kept_bytes + len <= LIVE.load(Ordering::Relaxed) / 4 {
            return None;
        }
        let key = |kept: &Kept| match kept.pages.len {
            0 => None,
            bytes if bytes >= len => Some((0, bytes)),
            bytes => Some((1, usize::MAX - bytes)),
        };
        let all = self.kept.iter_mut().filter_map(|kept| Some((key(kept)?, kept)));
        let (_, found) = all.min_by_key(|(key, _)| *key)?;
        let kept = *found;
        found.pages.len = 0;
        self.count_kept(-kept.pages.len.cast_signed());
        Some(kept)
    }

    fn count_kept(&mut self, bytes: isize) {
        self.kept_bytes = self.kept_bytes.wrapping_add_signed(bytes);
        for account in [&ledger::DIRTY_HARDENED, &OPENED] {
            account.fetch_add(bytes.cast_unsigned(), Ordering::Relaxed);
        }
    }

    /// Takes kept pages that were there when the last tick came, or any.
    pub fn take_old(&mut self, any: bool) -> Option<Kept> {
        let mut all = self.kept.iter_mut();
        let found = all.find(|kept| kept.pages.len != 0 && (any || kept.old))?;
        let kept = *found;
        found.pages.len = 0;
        self.count_kept(-kept.pages.len.cast_signed());
        Some(kept)
    }

    /// Notes a tick.
    pub fn grow_old(&mut self) {
        self.kept.iter_mut().for_each(|kept| kept.old = true);
    }

    /// The lengths of the guards of a block of `len` bytes; `None` for a page each.
    pub fn guards(&mut self, len: usize) -> Option<(usize, usize)> {
        let many = if options::has_marks() { MANY_MARKED } else { MANY };
        if self.count >= many {
            return None;
        }
        if self.narrow {
            return Some((UNIT, UNIT));
        }
        let most = (len / 2).clamp(WIDE, 1 << 40);
        let mut draw = || self.stream.below_many(most) / UNIT * UNIT;
        Some((UNIT + draw(), WIDE + UNIT + draw()))
    }

    #[cold]
    pub fn explain(&mut self, p: usize) -> Option<Wrong> {
        let around = self
            .entries()
            .iter()
            .find(|entry| entry.address != 0 && p.wrapping_sub(entry.address) < entry.len());
        if let Some(entry) = around {
            return Some(Wrong::Inside { start: entry.address, bytes: entry.asked });
        }
        let kept = self.kept.iter().filter(|kept| kept.pages.len != 0).map(|kept| kept.mapping);
        let waits = self
            .waiting
            .iter()
            .copied()
            .chain(kept)
            .any(|range| p.wrapping_sub(range.at) < range.len);
        waits.then_some(Wrong::Freed { bytes: 0 })
    }
}

/// What [`Table::find`] finds, without the lock, if no thread writes meanwhile: a write makes it miss.
///
/// # Safety
/// It must be a table, for ever.
pub(super) unsafe fn peek(table: *const Table, address: usize) -> Option<Entry> {
    // SAFETY: as the caller says; former tables stay mapped, and each word is read by itself.
    unsafe {
        let capacity = (&raw const (*table).capacity).read_volatile();
        let entries = (&raw const (*table).entries).read_volatile() as *const Entry;
        let mask = capacity.wrapping_sub(1);
        let mut at = place(address) & mask;
        for _ in 0..capacity {
            let entry = entries.add(at).read_volatile();
            if entry.address == 0 || entry.address == address {
                return (entry.address != 0).then_some(entry);
            }
            at = (at + 1) & mask;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another thread's free closes the gap that its entry leaves.
    #[test]
    fn all_of_a_heap_is_found_although_entries_move() {
        // SAFETY: all zero is an empty table.
        let mut table: Table = unsafe { core::mem::zeroed() };
        assert!(table.make_room());
        // Four whose search begins in the same place, which lie side by side.
        let (mask, begin) = (table.capacity - 1, place(UNIT) & (table.capacity - 1));
        let alike = (1..).map(|n| n * UNIT).filter(|&at| place(at) & mask == begin);
        let all: Vec<_> = alike.take(4).collect();
        for (&address, owner) in all.iter().zip([1, 1, 5, 5]) {
            table.put(Entry { address, owner, ..Entry::default() });
        }
        let mut from = Cursor::default();
        let first = table.take_of(5, &mut from).map(|entry| entry.address);
        let (other, _) = table.find(all[0]).expect("it is there");
        table.take(other);
        let second = table.take_of(5, &mut from).map(|entry| entry.address);
        assert_eq!([first, second], [Some(all[2]), Some(all[3])]);
        assert!(table.take_of(5, &mut from).is_none());
        assert!(table.find(all[1]).is_some());
    }
}

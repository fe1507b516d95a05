//! Live samples by the addresses of their blocks, and the sites that they belong to.
//!
//! A free that may be one of a sample looks at the head of its address's chain ([`heads`]), without the lock: 0 says no.
//!
//! Invariants, under the lock:
//! 1. every record with an address is in that address's chain, and the others are in the list of free ones, or
//!    were never used.
//! 2. a site's `live` is the sum over its records; `total` is the sum over all sites.
//! 3. sites are as [`sites`] says; [`clear`](Changing::clear) removes all records before them.

use super::area::{Area, ONE, RECORDS, Record, kind_of, size_of_kind};
use super::draw;
use super::heads::Heads;
use super::peak;
use super::sites::{self, SITES, site_of};
use crate::ledger;
use crate::lock::{Guard, Lock};
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use crate::sys::{mem, time};

static LOCK: Lock = Lock::new();
static HEADS: Heads = Heads::new();
/// Records ever used, and the first free one plus 1. Under the lock, like what follows.
pub static USED: AtomicUsize = AtomicUsize::new(0);
static FREE: AtomicUsize = AtomicUsize::new(0);
/// Samples that could not be kept, because of a fork or the bound on memory.
pub static DROPPED: AtomicU64 = AtomicU64::new(0);
/// How often everything was forgotten.
static CLEARED: AtomicU32 = AtomicU32::new(0);
/// Odd while anything here changes, and another number afterwards: a reader from outside sees whether what it has read
/// is of one moment.
pub static CHANGES: AtomicU64 = AtomicU64::new(0);

/// The lock, held by a thread that changes something.
pub struct Changing<'a>(#[expect(dead_code, reason = "gives the lock back")] Guard<'a>);

impl<'a> Changing<'a> {
    fn under(guard: Guard<'a>) -> Self {
        CHANGES.store(CHANGES.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        Changing(guard)
    }

    /// Takes the lock. Returns `None` if a fork stands still.
    pub(super) fn enter() -> Option<Changing<'static>> {
        LOCK.enter().map(Changing::under)
    }

    /// Forgets all samples and sites.
    pub fn clear(&self) {
        let Some(area) = Area::get() else { return };
        for counter in [&USED, &FREE] {
            counter.store(0, Ordering::Relaxed);
        }
        sites::clear();
        CLEARED.fetch_add(1, Ordering::Relaxed);
        DROPPED.store(0, Ordering::Relaxed);
        peak::clear();
        let (start, length) = area.tables();
        // SAFETY: invariant 1 of `prof::area`: mapped for ever, and its lock is held. A thread that reads a head
        // meanwhile reads either 0 or what it was, and then waits for the lock. What the kernel does not take back is
        // zeroed by hand.
        unsafe {
            if !mem::discard(start, length) {
                (start as *mut u8).write_bytes(0, length);
            }
        }
        HEADS.begin_anew();
        ledger::PROFILE.store(used_bytes(), Ordering::Relaxed);
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        CHANGES.store(CHANGES.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

/// Gets ready for a rate.
pub fn prepare(rate: usize) -> bool {
    make(&LOCK.lock(), rate)
}

/// The same for callers that must not wait until a fork is over; returns the lock.
pub fn enter(rate: usize) -> Option<Changing<'static>> {
    let guard = LOCK.enter()?;
    make(&guard, rate).then(|| Changing::under(guard))
}

fn make(_guard: &Guard, rate: usize) -> bool {
    sites::make_room(rate);
    Area::make().is_some()
}

fn hash_of(address: usize) -> usize {
    (address / 16).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
}

fn head_of(area: Area, address: usize) -> &'static AtomicU32 {
    area.head(HEADS.of(hash_of(address)))
}

/// A sample that has just been drawn.
pub struct Drawn {
    /// Its block.
    pub address: usize,
    /// Bytes that were asked for.
    pub size: usize,
    /// Bytes of the block.
    pub usable: usize,
    /// The rate that it was drawn with; 0 if every block is recorded.
    pub rate: usize,
    /// See [`Record`].
    pub home: u32,
    /// See [`Record`].
    pub thread: u32,
    /// See [`peak::add`].
    pub most: fn() -> u64,
}

/// Where a sample was allocated.
pub enum Origin<'a> {
    /// A stack.
    Stack(&'a [usize]),
    /// A site that stays for ever.
    Site(u32),
}

/// Keeps a sample. Returns the bytes that it stands for; `None` if there is no room, or a fork stands still.
pub fn insert(drawn: Drawn, origin: Origin) -> Option<u64> {
    let Drawn { address, size, usable, rate, home, thread, most } = drawn;
    let area = Area::get()?;
    let chance = if rate == 0 { 1.0 } else { draw::probability(usable, rate) };
    let objects = (ONE as f64 / chance) as u64;
    let bytes = ((size as u128 * u128::from(objects)) >> ONE.trailing_zeros()) as u64;
    let kind = kind_of(usable);
    let born = time::now_ms();
    let table = Changing::enter()?;
    end_what_was_left(area, &table);
    if peak::samples() != 0 {
        // Takes out a sample whose end found no place.
        take(area, address, &table);
    }
    // SAFETY: under the lock; indices come from `new_record` and `site_of`: invariant 1 of `prof::area`.
    unsafe {
        let site = match origin {
            Origin::Stack(frames) => site_of(area, frames, kind)?,
            Origin::Site(site) => site,
        };
        let index = new_record(area)?;
        link(area, index, Record { address, bytes, objects, born, next: 0, site, home, thread });
        (*area.site(site)).drawn(chance, objects, bytes);
    }
    peak::add(bytes, most);
    ledger::PROFILE.store(used_bytes(), Ordering::Relaxed);
    Some(bytes)
}

/// Counts a sample that could not be kept.
#[cold]
pub fn dropped() {
    DROPPED.fetch_add(1, Ordering::Relaxed);
}

/// Ends the sample of a block, if it is one.
pub fn remove(address: usize) {
    let Some(area) = Area::get() else { return };
    if !may_have(area, address) {
        return;
    }
    match Changing::enter() {
        Some(table) => _ = take(area, address, &table),
        None => leave_for_later(address),
    }
}

/// The bytes with which a block was drawn; `None` if it is no sample, or a fork stands still.
pub fn usable(address: usize) -> Option<usize> {
    let area = Area::get()?;
    let _guard = LOCK.enter()?;
    // SAFETY: under the lock; a record in use has a site.
    unsafe {
        let (_, at) = find(area, address)?;
        let site = (*area.record(at - 1)).site;
        Some(size_of_kind((*area.site(site)).kind) as usize)
    }
}

/// A block's record and the one before it in its chain, by their numbers from 1 on; 0: the chain's head.
///
/// # Safety
/// The lock must be held.
unsafe fn find(area: Area, address: usize) -> Option<(u32, u32)> {
    let (mut before, mut at) = (0, head_of(area, address).load(Ordering::Relaxed));
    while at != 0 {
        // SAFETY: under the lock, chains consist of records in use (invariant 1).
        let record = unsafe { &*area.record(at - 1) };
        if record.address == address {
            return Some((before, at));
        }
        (before, at) = (at, record.next);
    }
    None
}

/// Whether a block of the caller's may have a record.
pub(super) fn may_have(area: Area, address: usize) -> bool {
    head_of(area, address).load(Ordering::Relaxed) != 0
}

/// Addresses whose samples ended while a fork stood still; 0 if none. The next thread that has the lock ends them,
/// before it enters another sample there. A sample that finds no place here stays in the profile until then.
static LATER: [AtomicUsize; 256] = [const { AtomicUsize::new(0) }; 256];
/// Whether there may be any.
static ANY_LATER: AtomicBool = AtomicBool::new(false);

#[cold]
pub(super) fn leave_for_later(address: usize) {
    let free = |slot: &&AtomicUsize| {
        slot.compare_exchange(0, address, Ordering::Release, Ordering::Relaxed).is_ok()
    };
    if LATER.iter().find(free).is_some() {
        ANY_LATER.store(true, Ordering::Release);
    }
}

/// Ends the samples that were left.
fn end_what_was_left(area: Area, table: &Changing) {
    if ANY_LATER.swap(false, Ordering::Acquire) {
        for slot in &LATER {
            let address = slot.swap(0, Ordering::Acquire);
            if address != 0 {
                take(area, address, table);
            }
        }
    }
}

/// Ends the samples of all blocks for which `ends` returns true.
pub fn remove_all(ends: impl Fn(usize) -> bool) {
    let Some(area) = Area::get() else { return };
    let Some(table) = Changing::enter() else { return };
    for index in 0..USED.load(Ordering::Relaxed) as u32 {
        // SAFETY: under the lock, and invariant 1 of `prof::area`.
        let address = unsafe { (*area.record(index)).address };
        if address != 0 && ends(address) {
            take(area, address, &table);
        }
    }
}

/// Takes out the sample of a block, if it is one; the caller may put it back.
#[cold]
#[inline(never)]
pub fn set_aside(address: usize) -> Option<Record> {
    let area = Area::get()?;
    let table = Changing::enter()?;
    let record = take(area, address, &table)?;
    Some(Record { next: CLEARED.load(Ordering::Relaxed), ..record })
}

/// Puts back a sample that was taken out, unless all were forgotten since: its block is unchanged.
pub fn put_back(record: Record) {
    let Some(area) = Area::get() else { return };
    let Some(_guard) = Changing::enter() else { return };
    if record.next != CLEARED.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: under the lock, and invariant 3: the site was one, and is as long as nothing is forgotten.
    unsafe {
        let Some(index) = new_record(area) else { return };
        link(area, index, record);
        // It lives on.
        let s = &mut *area.site(record.site);
        s.lived = s.lived.saturating_sub(record.lived());
    }
    // It was there before, so this is no peak.
    peak::add(record.bytes, || 0);
}

/// Enters a record that is about to count. Under the lock.
///
/// # Safety
/// The record must be unused, and its site must be one.
unsafe fn link(area: Area, index: u32, record: Record) {
    // SAFETY: as the caller says.
    unsafe {
        let (at, head) = (area.record(index), head_of(area, record.address));
        // Written before the head is read, which lies on the same page at first: so that has one fault.
        at.write(record);
        (*at).next = head.load(Ordering::Relaxed);
        head.store(index + 1, Ordering::Release);
        let s = &mut *area.site(record.site);
        peak::put_aside(s);
        s.live.add(record.objects, record.bytes);
    }
    if HEADS.are_few(peak::samples()) {
        grow(area);
    }
}

/// Enters all records in the next table of heads. Under the lock.
#[cold]
fn grow(area: Area) {
    HEADS.grow(|next| {
        for index in 0..USED.load(Ordering::Relaxed) as u32 {
            // SAFETY: under the lock, and invariant 1 of `prof::area`.
            let record = unsafe { &mut *area.record(index) };
            if record.address != 0 {
                let head = area.head(next.of(hash_of(record.address)));
                record.next = head.load(Ordering::Relaxed);
                head.store(index + 1, Ordering::Relaxed);
            }
        }
    });
}

/// Takes out a block's record, if it has one.
pub(super) fn take(area: Area, address: usize, _: &Changing) -> Option<Record> {
    // SAFETY: under the lock; a record in use has a site.
    unsafe {
        let (before, at) = find(area, address)?;
        let record = area.record(at - 1);
        match before {
            0 => head_of(area, address).store((*record).next, Ordering::Relaxed),
            _ => (*area.record(before - 1)).next = (*record).next,
        }
        let (objects, bytes) = ((*record).objects, (*record).bytes);
        let s = &mut *area.site((*record).site);
        peak::put_aside(s);
        s.live.sub(objects, bytes);
        s.lived = s.lived.saturating_add((*record).lived());
        peak::sub(bytes);
        let taken = *record;
        (*record).address = 0;
        (*record).next = FREE.swap(at as usize, Ordering::Relaxed) as u32;
        Some(taken)
    }
}

/// An unused record. Under the lock.
fn new_record(area: Area) -> Option<u32> {
    let free = FREE.load(Ordering::Relaxed) as u32;
    if free != 0 {
        // SAFETY: under the lock, and invariant 1 of `prof::area`.
        FREE.store(unsafe { (*area.record(free - 1)).next } as usize, Ordering::Relaxed);
        return Some(free - 1);
    }
    let used = USED.load(Ordering::Relaxed);
    (used < RECORDS).then(|| {
        USED.store(used + 1, Ordering::Relaxed);
        used as u32
    })
}

/// Bytes of memory that the profile has used.
#[inline(always)]
pub fn used_bytes() -> usize {
    let records = USED.load(Ordering::Relaxed) * size_of::<Record>();
    let tables = HEADS.bytes();
    Area::get().map_or(0, |_| tables + records + sites::bytes())
}

/// The lock, for fork.
pub fn lock_for_fork() -> &'static Lock {
    &LOCK
}

/// Copies the sites to a mapping of `length` bytes, and calls `then` with where they end in it before it gives the lock
/// back. Returns the number of the last peak; `None` if a fork stands still, or there are more sites than when the
/// mapping was made.
///
/// # Safety
/// The mapping must be the caller's.
pub(super) unsafe fn copy_sites(
    area: Area,
    to: usize,
    length: usize,
    then: impl FnOnce(usize, &Changing),
) -> Option<u64> {
    let table = Changing::enter()?;
    end_what_was_left(area, &table);
    let end = SITES.load(Ordering::Relaxed);
    if end > length {
        return None;
    }
    // SAFETY: both are mapped and that long; under the lock no thread writes the sites.
    unsafe { (to as *mut u8).copy_from_nonoverlapping(area.sites() as *const u8, end) };
    then(end, &table);
    Some(peak::number())
}

/// Every sample that is alive.
pub(super) fn live(area: Area, _: &Changing) -> impl Iterator<Item = &'static Record> {
    // SAFETY: under the lock, and invariant 1 of `prof::area`.
    let all = (0..used_records() as u32).map(move |index| unsafe { &*area.record(index) });
    all.filter(|record| record.address != 0)
}

/// Records ever used: as many as can be alive.
pub(super) fn used_records() -> usize {
    USED.load(Ordering::Relaxed)
}

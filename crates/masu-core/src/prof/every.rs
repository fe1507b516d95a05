//! Records every block, not only samples: for tests. The profile is exact then, and a report about any block has the
//! stacks of its allocation and of its free.
//!
//! Live blocks have the profile's records, and each stack is kept once, as a site; the site of a free has no blocks. A
//! freed block is remembered until [`FREED`](super::area::FREED) others were freed.

use super::area::{self, Area, Ended, Record};
use super::names::{calling_thread, number_of};
use super::sites::{self, site_of};
use super::table::{self, Drawn, Origin};
use crate::features;
use crate::stack;
use crate::sync::{AtomicBool, AtomicUsize, Ordering};
use crate::sys::tags::untagged;

/// Whether every block is recorded.
static IS_ON: AtomicBool = AtomicBool::new(false);
/// Frees so far. Changed under the table's lock.
static ENDED: AtomicUsize = AtomicUsize::new(0);
/// The kind of the sites of frees, which no block has.
const FREES: u16 = u16::MAX;
/// Frames of a stack: there is a walk for each allocation and each free.
const DEPTH: usize = 12;
/// Most bytes between a block and an address that is reported as near it: as far as inaccessible pages surely reach;
/// and behind blocks of more than 128 KiB, whose guards are long.
const NEAR: usize = 4095;
const NEAR_LARGE: usize = 1 << 20;

/// Whether every block is recorded.
#[inline(always)]
pub fn is_every() -> bool {
    features::PROF && IS_ON.load(Ordering::Relaxed)
}

/// Records every block that the engine reports, with the stack of its free, from now on and for ever. A profile must
/// have been started, with a rate of 1.
pub fn set_every() {
    IS_ON.store(true, Ordering::Relaxed);
}

/// The site of blocks of `size` bytes that the calling stack allocates, and how many it has allocated. Returns `None`
/// if there is no room, or a fork stands still.
#[cold]
#[inline(never)]
pub fn site_here(size: usize) -> Option<(u32, u64)> {
    let mut room = stack::room::<DEPTH>();
    let frames = stack::walk(&mut room);
    let area = Area::get()?;
    let _table = table::Changing::enter()?;
    // SAFETY: under the lock a site is whole (invariant 2 of `prof::sites`).
    unsafe {
        let site = site_of(area, frames, area::kind_of(size.max(1)))?;
        Some((site, (*area.site(site)).samples))
    }
}

pub(super) fn allocated(address: usize, size: usize, site: u32) {
    let mut room = stack::room::<DEPTH>();
    let origin = match site {
        0 => Origin::Stack(stack::walk(&mut room)),
        site => Origin::Site(site),
    };
    let thread = calling_thread();
    // What is recorded is exact.
    let most = || u64::MAX;
    let drawn = Drawn { address, size, usable: size.max(1), rate: 0, home: 0, thread, most };
    if table::insert(drawn, origin).is_none() {
        table::dropped();
    }
}

/// Records that the block at an address, if there is one, is about to be freed.
pub(super) fn freed(address: usize) {
    let is_one = |area: &Area| table::may_have(*area, address);
    if let Some(area) = Area::get().filter(is_one) {
        end(area, |table| table::take(area, address, table), || table::leave_for_later(address));
    }
}

/// Records that a block that was [set aside](super::set_aside) has moved, which ends it.
pub fn moved(block: Record) {
    if let Some(area) = Area::get().filter(|_| is_every()) {
        end(area, |_| Some(block), || {});
    }
}

/// Remembers the end of the record that `take` returns; runs `later` if a fork stands still.
fn end(area: Area, take: impl FnOnce(&table::Changing) -> Option<Record>, later: impl FnOnce()) {
    let mut room = stack::room::<DEPTH>();
    let frames = stack::walk(&mut room);
    let thread = calling_thread();
    let Some(table) = table::Changing::enter() else { return later() };
    let Some(block) = take(&table) else { return };
    // SAFETY: under the lock; invariant 1 of `prof::area`.
    unsafe {
        let site = site_of(area, frames, FREES).unwrap_or(0);
        let number = ENDED.load(Ordering::Relaxed);
        area.ended(number).write(Ended { block, site, thread });
        ENDED.store(number + 1, Ordering::Release);
    }
}

/// Which thread did something, and from where.
#[derive(Clone, Copy)]
pub struct Event {
    /// The thread; 0 for the only one.
    thread: u32,
    /// The site; see [`frames_of`].
    site: u32,
}

impl Event {
    /// The kernel's number of the thread: the only one's is its process's.
    pub fn thread(&self) -> u32 {
        number_of(self.thread)
    }
}

/// What is known of a block.
#[derive(Clone, Copy)]
pub struct Known {
    /// Where it begins.
    pub start: usize,
    /// Its bytes.
    pub bytes: usize,
    /// Its allocation.
    pub allocated: Event,
    /// Its free; `None` if it is live.
    pub freed: Option<Event>,
}

impl Known {
    fn of(block: Record, freed: Option<Event>) -> Known {
        let allocated = Event { thread: block.thread, site: block.site };
        Known { start: block.address, bytes: block.bytes as usize, allocated, freed }
    }

    /// How far an address is from it; 0 if it is inside, or the block's start.
    fn distance(&self, address: usize) -> usize {
        let end = self.start + self.bytes.max(1);
        self.start.saturating_sub(address).max((address + 1).saturating_sub(end))
    }
}

/// The block that an address lies in, or that was freed there last, or the live one that it is near. Returns `None` if
/// there is none, or not every block is recorded. Takes no lock, so it may miss concurrent changes.
#[cold]
#[inline(never)]
pub fn known(address: usize) -> Option<Known> {
    let address = untagged(address);
    let area = Area::get().filter(|_| is_every() && address <= isize::MAX as usize)?;
    let live = (0..table::USED.load(Ordering::Relaxed) as u32).filter_map(|index| {
        // SAFETY: invariant 1 of `prof::area`; any bits are a record, and nothing in it is followed.
        let record = unsafe { area.record(index).read_volatile() };
        (record.address != 0).then(|| Known::of(record, None))
    });
    let near = live.map(|block| (block.distance(address), block)).min_by_key(|(far, _)| *far);
    if let Some((0, block)) = near {
        return Some(block);
    }
    let count = ENDED.load(Ordering::Acquire);
    let ended = (0..count.min(area::FREED)).map(|age| {
        // SAFETY: as above.
        let Ended { block, site, thread } = unsafe { area.ended(count - 1 - age).read_volatile() };
        Known::of(block, Some(Event { thread, site }))
    });
    let mut ended = ended.filter(|block| block.distance(address) == 0);
    let near = near.filter(|&(far, Known { start, bytes, .. })| {
        let is_behind_large = bytes > 128 << 10 && address > start;
        far <= if is_behind_large { NEAR_LARGE } else { NEAR }
    });
    ended.next().or(near.map(|(_, block)| block))
}

/// The return addresses of an event's stack, innermost first.
pub fn frames_of(event: Event) -> &'static [usize] {
    let Some(area) = Area::get().filter(|_| event.site != 0) else { return &[] };
    // SAFETY: invariant 2 of `prof::sites`: it was a site when the event was recorded, and no site goes away while
    // every block is recorded.
    unsafe { sites::frames_of(area.site(event.site)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own_process::alone;
    use crate::prof;

    /// Stacks that take turns, call by call.
    fn walk(_: &mut stack::Room) -> &[usize] {
        static STACKS: [[usize; 3]; 4] = [
            [0x1000, 0x2000, 0x3000],
            [0x1001, 0x2000, 0x3000],
            [0x1002, 0x2000, 0x3000],
            [0x1003, 0x2000, 0x3000],
        ];
        &STACKS[ASKED.fetch_add(1, Ordering::Relaxed) % 4]
    }
    static ASKED: AtomicUsize = AtomicUsize::new(0);

    fn begin() {
        static KEEPS: AtomicUsize = AtomicUsize::new(0);
        static UNWINDER: stack::Unwinder = stack::Unwinder { walk, keeps: &KEEPS, bytes: 0 };
        stack::set_unwinder(&UNWINDER);
        prof::start(1).expect("memory");
        set_every();
    }

    #[test]
    fn each_block_counts_as_one_from_its_allocation_to_its_free() {
        alone!(each_block_counts_as_one_from_its_allocation_to_its_free, || {
            begin();
            for i in 1..=1000 {
                allocated(i << 20, i, 0);
            }
            for i in (2..=1000).step_by(2) {
                freed(i << 20);
                // Not a block's: nothing happens.
                freed(i << 20);
                freed((i << 20) + 8);
            }
            let snapshot = prof::Snapshot::take().expect("a profile");
            let sum = |amount: fn(&prof::Place) -> prof::Amount| {
                snapshot.places().fold([0, 0], |[blocks, bytes], place| {
                    [blocks + amount(&place).blocks(), bytes + amount(&place).bytes]
                })
            };
            assert_eq!(sum(|place| place.allocated), [1000, 500_500]);
            assert_eq!(sum(|place| place.live), [500, 250_000]);
            assert!(snapshot.places().all(|place| place.samples != 0), "a free is no place");
            assert_eq!(snapshot.dropped, 0);
            // That changes nothing any more.
            prof::reset();
            prof::stop();
            assert_eq!((prof::totals().live, prof::rate()), (250_000, 1));
        });
    }

    #[test]
    fn a_block_is_known_by_what_is_in_it_and_near_it() {
        alone!(a_block_is_known_by_what_is_in_it_and_near_it, || {
            assert!(known(1 << 20).is_none(), "nothing is recorded");
            begin();
            allocated(1 << 20, 100, 0);
            allocated(2 << 20, 0, 0);
            allocated(4 << 20, 1 << 20, 0);
            let at = |address: usize| known(address).map(|it| (it.start >> 20, it.freed.is_some()));
            for inside in [0, 1, 99, 100, 4000] {
                assert_eq!(at((1 << 20) + inside), Some((1, false)), "{inside}");
            }
            assert_eq!(at((1 << 20) - 4000), Some((1, false)));
            assert_eq!(at((1 << 20) + 5000), None);
            assert_eq!((at(2 << 20), at(usize::MAX), at(0)), (Some((2, false)), None, None));
            // The guard behind a large block is long, that before it may be a page.
            assert_eq!(
                (at((5 << 20) + 900_000), at((4 << 20) - 900_000)),
                (Some((4, false)), None)
            );

            freed(1 << 20);
            assert_eq!((at((1 << 20) + 50), at((1 << 20) + 150)), (Some((1, true)), None));
            // The last that was there, until there is another one.
            allocated((1 << 20) + 16, 16, 0);
            assert_eq!(at((1 << 20) + 20), Some((1, false)));
            freed((1 << 20) + 16);
            let last = known((1 << 20) + 20).expect("a block");
            assert_eq!((last.start, last.bytes), ((1 << 20) + 16, 16));
            let stacks = [last.allocated, last.freed.expect("it is")].map(frames_of);
            assert!(
                stacks[0][0] != stacks[1][0] && stacks.iter().all(|it| it[1..] == [0x2000, 0x3000])
            );

            // A block freed long ago is forgotten.
            for _ in 0..area::FREED {
                allocated(3 << 20, 10, 0);
                freed(3 << 20);
            }
            assert_eq!((at((1 << 20) + 20), at(3 << 20)), (None, Some((3, true))));
        });
    }

    #[test]
    fn a_site_is_found_before_its_block() {
        alone!(a_site_is_found_before_its_block, || {
            begin();
            for i in 0..40 {
                let (site, before) = site_here(64).expect("room");
                assert_eq!(before, i / 4, "four stacks take turns");
                allocated((i as usize + 1) << 12, 64, site);
            }
            assert_eq!(prof::totals().samples, 40);
        });
    }
}

//! A copy of the sites, to be read at leisure, and what each thread has of them.

use super::area::{Amount, Area, FIRST_SITE, Record, Site};
use super::names::number_of;
use super::sites::{frames_of, most_bytes};
use super::table::{copy_sites, live, used_records};
use crate::sys::mem;
use core::cell::Cell;

/// What a thread has alive of a site, or of all. Parts are in chains, by their numbers from 1 on.
#[repr(C)]
pub struct Part {
    /// The kernel's number of the thread.
    pub thread: Cell<u32>,
    /// The chain's next part; 0 if there is none.
    next: Cell<u32>,
    /// What it has.
    pub amount: Cell<Amount>,
}

/// A copy of all sites, in a mapping of its own.
pub struct Copy {
    start: usize,
    length: usize,
    end: Cell<usize>,
    /// The number of the last peak.
    pub peak: u64,
    /// Where the threads' parts begin, how many there is room for, and how many there are.
    parts: usize,
    room: usize,
    used: Cell<usize>,
}

impl Copy {
    /// A copy as of now, with the threads' parts if they are wanted. Returns `None` if there is no profile or no memory,
    /// or if a fork stands still.
    pub fn of_all(by_thread: bool) -> Option<Copy> {
        let area = Area::get()?;
        let only = number_of(0);
        let most = most_bytes();
        // A part for each sample, also for some that are drawn from now on, and as many for the sums.
        let room = if by_thread { 2 * used_records() + 4096 } else { 0 };
        let length = most + room * size_of::<Part>();
        // Before the lock, because a system call takes a while. Its pages come with what is copied.
        let start = mem::reserve(length).ok()?;
        let (end, parts, used) = (Cell::new(0), start + most, Cell::new(0));
        let mut copy = Copy { start, length, end, peak: 0, parts, room, used };
        // SAFETY: just mapped.
        let peak = unsafe {
            copy_sites(area, start, most, |end, table| {
                copy.end.set(end);
                if by_thread {
                    copy.all().for_each(|site| copy.chain(site).set(0));
                    live(area, table).for_each(|record| copy.enter(record, only));
                }
            })
        };
        copy.peak = peak?;
        Some(copy)
    }

    /// Adds a sample to what its thread has of its site. `only`: the thread of samples that were drawn while there was
    /// only one.
    fn enter(&self, record: &Record, only: u32) {
        let site = (self.start + record.site as usize * 8) as *const Site;
        let amount = Amount { objects: record.objects, bytes: record.bytes };
        let thread = if record.thread == 0 { only } else { record.thread };
        self.add(self.chain(site), thread, amount);
    }

    /// Adds to what a thread has in a chain. Does nothing if there is no more room.
    pub fn add(&self, chain: &Cell<u32>, thread: u32, amount: Amount) {
        let part = self.chained(chain.get()).find(|part| part.thread.get() == thread);
        let part = part.or_else(|| {
            let number = self.used.get() as u32 + 1;
            let part = self.part(number)?;
            self.used.set(number as usize);
            part.thread.set(thread);
            part.next.set(chain.replace(number));
            Some(part)
        });
        if let Some(part) = part {
            let mut sum = part.amount.get();
            sum.add(amount.objects, amount.bytes);
            part.amount.set(sum);
        }
    }

    /// A part by its number.
    fn part(&self, number: u32) -> Option<&Part> {
        let index = (number as usize).checked_sub(1).filter(|&index| index < self.room)?;
        // SAFETY: inside the mapping, which is zeroed, and any bits are a part.
        Some(unsafe { &*(self.parts as *const Part).add(index) })
    }

    /// The parts of a chain that begins with this one.
    pub fn chained(&self, first: u32) -> impl Iterator<Item = &Part> {
        core::iter::successors(self.part(first), |part| self.part(part.next.get()))
    }

    /// A copied site's chain of parts, in place of the one that it was in.
    fn chain(&self, site: *const Site) -> &Cell<u32> {
        // SAFETY: a site of this copy, where nothing else refers to this word while chains are made.
        unsafe { &*(&raw const (*site).next).cast() }
    }

    /// Every site.
    fn all(&self) -> impl Iterator<Item = *const Site> {
        let mut offset = FIRST_SITE;
        core::iter::from_fn(move || {
            if offset + size_of::<Site>() > self.end.get() {
                return None;
            }
            let site = (self.start + offset) as *const Site;
            // SAFETY: invariant 1 of `prof::sites`: sites lie one behind the other, each with its frames, up to `end`.
            offset += size_of::<Site>() + unsafe { frames_of(site) }.len() * 8;
            Some(site)
        })
    }

    /// Every site that has allocated, with its frames.
    pub fn sites(&self) -> impl Iterator<Item = (&Site, &[usize])> {
        // SAFETY: as in `all`.
        let all = self.all().map(|site| unsafe { (&*site, frames_of(site)) });
        all.filter(|(site, _)| site.samples != 0)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        mem::unmap(self.start, self.length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own_process::alone;
    use crate::prof::{Snapshot, dropped, reset, sample, start};
    use std::thread::sleep;
    use std::time::Duration;

    /// What was dropped, and how long it was taken, says nothing of what comes after a reset.
    #[test]
    fn a_profile_that_was_reset_begins_anew() {
        alone!(a_profile_that_was_reset_begins_anew, || {
            start(1).expect("memory");
            sleep(Duration::from_secs(2));
            dropped();
            let of = || Snapshot::take().map(|it| (it.dropped, it.milliseconds >= 2000));
            assert_eq!(of(), Ok((1, true)));
            reset();
            assert_eq!(of(), Ok((0, false)));
        });
    }

    #[test]
    fn a_copy_has_no_part_of_a_site() {
        alone!(a_copy_has_no_part_of_a_site, || {
            start(1).expect("memory");
            sample((1 << 20) as *mut u8, 100, 112, 1, 0, || u64::MAX);
            let area = Area::get().expect("a profile");
            let to = mem::reserve(4096).expect("memory");
            let copied = |length| {
                let mut end = None;
                // SAFETY: a mapping of the test's.
                unsafe { copy_sites(area, to, length, |at, _| end = Some(at)) };
                end
            };
            let end = FIRST_SITE + size_of::<Site>();
            assert_eq!((copied(end - 8), copied(4096)), (None, Some(end)));
        });
    }
}

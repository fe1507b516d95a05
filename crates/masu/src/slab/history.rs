//! How much slabs and pools have needed lately: what the first page of the next one has room for.
//!
//! One that is made again and again, for a request or a connection, mostly needs what the one before it did. Then
//! one page of the right size serves it: growing costs an allocation, and at each border of a page two
//! branches that nobody foresees.
//!
//! What is known is kept by the size of a slot, and is a guess: a wrong one costs a page more, or memory that
//! nobody touches. It follows what is needed down at once and up by at most doubling, so that where
//! large and small ones take turns the small ones count. A guess above [`SURE`] takes a *credit*, which
//! comes back with a slab that needed as much: so a program that suddenly makes thousands of small ones
//! has few that reserve too much.
//!
//! Threads share the guesses without any order. An update that another overwrites is lost, which
//! does no harm.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// For each size of slots, the number of slots in the lowest [`BITS`] bits and the credit above them.
static NEEDS: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];

const BITS: u32 = 24;
/// Bytes that are guessed without credit: two pages of memory.
const SURE: usize = 8 << 10;
/// No guess is below this: smaller blocks are no cheaper.
const FEWEST: usize = 64;
/// Nor above this.
const MOST: usize = 512 << 10;
/// The most credit there is.
const CREDIT: u32 = 16;

/// Of a constant size, a constant.
#[inline(always)]
const fn entry(slot: usize) -> &'static AtomicU32 {
    &NEEDS[(slot ^ slot >> 6) % NEEDS.len()]
}

#[inline(always)]
fn parts(word: u32) -> (usize, u32) {
    ((word & ((1 << BITS) - 1)) as usize, word >> BITS)
}

fn word(slots: usize, credit: u32) -> u32 {
    slots as u32 | credit << BITS
}

/// Slots that a first page should have, of so many bytes each; `least` if nothing is known.
#[inline(always)]
pub(crate) fn needed(slot: usize, least: usize) -> usize {
    let entry = entry(slot);
    let (slots, _) = parts(entry.load(Relaxed));
    if slots.wrapping_sub(1) < SURE / slot { slots } else { unsure(entry, least) }
}

#[cold]
#[inline(never)]
fn unsure(entry: &AtomicU32, least: usize) -> usize {
    let (slots, credit) = parts(entry.load(Relaxed));
    if slots == 0 || credit == 0 {
        return least;
    }
    entry.store(word(slots, credit - 1), Relaxed);
    slots
}

/// Says how many slots were used of one that had its first page by [`needed`].
#[inline(always)]
pub(crate) fn learn(slot: usize, least: usize, used: usize) {
    let entry = entry(slot);
    let (slots, _) = parts(entry.load(Relaxed));
    // Nothing new of the small ones.
    let needed = used.max(FEWEST / slot);
    if needed != slots || needed > SURE / slot {
        change(entry, slot, least, used);
    }
}

#[cold]
#[inline(never)]
fn change(entry: &AtomicU32, slot: usize, least: usize, used: usize) {
    if used == 0 {
        return;
    }
    let before = entry.load(Relaxed);
    let (slots, credit) = parts(before);
    let most = (MOST / slot).max(1);
    let next = used.max(FEWEST / slot).min(2 * slots.max(least)).min(most);
    let credit = if used > slots / 2 { (credit + 1).min(CREDIT) } else { credit };
    let after = word(next, credit);
    if after != before {
        entry.store(after, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A size of slots for each test: they run at once.
    const fn of(test: usize) -> usize {
        1000 + test
    }

    #[test]
    fn the_next_one_needs_what_the_last_one_did() {
        let slot = of(0);
        assert_eq!(needed(slot, 4), 4);
        for expected in [8, 16, 32, 64, 100, 100] {
            learn(slot, 4, 100);
            assert_eq!(needed(slot, 4), expected);
        }
        learn(slot, 4, 1);
        assert_eq!(needed(slot, 4), 1);
        learn(slot, 4, 0);
        assert_eq!(needed(slot, 4), 1);
    }

    #[test]
    fn a_large_guess_lasts_as_long_as_there_is_credit() {
        let slot = of(1);
        for _ in 0..100 {
            learn(slot, 4, 50);
        }
        for _ in 0..CREDIT {
            assert_eq!(needed(slot, 4), 50);
        }
        assert_eq!(needed(slot, 4), 4);
        learn(slot, 4, 50);
        assert_eq!((needed(slot, 4), needed(slot, 4)), (50, 4));
    }

    #[test]
    fn no_guess_is_too_large() {
        let slot = of(2);
        for _ in 0..40 {
            learn(slot, 4, usize::MAX);
        }
        assert_eq!(needed(slot, 4), MOST / slot);
        for _ in 0..40 {
            learn(10 * MOST, 1, usize::MAX);
        }
        assert_eq!(needed(10 * MOST, 1), 1);
    }
}

//! How much slabs and pools have needed lately, which sizes the first page of the next one.
//!
//! A slab that is made again and again, for a request or a connection, mostly needs what the one before it needed. Then
//! one page of the right size serves it. Growing would cost an allocation, and at each page border two mispredicted
//! branches.
//!
//! The record is kept by slot size, and is a guess: a wrong one costs an extra page, or memory that is never touched.
//! Sizes that share an entry take it from each other, except that a guess of up to [`SURE`] bytes serves them all.
//! It follows a falling need at once and a rising one by at most doubling, so that when large and small slabs alternate
//! the small ones count. A guess above [`SURE`] takes a *credit*, which returns when a slab has needed as much: so if a
//! program suddenly makes thousands of small slabs, few of them reserve too much.
//!
//! Threads share the guesses without any ordering. An update that another overwrites is lost, which
//! does no harm.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// For each size of slots, the number of slots in the lowest [`BITS`] bits, the credit in the [`CREDIT_BITS`] above them
/// and a mark of the size above that.
static NEEDS: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];

const BITS: u32 = 20;
const CREDIT_BITS: u32 = 5;
/// Bytes that are guessed without credit: two memory pages.
const SURE: usize = 8 << 10;
/// The smallest guess: smaller blocks are no cheaper.
const FEWEST: usize = 64;
/// The largest guess.
const MOST: usize = 512 << 10;
/// The maximum credit.
const CREDIT: u32 = 16;
const _: () = assert!(MOST < 1 << BITS && CREDIT < 1 << CREDIT_BITS);

/// For a constant size, a constant.
#[inline(always)]
const fn entry(slot: usize) -> &'static AtomicU32 {
    &NEEDS[(slot ^ slot >> 6) % NEEDS.len()]
}

/// The bits of a size that its entry does not tell, up to 8 KiB.
const fn mark(slot: usize) -> u32 {
    (slot as u32 >> 6) << (BITS + CREDIT_BITS)
}

/// The number of slots, of whichever size.
#[inline(always)]
fn slots_of(word: u32) -> usize {
    (word & ((1 << BITS) - 1)) as usize
}

/// The number of slots and the credit; none if the word is of another size.
fn parts(word: u32, slot: usize) -> (usize, u32) {
    let own = word >> (BITS + CREDIT_BITS) == mark(slot) >> (BITS + CREDIT_BITS);
    if own { (slots_of(word), word >> BITS & ((1 << CREDIT_BITS) - 1)) } else { (0, 0) }
}

fn word(slots: usize, credit: u32, slot: usize) -> u32 {
    slots as u32 | credit << BITS | mark(slot)
}

/// The largest guess, in slots.
const fn most(slot: usize) -> usize {
    let slots = MOST / slot;
    if slots == 0 { 1 } else { slots }
}

/// Returns how many slots of `slot` bytes a first page should have; `least` if nothing is known.
#[inline(always)]
pub(crate) fn needed(slot: usize, least: usize) -> usize {
    let entry = entry(slot);
    let slots = slots_of(entry.load(Relaxed));
    if slots.wrapping_sub(1) < SURE / slot { slots } else { unsure(entry, slot, least) }
}

#[cold]
#[inline(never)]
fn unsure(entry: &AtomicU32, slot: usize, least: usize) -> usize {
    let (slots, credit) = parts(entry.load(Relaxed), slot);
    if slots == 0 || credit == 0 {
        return least;
    }
    entry.store(word(slots, credit - 1, slot), Relaxed);
    // Sizes a multiple of 8 KiB apart look the same.
    slots.min(most(slot))
}

/// Records how many slots were used in a slab or pool that sized its first page by [`needed`].
#[inline(always)]
pub(crate) fn learn(slot: usize, least: usize, used: usize) {
    let entry = entry(slot);
    let slots = slots_of(entry.load(Relaxed));
    // Small slabs add no information.
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
    let (slots, credit) = parts(before, slot);
    let next = used.max(FEWEST / slot).min(2 * slots.max(least)).min(most(slot));
    let credit = if used > slots / 2 { (credit + 1).min(CREDIT) } else { credit };
    let after = word(next, credit, slot);
    if after != before {
        entry.store(after, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slot size of its own for each test: they run in parallel.
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
    fn sizes_that_share_an_entry_do_not_share_large_guesses() {
        let (small, large) = (of(3), of(3) ^ 0x41);
        assert!(core::ptr::eq(entry(small), entry(large)));
        for _ in 0..20 {
            learn(small, 4, MOST / small);
        }
        assert_eq!(needed(large, 4), 4);
        // The same up to what an entry can tell apart.
        assert!(core::ptr::eq(entry(small), entry(small + (8192 * 64))));
        assert_eq!(needed(small + 8192 * 64, 1), 1);
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

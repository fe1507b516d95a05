//! A fork in the middle of a note, which no test from outside hits at will.

use super::{Arena, Ordering, charge_of, kind_of};

#[test]
fn a_half_note_is_counted_when_the_child_begins() {
    let heap = Arena::create_hardened().expect("addresses for a heap");
    let [cut_off, other] = [100, 5000].map(|size| heap.alloc_as_asked(size, 16, false));
    assert!(!cut_off.is_null() && !other.is_null());
    // A thread has noted the block, and does not exist any more when it would note its bytes.
    heap.hardened.freed[kind_of(100)].fetch_add(1, Ordering::Relaxed);
    heap.forget_unfinished();
    let seen = heap.stats();
    assert_eq!((seen.blocks, seen.allocated), (1, charge_of(100) + charge_of(5000)));
    // SAFETY: a live block.
    unsafe { crate::dealloc(other) };
    assert_eq!(heap.stats().blocks, 0, "what was seen stays true");
    // The note's other half, and the block.
    heap.tally.allocated_one(kind_of(100), 100, 100);
    // SAFETY: a live block.
    unsafe { crate::dealloc(cut_off) };
    assert_eq!((heap.stats().blocks, heap.stats().allocated), (0, 0));
    // SAFETY: no block of it is used any more.
    unsafe { heap.retire() };
}

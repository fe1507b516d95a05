//! Which pages of a span go back.

use super::*;
use crate::region;
use crate::run::Home;
use crate::size_class::{LAST_CLASS, SIZES, size_of_class};
use crate::span::{init, pool, record};

#[test]
fn pages_go_back_if_all_blocks_on_them_are_on_the_list() {
    region::init().expect("address space");
    let span = pool::take(false, None, Home::ANY).expect("memory");
    for class in 1..=LAST_CLASS {
        // Free ones, and of the others those that only look so, of 1,024 each.
        for (free, alike) in [(1024, 0), (1020, 0), (1020, 512), (1000, 1024), (600, 100)] {
            let (mut state, most) = (class as u64 + 1, [alike, free]);
            check(span, class, &mut |of| {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                state >> 54 < most[usize::from(of)]
            });
        }
    }
    // SAFETY: from the pool, on no list; its blocks are nobody's.
    unsafe { pool::give(span) };
}

/// Frees blocks of a span twice, and purges it each time: those of which `decide` says so. Of the others it says
/// which have the mark, like those that other threads free.
fn check(span: u32, class: usize, decide: &mut dyn FnMut(bool) -> bool) {
    // SAFETY: from the pool, this thread's alone.
    let s = unsafe {
        init(span, class, u32::MAX - 1);
        &mut *record(span)
    };
    let (base, size) = (granule_address(span as usize), size_of_class(class));
    // SAFETY: as above; blocks beyond those that exist are not touched.
    unsafe {
        s.carve(span, GRANULE - 3 * UNIT - 1);
        let mut used: Vec<usize> = (0..s.carved.into()).collect();
        for _ in 0..2 {
            used.retain(|&index| {
                let block = (base + index * size) as *mut Block;
                let free = index != 0 && decide(true);
                Block::make_free(block, s.free);
                if free {
                    let n = s.free_len() + 1;
                    s.take_free();
                    s.give_back(block, n);
                } else if !decide(false) {
                    block.cast::<[u64; 2]>().write([7; 2]);
                }
                !free
            });
            let pages = |index: usize| index * size / UNIT..=(index * size + size - 1) / UNIT;
            let touched = (s.touched() as usize).div_ceil(UNIT);
            let expected = (0..touched)
                .filter(|page| !used.iter().any(|&index| pages(index).contains(page)))
                .fold(0u16, |mask, page| mask | 1 << page);
            let mut discards = Discards::new();
            s.purge_pages(span, &mut discards);
            discards.go();
            assert_eq!(s.purged, expected, "{size} bytes, {} in use", used.len());
            assert_eq!(s.out() as usize, used.len(), "{size} bytes");
            let mut at = s.free;
            for _ in 0..s.free_len() {
                let offset = at as usize - base;
                assert!(Block::is_marked(at) && offset.is_multiple_of(size), "{size} bytes");
                assert!(used.binary_search(&(offset / size)).is_err(), "{size} bytes");
                assert_eq!(expected >> (offset / UNIT) & 1, 0, "{size} bytes");
                at = (*at).next;
            }
            assert!(at.is_null());
        }
        s.set_touched(GRANULE as u32);
    }
}

/// As many blocks have the mark as the list is long.
#[test]
fn a_block_on_its_way_back_is_not_taken_for_one_of_the_list_that_has_lost_its_mark() {
    region::init().expect("address space");
    let span = pool::take(false, None, Home::ANY).expect("memory");
    for class in (1..=LAST_CLASS).filter(|&class| size_of_class(class) < UNIT) {
        let (base, size) = (granule_address(span as usize), size_of_class(class));
        // SAFETY: from the pool, this thread's alone; its blocks are nobody's.
        unsafe {
            init(span, class, u32::MAX - 1);
            let s = &mut *record(span);
            s.carve(span, GRANULE);
            let most = usize::from(s.carved) - 1;
            let block = |index: usize| (base + index * size) as *mut Block;
            let coming = [most / 2, most / 2 + 1];
            for index in (1..=most).filter(|index| !coming.contains(index)) {
                let n = s.free_len() + 1;
                Block::make_free(block(index), s.free);
                s.take_free();
                s.give_back(block(index), n);
            }
            Block::make_free(block(coming[0]), null_mut());
            Block::make_free(block(coming[1]), block(coming[0]));
            // The first one is in use.
            for index in [0, 1, most] {
                block(index).cast::<i64>().add(1).write(7);
            }
            let mut discards = Discards::new();
            s.purge_pages(span, &mut discards);
            discards.go();
            for index in coming {
                assert_eq!(s.purged >> (index * size / UNIT) & 1, 0, "{size} bytes");
            }
            assert_eq!(s.out() as usize, 1 + coming.len(), "{size} bytes");
            let mut at = s.free;
            while !at.is_null() {
                assert!(coming.iter().all(|&index| block(index) != at), "{size} bytes");
                at = (*at).next;
            }
            s.set_touched(GRANULE as u32);
        }
    }
    // SAFETY: from the pool, on no list; its blocks are nobody's.
    unsafe { pool::give(span) };
}

#[test]
fn the_blocks_on_pages_are_those_that_start_on_each() {
    for size in SIZES.iter().skip(1).map(|&size| usize::from(size)) {
        for carved in [0, 1, GRANULE / size / 2, GRANULE / size] {
            for mask in (0..=u16::MAX).step_by(61) {
                let pages = (0..UNITS_PER_GRANULE).filter(|page| mask >> page & 1 != 0);
                let each: usize = pages.map(|page| starts(size, carved, page).len()).sum();
                let all = blocks_on(mask, size, carved);
                assert_eq!(all as usize, each, "{carved} of {size} bytes, {mask:#x}");
            }
        }
    }
}

//! What a fresh chunk takes over, and that none of it is left in the end.

use super::{Home, pool};
use crate::config::Delay;
use crate::own_process::alone;
use crate::region::{self, CHUNK, CHUNK_SHIFT, GRANULE, GRANULES_PER_CHUNK, base, granule_address};
use crate::settings;
use crate::size_class::UNIT;
use crate::space::{self, Locked, Window, record};
use crate::sys::mem;
use crate::sys::mem::refusals;
use std::fs::read_to_string;

const UNITS: usize = 256;

/// The bytes kept after `bytes` were written and freed.
fn keep(bytes: usize) -> usize {
    let space = Locked::lock();
    let unit = space.take_fresh(bytes.div_ceil(CHUNK), 1, 0).unwrap();
    // SAFETY: the test's range, of that length.
    unsafe { (space::address(unit) as *mut u8).write_bytes(7, bytes) };
    record(unit).dirty.set(bytes);
    space.give(unit);
    space::dirty_bytes()
}

/// Three units of it.
fn kept() -> usize {
    settings::set_huge_pages(false);
    settings::set_decay(Delay::Millis(3_600_000));
    keep(3 * CHUNK)
}

/// Whether a chunk has a separate mapping.
fn is_apart(at: usize) -> bool {
    record(((at - base()) >> CHUNK_SHIFT) as u32).apart.get() != 0
}

/// Mappings that begin or end within the chunk at `at`, or at its start or end.
fn mappings(at: usize) -> usize {
    let touches = |end: &str| (at..=at + CHUNK).contains(&usize::from_str_radix(end, 16).unwrap());
    let maps = read_to_string("/proc/self/maps").unwrap();
    let ranges = maps.lines().filter_map(|line| line.split(' ').next()?.split_once('-'));
    ranges.filter(|(start, end)| touches(start) || touches(end)).count()
}

#[test]
fn a_fresh_chunk_takes_over_a_kept_unit() {
    alone!(a_fresh_chunk_takes_over_a_kept_unit, || {
        // Whatever else the pool maps now exists.
        let (at, _) = pool::take(UNITS, 1, Home::ANY).unwrap();
        pool::give(&[at]);
        pool::purge();
        let before = kept();
        let mapped = mappings(at);
        let (again, zero) = pool::take(UNITS, 1, Home::ANY).unwrap();
        assert!(again == at && !zero);
        assert_eq!(space::dirty_bytes(), before - CHUNK);
        // SAFETY: the test's run.
        assert!((0..UNITS).all(|unit| unsafe { *((at + unit * 4096) as *const u8) } == 7));
        assert!(mappings(at) > mapped && is_apart(at));
        pool::give(&[at]);
        pool::purge();
        assert!(!is_apart(at));
        assert_eq!(mappings(at), mapped);
        // The chunk is taken again, and with it the next unit.
        let (again, zero) = pool::take(UNITS, 1, Home::ANY).unwrap();
        assert!(again == at && !zero);
        assert_eq!(space::dirty_bytes(), before - 2 * CHUNK);
    });
}

#[test]
fn chunks_take_over_as_much_as_is_kept() {
    alone!(chunks_take_over_as_much_as_is_kept, || {
        let before = kept();
        for kept in [before - CHUNK, before - 2 * CHUNK, before - 3 * CHUNK] {
            let (_, zero) = pool::take(2 * UNITS, 1, Home::ANY).unwrap();
            assert!(!zero);
            assert_eq!(space::dirty_bytes(), kept);
        }
        let (at, zero) = pool::take(2 * UNITS, 1, Home::ANY).unwrap();
        assert!(zero && !mem::is_resident(at));
        // A part of a unit stays for the next huge block.
        let left = keep(CHUNK / 2);
        let (at, zero) = pool::take(2 * UNITS, 1, Home::ANY).unwrap();
        assert!(zero && !mem::is_resident(at));
        assert!(left != 0 && space::dirty_bytes() == left);
    });
}

#[test]
fn a_refused_move_leaves_a_chunk_that_can_be_used() {
    alone!(a_refused_move_leaves_a_chunk_that_can_be_used, || {
        let before = kept();
        // A first chunk, so that the window need not grow when the next one is taken.
        pool::take(2 * UNITS, 1, Home::ANY).unwrap();
        assert_eq!(space::dirty_bytes(), before - CHUNK);
        refusals::set(1);
        let (granule, touched) = pool::take_granule(false, None, Home::ANY).unwrap();
        assert_eq!((space::dirty_bytes(), touched), (before - CHUNK, 0));
        assert_eq!(granule % GRANULES_PER_CHUNK, 0);
        let at = granule_address(granule) as *mut u8;
        // SAFETY: the test's granule.
        unsafe {
            assert_eq!(*at, 0);
            at.write(1);
        }
        assert!(!is_apart(at as usize));
    });
}

/// Where addresses are scarce, other code may have memory in a chunk.
#[test]
fn a_chunk_that_the_kernel_does_not_unmap_leaves_what_others_have_in_it_alone() {
    alone!(a_chunk_that_the_kernel_does_not_unmap_leaves_what_others_have_in_it_alone, || {
        region::init().unwrap();
        // Chunks mapped at start are whole.
        let first = region::first_mapped() / CHUNK;
        (0..first).for_each(|_| _ = pool::take(2 * UNITS, 1, Home::ANY).unwrap());
        region::set_scarce();
        let (at, _) = pool::take(1, 1, Home::ANY).unwrap();
        let others = at / CHUNK * CHUNK + CHUNK - GRANULE;
        mem::map_at(others, GRANULE).unwrap();
        // SAFETY: just mapped.
        unsafe { (others as *mut u8).write(7) };
        let mapped = space::mapped_bytes(Window::Chunks);
        pool::give(&[at]);
        refusals::set_unmapping(true);
        assert_eq!(pool::purge(), UNIT);
        refusals::set_unmapping(false);
        // SAFETY: still the test's.
        assert_eq!(unsafe { *(others as *const u8) }, 7);
        assert_eq!(space::mapped_bytes(Window::Chunks), mapped);
        // It serves as before, and goes once it can be unmapped.
        assert_eq!(pool::take(1, 1, Home::ANY), Some((at, true)));
        pool::give(&[at]);
        assert_eq!(pool::purge(), UNIT);
        assert!(mem::is_unmapped(at));
        // SAFETY: the same.
        assert_eq!(unsafe { *(others as *const u8) }, 7);
    });
}

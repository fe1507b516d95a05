//! What becomes resident without being touched: nothing if a program leaves its blocks sparse, and little if one is not
//! filled for the first time.

use super::super::{alloc, alloc_zeroed, give};
use super::*;
use crate::own_process::alone;
use crate::sys::auxv;

const MIB: usize = 1 << 20;

/// Pages of a block that are resident.
fn resident(p: *mut u8, bytes: usize) -> usize {
    (0..bytes).step_by(auxv::page_size()).filter(|at| mem::is_resident(p as usize + at)).count()
}

/// Writes to one in `every` pages of a block's first bytes; returns how many pages that is.
fn touch(p: *mut u8, bytes: usize, every: usize) -> usize {
    let pages = (0..bytes).step_by(every * auxv::page_size());
    // SAFETY: inside the test's block.
    pages.map(|at| unsafe { p.add(at).write(1) }).count()
}

/// Whether the kernel gives huge pages without being asked.
fn unasked() -> bool {
    let mode = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    mode.is_ok_and(|mode| mode.contains("[always]"))
}

/// Whether pages can be faulted in ahead.
fn can_populate(p: *mut u8) -> bool {
    mem::populate(p as usize, auxv::page_size());
    mem::is_resident(p as usize)
}

#[test]
fn what_is_left_sparse_stays_so() {
    alone!(what_is_left_sparse_stays_so, || {
        for make in [alloc, alloc_zeroed] {
            for round in 0..6 {
                let bytes = (11 + round) * MIB - 5000;
                let p = make(bytes, 1);
                let touched = touch(p, bytes, 100);
                assert!(unasked() || resident(p, bytes) == touched, "round {round}");
            }
        }
    });
}

#[test]
fn a_first_long_block_wastes_a_unit_at_most() {
    alone!(a_first_long_block_wastes_a_unit_at_most, || {
        let page = auxv::page_size();
        let bytes = 40 * MIB;
        let p = alloc(bytes, 1);
        assert_eq!(resident(p, bytes), 0);
        let touched = touch(p, UNIT_BYTES, 1);
        assert!(unasked() || resident(p, bytes) == touched);
        touch(p, UNIT_BYTES + page, 1);
        assert!(resident(p, bytes) <= 2 * UNIT_BYTES.div_ceil(page));
    });
}

#[test]
fn after_filled_blocks_the_next_one_comes_with_pages_until_one_is_not_filled() {
    alone!(after_filled_blocks_the_next_one_comes_with_pages_until_one_is_not_filled, || {
        let bytes = 5 * MIB - 5000;
        let last = last_unit(bytes) * UNIT_BYTES;
        let fresh = || alloc(bytes, 1);
        for round in 0..2 {
            for _ in 0..SURE - SPARSE {
                touch(fresh(), bytes, 1);
            }
            let p = fresh();
            let came = resident(p, bytes);
            if can_populate(p) {
                // SAFETY: inside the block.
                let at = resident(unsafe { p.add(last) }, bytes - last - LEFT);
                assert!(came != 0 && at * auxv::page_size() > bytes - last - 3 * LEFT, "{round}");
            }
            // The last one was not filled.
            let p = fresh();
            let touched = touch(p, bytes, 100);
            assert!(unasked() || resident(p, bytes) == touched, "{round}");
            touch(p, bytes, 1);
            // SAFETY: the test's.
            unsafe { give(p) };
        }
    });
}

#[test]
fn each_block_is_looked_at_once() {
    alone!(each_block_is_looked_at_once, || {
        let filled = Filled::new();
        let bytes = 3 * MIB;
        let p = alloc(bytes, 1);
        touch(p, bytes, 1);
        filled.units(super::super::unit_of(p).unwrap(), bytes, false);
        (0..5).for_each(|_| filled.look());
        assert!(!filled.is_sure() && filled.score.get() == 1);
    });
}

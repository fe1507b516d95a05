use super::*;
use crate::own_process::alone;
use crate::sys::auxv;
use std::vec::Vec;

/// A block with its upper or lower end checked.
fn block(size: usize, align: usize, upper: bool) -> *mut u8 {
    let p = alloc(size, align, upper);
    assert!(!p.is_null());
    assert!(p.addr().is_multiple_of(align.max(16)));
    assert_eq!(usable_size(p), size.max(1));
    p
}

#[test]
fn a_block_is_zero_and_known_until_it_is_freed() {
    alone!(a_block_is_zero_and_known_until_it_is_freed, || {
        assert!(start(1, 8));
        for size in [0, 1, 15, 16, 100, 4095, 4096, 4097, 8192] {
            for (align, upper) in [(16, true), (16, false), (64, true), (4096, true), (4096, false)]
            {
                let p = alloc(size, align, upper);
                if p.is_null() {
                    // The slot is not long enough for that alignment.
                    assert!(size > 4096 && align == 4096 && upper, "{size} {align} {upper}");
                    continue;
                }
                let bytes = size.max(1);
                assert_eq!(usable_size(p), bytes);
                assert!(p.addr().is_multiple_of(align));
                // SAFETY: a live block of that many bytes.
                unsafe {
                    assert!(core::slice::from_raw_parts(p, bytes).iter().all(|&byte| byte == 0));
                    p.write_bytes(1, bytes);
                    assert!(free(p));
                    assert!(!free(p), "it was freed already");
                }
                assert_eq!(usable_size(p), 0);
                assert!(matches!(look(p), Some(At::Freed { bytes: freed }) if freed == bytes));
            }
        }
    });
}

#[test]
fn what_is_inside_of_a_block_is_told_apart() {
    alone!(what_is_inside_of_a_block_is_told_apart, || {
        assert!(start(1, 8));
        let p = block(100, 16, true);
        assert_eq!(usable_size(p.wrapping_add(16)), 0);
        assert!(
            matches!(look(p.wrapping_add(16)), Some(At::Live { start, bytes: 100 }) if start == p.addr())
        );
        let outside = 0u8;
        assert!(look(&raw const outside).is_none());
        // SAFETY: a live block.
        assert!(unsafe { free(p) });
    });
}

#[test]
fn half_of_the_slots_are_used_and_all_take_turns() {
    alone!(half_of_the_slots_are_used_and_all_take_turns, || {
        assert!(start(1, 8));
        let live: Vec<_> = (0..4).map(|_| block(32, 16, true)).collect();
        assert!(alloc(32, 16, true).is_null(), "more than half");
        assert!(alloc(16, 2 * auxv::page_size(), true).is_null(), "an alignment that no slot has");
        for &p in &live {
            // SAFETY: a live block.
            assert!(unsafe { free(p) });
        }
        // A slot whose block was just freed is reused last.
        let mut seen = Vec::new();
        for _ in 0..4 {
            let p = block(32, 16, true);
            assert!(!live.contains(&p), "a slot comes back before the others were used");
            seen.push(p);
            // SAFETY: a live block.
            assert!(unsafe { free(p) });
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 4);
    });
}

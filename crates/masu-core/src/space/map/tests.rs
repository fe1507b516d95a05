//! Windows that meet other mappings where they would grow, and ranges whose pages go back.

use super::super::{Locked, RangeState, address, record};
use super::*;
use crate::own_process::alone;

/// Maps a page directly after a window.
fn stand_in_the_way(window: Window) -> usize {
    let end = window.end();
    mem::map_at(address(end as u32), 4096).expect("room");
    end
}

#[test]
fn blocks_jump_over_what_is_not_the_engines() {
    alone!(blocks_jump_over_what_is_not_the_engines, || {
        let space = Locked::lock();
        let first = space.take_fresh(3, 1, 0).expect("room");
        let taken = stand_in_the_way(Window::Blocks);
        assert!(!space.extend(first, 200), "something is in the way");
        let second = space.take_fresh(300, 1, 0).expect("room");
        assert_eq!(second as usize, taken + 1);
        assert_eq!(record(taken as u32).state.get(), RangeState::Inside);
        // Nothing joins across it.
        space.give(first);
        space.give(second);
        assert!(first as usize + record(first).units.get() <= taken);
        assert_eq!(record(second).state.get(), RangeState::Clean);
    });
}

#[test]
fn chunks_jump_over_what_is_not_the_engines() {
    alone!(chunks_jump_over_what_is_not_the_engines, || {
        let (first, _) = super::super::alloc_chunk().expect("room");
        let taken = stand_in_the_way(Window::Chunks);
        let mut last = first;
        while (last as usize) < taken {
            last = super::super::alloc_chunk().expect("room").0;
            assert_ne!(last as usize, taken);
            // SAFETY: the test's chunk.
            unsafe { (address(last) as *mut u8).write(1) };
        }
        assert!(region::limit() > taken * CHUNK);
        assert!(!record(taken as u32).is_live());
    });
}

/// The kernel fills the fresh mapping of such a process at once.
#[test]
fn a_range_of_several_mappings_gives_its_pages_back_in_a_process_that_locks_its_memory() {
    unsafe extern "C" {
        fn mlockall(flags: i32) -> i32;
    }
    const MCL_FUTURE: i32 = 2;
    alone!(
        a_range_of_several_mappings_gives_its_pages_back_in_a_process_that_locks_its_memory,
        || {
            let space = Locked::lock();
            let unit = space.take_fresh(2, 1, 0).expect("room");
            let (at, len) = (address(unit), 2 * UNIT_BYTES);
            // SAFETY: a number; and the test's own range.
            unsafe {
                // Before Linux 5.18 locked pages stay.
                if mlockall(MCL_FUTURE) != 0
                    || mem::map_over(at, len).is_err()
                    || !mem::discard(at, len)
                {
                    return;
                }
                (at as *mut u8).write_bytes(1, len);
            }
            record(unit).dirty.set(len);
            record(unit).set_apart(1);
            assert!(clean(unit));
            for page in (at..at + len).step_by(4096) {
                assert!(!mem::is_resident(page));
            }
        }
    );
}

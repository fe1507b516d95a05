//! Windows that meet other mappings where they would grow.

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

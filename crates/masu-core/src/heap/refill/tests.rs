//! What a thread that shares nothing pays when it lets go of much at once.

use super::*;
use crate::{alloc, dealloc};
use std::thread;

/// Bytes of a block: 64 to a slab.
const SIZE: usize = 1024;

/// Frees blocks of so many slabs in a random order on a thread of its own. Returns the remote ones
/// among the frees, as a share.
fn remote_share(slabs: usize) -> f64 {
    let n = slabs * (crate::region::GRANULE / SIZE);
    let run = move || {
        // SAFETY: a block that nobody else knows.
        unsafe { dealloc(alloc(1)) };
        let heap = current();
        // Again when the clock, which other tests move too, has ticked meanwhile.
        loop {
            let tick = clock::tick();
            // Its former thread may have shared something.
            heap.shared.set(0);
            let mut blocks: Vec<_> = (0..n).map(|_| alloc(SIZE)).collect();
            let mut random = 1u64;
            for i in (1..n).rev() {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                blocks.swap(i, random as usize % (i + 1));
            }
            let before = heap.counters.remote_frees.get();
            for p in blocks {
                // SAFETY: a live block, freed once.
                unsafe { dealloc(p) };
            }
            if clock::tick() == tick {
                return (heap.counters.remote_frees.get() - before) as f64 / n as f64;
            }
        }
    };
    // A heap that stays, so that there is somebody to give slabs to.
    let p = alloc(SIZE);
    let share = thread::spawn(run).join();
    // SAFETY: the block from above.
    unsafe { dealloc(p) };
    share.unwrap_or(f64::NAN)
}

#[test]
fn partial_slabs_stay_while_a_thread_frees_into_all_of_them() {
    // Two thirds of the slabs were given up while they were full, and of each an eighth comes back from
    // afar before it is claimed.
    let share = remote_share(UNSHARED_PARTIAL_KEEP as usize * 3 / 2);
    assert!(share < 0.2, "{share}");
}

#[test]
fn taking_back_full_slabs_that_were_given_up_gives_up_no_more() {
    let kept = crate::settings::retain_full() * UNSHARED_KEEP;
    let share = remote_share(kept as usize * 5 / 4);
    assert!(share < 0.1, "{share}");
}

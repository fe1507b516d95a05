//! A heap that gives back parts of its chunks and fills again.

use crate::blocks::{allocate, by_count, release};
use crate::marks::mark;

/// Blocks in a group, at most.
const GROUP: usize = 3000;

/// A heap of small blocks. Two groups in five and one block in twenty of the others are freed; after a rest as many are
/// allocated. With `fork`, a child then shares all of it. Marks: `filled`, `dropped`, `refilled`.
pub fn age(bytes: usize, fork: bool) {
    let mut random = fastrand::Rng::with_seed(1);
    // Room for all: a list that grows has huge pages of its own, which never split.
    let mut blocks: Vec<(*mut u8, usize)> = Vec::with_capacity(bytes / 512);
    let mut live = 0;
    while live < bytes {
        let size = by_count(&mut random, 16, 4096);
        blocks.push((allocate(size), size));
        live += size;
    }
    mark("filled", live);
    let mut gone = Vec::new();
    let (mut left, mut all_go) = (0, false);
    for (i, (block, size)) in blocks.iter().enumerate() {
        if left == 0 {
            (left, all_go) = (random.usize(1..GROUP), random.u32(0..5) < 2);
        }
        left -= 1;
        if all_go || random.u32(0..20) == 0 {
            // SAFETY: a block from `allocate`, which is forgotten below.
            unsafe { release(*block) };
            live -= size;
            gone.push(i);
        }
    }
    mark("dropped", live);
    for i in gone {
        let size = by_count(&mut random, 16, 4096);
        blocks[i] = (allocate(size), size);
        live += size;
    }
    if fork {
        // SAFETY: the child makes two system calls, and waits for its end.
        unsafe {
            if libc::fork() == 0 {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                loop {
                    libc::pause();
                }
            }
        }
    }
    mark("refilled", live);
}

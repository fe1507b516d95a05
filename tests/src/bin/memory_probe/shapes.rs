//! Live memory is scattered, or changes its sizes.

use crate::blocks::{Chain, allocate, by_count, release};
use crate::marks::mark;

/// Small objects of all sizes; all but a random one in a hundred are freed.
/// Marks: `peak`, `sparse`.
pub fn sparse(bytes: usize) {
    let mut random = fastrand::Rng::with_seed(1);
    let (mut victims, mut survivors) = (Chain::default(), Chain::default());
    while victims.bytes() + survivors.bytes() < bytes {
        let size = by_count(&mut random, 16, 1024);
        let chain = if random.u32(0..100) == 0 { &mut survivors } else { &mut victims };
        chain.push(size);
    }
    mark("peak", victims.bytes() + survivors.bytes());
    victims.free_all();
    mark("sparse", survivors.bytes());
}

/// Holds about `bytes` throughout. In each phase every block is replaced, in random order, by
/// blocks of other sizes. Marks: `phase` after each, `end`.
pub fn phases(bytes: usize) {
    const RANGES: [(usize, usize); 6] =
        [(16, 128), (1024, 8192), (100, 700), (8 << 10, 256 << 10), (16, 8192), (256, 2048)];
    let mut random = fastrand::Rng::with_seed(1);
    let mut old: Vec<(*mut u8, usize)> = Vec::new();
    let mut live = 0;
    // The list of blocks is the program's data too.
    let held = |live: usize, lists: [&Vec<_>; 2]| {
        live + lists.iter().map(|v| v.capacity()).sum::<usize>() * size_of::<(*mut u8, usize)>()
    };
    for (low, high) in RANGES {
        let mut new = Vec::new();
        random.shuffle(&mut old);
        loop {
            while live < bytes {
                let size = by_count(&mut random, low, high);
                new.push((allocate(size), size));
                live += size;
            }
            let Some((block, size)) = old.pop() else { break };
            // SAFETY: the block came from `allocate` and left the list just now.
            unsafe { release(block) };
            live -= size;
        }
        mark("phase", held(live, [&old, &new]));
        old = new;
    }
    mark("end", held(live, [&old, &Vec::new()]));
}

/// Two blocks of 64 KiB grow by turns to `bytes` each, by a quarter each time: with larger steps,
/// a copy's second half would hide in what the next step needs anyway. Contents must stay.
/// Mark: `grown`.
pub fn grow(bytes: usize) {
    let mut size = 64 << 10;
    let mut blocks = [allocate(size), allocate(size)];
    while size < bytes {
        let larger = (size + size / 4).min(bytes);
        for block in &mut blocks {
            // SAFETY: the block is live, and replaced by the returned one.
            *block = unsafe { libc::realloc(block.cast(), larger) }.cast();
            assert!(!block.is_null(), "realloc to {larger} failed");
            // SAFETY: the block is live and has this size.
            let contents = unsafe { std::slice::from_raw_parts_mut(*block, larger) };
            let (old, new) = contents.split_at_mut(size);
            assert!(old.iter().step_by(4096).all(|&byte| byte == 0xa5), "contents lost");
            new.fill(0xa5);
        }
        size = larger;
    }
    mark("grown", 2 * size);
}

/// Free the address of a static, which belongs to no allocator. Mark: `alive`.
pub fn foreign() {
    #[repr(align(64))]
    struct Aligned(#[expect(dead_code, reason = "only its address is used")] [u8; 256]);
    static NOT_ALLOCATED: Aligned = Aligned([0; 256]);
    let pointer = (&raw const NOT_ALLOCATED).cast_mut().cast();
    // SAFETY: not sound by the rules of C, which is the point: the allocator must notice that the
    // pointer is not its own, and must not follow it.
    unsafe { libc::free(pointer) };
    let mut chain = Chain::default();
    chain.fill(1 << 20, || 100);
    mark("alive", chain.bytes());
}

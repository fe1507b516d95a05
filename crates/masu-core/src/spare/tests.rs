use super::*;
use crate::own_process::alone;

/// Whether all of a block is zero.
fn is_zero(p: *const u8, size: usize) -> bool {
    // SAFETY: a live block of that size.
    unsafe { core::slice::from_raw_parts(p, size) }.iter().all(|byte| *byte == 0)
}

#[test]
fn blocks_are_zero_aligned_apart_and_known() {
    let sizes = [0, 1, 16, 100, 4096, 70_000, 3 << 20];
    for round in 0..3 {
        let mut blocks = Vec::new();
        for size in sizes {
            for align in [1, 16, 64, 4096, 2 << 20] {
                let p = alloc(size, align);
                assert!(!p.is_null() && p.addr().is_multiple_of(align.max(16)));
                assert!(is_zero(p, size), "{size} bytes in round {round}");
                assert_eq!(usable_size(p), size);
                // SAFETY: live, and that long.
                unsafe { p.write_bytes(0xa5, size) };
                blocks.push((p, size));
            }
        }
        blocks.sort_unstable();
        assert!(blocks.windows(2).all(|pair| pair[0].0.addr() + pair[0].1 < pair[1].0.addr()));
        for (p, size) in blocks {
            assert_eq!((give(p), usable_size(p), give(p)), (size, 0, 0));
        }
    }
}

/// Whatever other threads take of a chunk as soon as they find it, the thread that made it gets its block.
#[test]
fn a_chunk_is_found_once_its_first_block_is_cut_off() {
    alone!(a_chunk_is_found_once_its_first_block_is_cut_off, || {
        for (size, align) in [(CHUNK / 2, 16), (CHUNK - 5000, 16), (3 << 20, 4096), (0, 2 << 20)] {
            let before = chunks().count();
            let (chunk, p) = fresh(size, align).expect("memory");
            assert_eq!((chunks().count(), usable_size(p as *const u8)), (before, 0));
            assert_eq!(chunk.state.load(Ordering::Relaxed) >> 32, 1);
            link(chunk);
            while chunk.cut(16, 16).is_some() {}
            assert_eq!((chunks().count(), give(p as *const u8)), (before + 1, size));
        }
    });
}

#[test]
fn what_is_no_block_is_told_apart() {
    let p = alloc(100, 16);
    for stray in [
        p.wrapping_add(16),
        p.wrapping_add(8),
        p.wrapping_sub(16),
        (&raw const p).cast_mut().cast(),
    ] {
        assert_eq!((usable_size(stray), give(stray)), (0, 0));
    }
    assert_eq!(give(p), 100);
    assert!(alloc(usize::MAX, 16).is_null() && alloc(isize::MAX as usize, 1 << 30).is_null());
}

/// Empty chunks are reused while other threads cut blocks off them.
#[test]
fn threads_share_chunks_that_are_emptied_and_used_again() {
    // Other tests take chunks, too.
    alone!(threads_share_chunks_that_are_emptied_and_used_again, || {
        let work = |seed: u8| {
            for round in 0..3000usize {
                let size = 16 + round * 37 % 20_000;
                let p = alloc(size, 16);
                assert!(is_zero(p, size));
                // SAFETY: live, and that long.
                unsafe { p.write_bytes(seed, size) };
                // SAFETY: as above.
                assert!(unsafe { core::slice::from_raw_parts(p, size) }.iter().all(|b| *b == seed));
                assert_eq!(give(p), size);
            }
        };
        let before = chunks().count();
        std::thread::scope(|scope| {
            (1..=3).for_each(|seed| {
                scope.spawn(move || work(seed));
            })
        });
        assert!(chunks().count() <= before + 3 + 8, "{} chunks", chunks().count());
    });
}

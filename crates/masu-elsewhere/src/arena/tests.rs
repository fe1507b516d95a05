//! Arenas over the system's allocator.

use super::*;

#[test]
fn a_block_has_the_engines_size_and_alignment_and_is_its_arenas() {
    let arena = Arena::create().expect("an arena");
    let other = Arena::create().expect("an arena");
    assert_ne!(arena.id(), other.id());
    for (size, align, usable) in [
        (0, 1, 16),
        (100, 1, 112),
        (100, 64, 128),
        (5000, 16, 5120),
        (10, 8192, 4096),
        (100_000, 4096, 106_496),
        (2_000_000, 1 << 16, 2_002_944),
    ] {
        let p = arena.alloc(size, align, true);
        assert!(!p.is_null() && p.addr().is_multiple_of(align.max(16)), "{size} {align}");
        // SAFETY: a live block of that many bytes, freed once.
        unsafe {
            assert_eq!(usable_size(p), usable, "{size} {align}");
            assert!((0..usable).all(|i| p.add(i).read() == 0), "{size} {align}");
            p.write_bytes(1, usable);
            assert!(Arena::of(p).is_some_and(|of| of.id() == arena.id()));
            assert_eq!(arena.allocated(), usable);
            arena.dealloc(p);
            assert!(Arena::of(p).is_none());
        }
    }
    assert!(arena.alloc(usize::MAX, 1, false).is_null());
    assert!(arena.alloc(isize::MAX as usize, 4096, false).is_null());
    let foreign = 7u8;
    assert!(Arena::of(&raw const foreign).is_none() && Arena::of(core::ptr::null()).is_none());
    // SAFETY: the blocks are no longer used.
    unsafe {
        arena.destroy();
        other.destroy();
    }
}

#[test]
fn a_block_that_grows_keeps_its_bytes_and_what_it_gains_is_zero() {
    let arena = Arena::create().expect("an arena");
    // SAFETY: a live block, from one size to the next.
    unsafe {
        let mut p = arena.alloc(100, 16, false);
        p.write_bytes(7, 112);
        assert!(try_resize(p, 105) && !try_resize(p, 200));
        p = arena.realloc(p, 20_000, 64, true);
        assert!((0..112).all(|i| p.add(i).read() == 7));
        assert!((112..usable_size(p)).all(|i| p.add(i).read() == 0));
        let stats = arena.stats();
        assert_eq!((stats.blocks, stats.allocs, stats.frees, stats.medium()), (1, 2, 1, 1));
        arena.set_limits(usize::MAX, 40_000);
        assert!(arena.realloc(p, 100_000, 64, true).is_null());
        assert_eq!(p.read(), 7);
        assert_eq!(arena.stats().refused, 1);
        arena.reset();
        assert_eq!((arena.allocated(), arena.stats().blocks), (0, 0));
        arena.destroy();
    }
}

#[test]
fn the_soft_limit_gives_one_signal_for_each_crossing() {
    let arena = Arena::create().expect("an arena");
    arena.set_limits(1000, usize::MAX);
    // SAFETY: live blocks, freed once.
    unsafe {
        let blocks = [0; 3].map(|_| arena.alloc(448, 16, false));
        assert!(arena.take_signal() && !arena.take_signal());
        let more = arena.alloc(448, 16, false);
        assert!(!arena.take_signal());
        arena.dealloc(more);
        blocks.iter().for_each(|p| arena.dealloc(*p));
        let again = [0; 3].map(|_| arena.alloc(448, 16, false));
        assert!(arena.take_signal());
        assert_eq!(arena.stats().by_size().collect::<Vec<_>>(), [(448, 3)]);
        again.iter().for_each(|p| arena.dealloc(*p));
        arena.destroy();
    }
}

/// Threads that allocate in one arena and free what others allocated.
#[test]
fn any_thread_may_use_an_arena() {
    let arena = Arena::create().expect("an arena");
    let (give, take) = std::sync::mpsc::channel::<Place>();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let give = give.clone();
            scope.spawn(move || {
                for size in 0..500 {
                    give.send(Place(arena.alloc(size, 16, false))).expect("a receiver");
                }
            });
        }
        drop(give);
        // SAFETY: each block is received once.
        take.iter().for_each(|Place(p)| unsafe { arena.dealloc(p) });
    });
    let stats = arena.stats();
    assert_eq!((stats.allocs, stats.frees, stats.blocks, stats.allocated), (2000, 2000, 0, 0));
    // SAFETY: the arena is no longer used.
    unsafe { arena.destroy() };
}

//! A server that loads its data once and then forks workers.

use crate::blocks::{Chain, by_count};
use crate::marks::mark;

/// The parent builds `bytes` of small objects and forks; each child reads all of it, does a
/// request's worth of allocating and freeing, and waits. Marks: `loaded`, `forked`.
pub fn prefork(children: usize, bytes: usize) {
    let mut random = fastrand::Rng::with_seed(1);
    let mut data = Chain::default();
    data.fill(bytes, || by_count(&mut random, 16, 4096));
    mark("loaded", data.bytes());

    let (ready, tell) = pipe();
    let (hold, release) = pipe();
    let mut byte = 0u8;
    for child in 0..children {
        // SAFETY: this process has one thread, so the child may run any code.
        match unsafe { libc::fork() } {
            -1 => panic!("fork failed"),
            0 => {
                // SAFETY: the child's own copy of a descriptor that it does not use.
                unsafe { libc::close(release) };
                work(&data, child as u64);
                // SAFETY: one byte each, as stated; the read ends when the parent does.
                unsafe {
                    libc::write(tell, b"r".as_ptr().cast(), 1);
                    libc::read(hold, (&raw mut byte).cast(), 1);
                    libc::_exit(0);
                }
            }
            _ => (),
        }
    }
    // SAFETY: the parent's own copy; without it, a child that dies ends the wait below.
    unsafe { libc::close(tell) };
    for _ in 0..children {
        // SAFETY: one byte of room, as stated.
        assert_eq!(unsafe { libc::read(ready, (&raw mut byte).cast(), 1) }, 1);
    }
    mark("forked", data.bytes());
}

/// Eight requests: each allocates 256 KiB and keeps a little of it for the next one.
fn work(data: &Chain, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    assert!(data.count() > 0);
    let mut kept = Chain::default();
    for _ in 0..8 {
        let mut request = Chain::default();
        request.fill(256 << 10, || by_count(&mut random, 16, 4096));
        kept.fill(kept.bytes() + (8 << 10), || by_count(&mut random, 16, 1024));
    }
    std::mem::forget(kept);
}

/// A pipe's read and write ends.
fn pipe() -> (i32, i32) {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors, as stated.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    (ends[0], ends[1])
}

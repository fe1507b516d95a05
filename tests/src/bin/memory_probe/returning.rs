//! Memory that is freed and should go back to the system while the program sleeps.

use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use crate::blocks::{Chain, allocate, by_bytes, release};
use crate::marks::mark;

/// Threads fill `bytes` with blocks of 16 B to 256 KiB and free them.
///
/// Marks: `held`, `peak`, `freed`, and with `trim` also `trimmed`.
pub fn burst(threads: usize, bytes: usize, keep: usize, trim: bool) {
    let draw = |random: &mut fastrand::Rng| by_bytes(random, 16, 256 << 10);
    let mut kept = Chain::default();
    let mut random = fastrand::Rng::with_seed(0);
    kept.fill(keep, || draw(&mut random));
    mark("held", kept.bytes());

    if threads == 0 {
        let mut chain = Chain::default();
        chain.fill(bytes, || draw(&mut random));
        mark("peak", kept.bytes() + chain.bytes());
        drop(chain);
    } else {
        let step = Arc::new(Barrier::new(threads + 1));
        for seed in 1..=threads {
            let step = step.clone();
            thread::spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed as u64);
                let mut chain = Chain::default();
                chain.fill(bytes / threads, || draw(&mut random));
                step.wait();
                step.wait();
                chain.free_all();
                step.wait();
                sleep();
            });
        }
        step.wait();
        mark("peak", kept.bytes() + bytes);
        step.wait();
        step.wait();
    }
    mark("freed", kept.bytes());
    if trim {
        // SAFETY: malloc_trim may be called at any time. (musl has none, and links nothing that is preloaded.)
        #[cfg(target_env = "gnu")]
        unsafe {
            libc::malloc_trim(0)
        };
        mark("trimmed", kept.bytes());
    }
}

/// One thread allocates `bytes`, another frees them. Marks: `peak`, `freed`.
pub fn handoff(bytes: usize, low: usize, high: usize) {
    let (to_consumer, from_producer) = mpsc::channel::<Chain>();
    let (ready, wait) = mpsc::channel();
    let (go, told) = mpsc::channel::<()>();
    let produced = ready.clone();
    thread::spawn(move || {
        let mut random = fastrand::Rng::with_seed(1);
        let mut chain = Chain::default();
        chain.fill(bytes, || by_bytes(&mut random, low, high));
        to_consumer.send(chain).expect("the consumer lives");
        produced.send(()).expect("main lives");
        sleep();
    });
    thread::spawn(move || {
        let chain = from_producer.recv().expect("the producer lives");
        told.recv().expect("main lives");
        drop(chain);
        ready.send(()).expect("main lives");
        sleep();
    });
    wait.recv().expect("the producer lives");
    mark("peak", bytes);
    go.send(()).expect("the consumer lives");
    wait.recv().expect("the consumer lives");
    mark("freed", 0);
}

/// `count` blocks of `size` bytes are written and freed, `times` times. Marks: `peak` the first time, `freed` the last.
pub fn huge(count: usize, size: usize, times: usize) {
    for time in 0..times {
        let blocks: Vec<_> = (0..count).map(|_| allocate(size)).collect();
        if time == 0 {
            mark("peak", count * size);
        }
        for block in blocks {
            // SAFETY: each block came from `allocate` and is released once.
            unsafe { release(block) };
        }
    }
    mark("freed", 0);
}

/// Fill and free `bytes`, pausing 100 ms when full and when empty. Marks: `once`, `done`.
pub fn cycle(bytes: usize, times: usize) {
    let mut chain = Chain::default();
    for time in 0..times {
        let mut random = fastrand::Rng::with_seed(1);
        chain.fill(bytes, || by_bytes(&mut random, 16, 256 << 10));
        thread::sleep(Duration::from_millis(100));
        if time == 0 {
            mark("once", chain.bytes());
        }
        chain.free_all();
        thread::sleep(Duration::from_millis(100));
    }
    mark("done", 0);
}

/// Wait on a futex for the rest of the program's life.
pub fn sleep() -> ! {
    loop {
        thread::park();
    }
}

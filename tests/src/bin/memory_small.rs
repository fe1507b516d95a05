//! A small program of the kind that is started often: a few maps and lists of
//! small blocks, in one thread, up to a given number of KiB.
//!
//! It depends only on the standard library, so that what the allocator adds can be seen. Once
//! ready, it writes one line and waits for its standard input to close.

use std::io::{Read, Write};

fn main() {
    let kib: usize = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(512);
    let mut random = fastrand::Rng::with_seed(1);
    let mut blocks: Vec<Box<[u8]>> = Vec::new();
    let mut live = 0;
    while live < kib * 1024 {
        // Mostly short strings, some nodes and buffers: what parsers and tools hold.
        let size = match random.u32(0..100) {
            0..70 => random.usize(8..64),
            70..95 => random.usize(64..512),
            95..99 => random.usize(512..4096),
            _ => random.usize(4096..20_000),
        };
        blocks.push(vec![1; size].into_boxed_slice());
        live += size;
        // A third of a small program's allocations are short-lived.
        if random.u32(0..3) == 0 {
            let victim = random.usize(0..blocks.len());
            live -= blocks.swap_remove(victim).len();
        }
    }
    let line = format!("ready {live}\n");
    std::io::stdout().write_all(line.as_bytes()).expect("a reader of our output");
    std::io::stdin().read_exact(&mut [0]).ok();
}

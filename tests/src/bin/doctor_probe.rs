//! A Rust program whose global allocator is masu, for the doctor's matrix. It does what `c/doctor_probe.c` does: by
//! Rust's allocator or, if `c` is asked for, by `malloc`.

use std::hint::black_box;
use std::io::{Read, Write};

#[global_allocator]
static GLOBAL: masu::Masu = masu::Masu;

const BLOCKS: usize = 48 << 10;
const BYTES: usize = 1000;

fn main() {
    let by_malloc = std::env::args().nth(1).is_some_and(|way| way == "c");
    for _ in 0..BLOCKS {
        if by_malloc {
            // SAFETY: any size is allowed; the block is never freed.
            black_box(unsafe { libc::malloc(BYTES) });
        } else {
            black_box(Vec::<u8>::with_capacity(BYTES)).leak();
        }
    }
    println!("ready {}", std::process::id());
    std::io::stdout().flush().expect("a pipe");
    let _ = std::io::stdin().read(&mut [0]);
}

//! The measured program: all sizes of one pattern in one kind of store.
//!
//! It is built twice, on the system's allocator and with masu as its global allocator, and says
//! whether the C library served it: a block that is taken either grows what `mallinfo2` counts, or
//! does not.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use rand::{SeedableRng, rngs::StdRng};

use super::bufpool::Bufpool;
use super::patterns::{Pattern, batch};
use super::stores::{Boxes, Data, Keyed, Make};

/// The sizes in bytes.
pub const SIZES: [usize; 19] =
    [8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096];
/// Batches that are timed as one.
pub const INNER: usize = 1000;
/// Where random choices start.
const SEED: u64 = 42;

/// Timed: the store's name, whether it is warm, and its batch for each size.
type Batch = fn(Pattern, bool, &mut StdRng);

macro_rules! sizes {
    ($size:expr, |$n:ident| $batch:expr; $($value:literal)*) => {
        match $size {
            $($value => {
                const $n: usize = $value;
                $batch
            })*
            _ => return None,
        }
    };
}

macro_rules! at {
    ($size:expr, |$n:ident| $batch:expr) => {
        sizes!($size, |$n| $batch;
            8 12 16 24 32 48 64 96 128 192 256 384 512 768 1024 1536 2048 3072 4096)
    };
}

/// The batch of a store for objects of `size` bytes.
fn of(store: &str, size: usize) -> Option<Batch> {
    Some(match store {
        "box" => at!(size, |N| batch::<Boxes<N>> as Batch),
        "slab" => at!(size, |N| batch::<Keyed<slab::Slab<Data<N>>>> as Batch),
        "bufpool" => at!(size, |N| batch::<Bufpool<Data<N>>> as Batch),
        "masu_slab" => at!(size, |N| batch::<Keyed<masu::Slab<Data<N>>>> as Batch),
        "masu_pool" => at!(size, |N| batch::<masu::Pool<Make<N>>> as Batch),
        _ => return None,
    })
}

/// `STORE cold|warm PATTERN ITERATIONS [SIZE]`: prints a line for each iteration and size, or for
/// one size alone, as is needed to count what it does.
pub fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [store, warm, pattern, iterations, only @ ..] = words.as_slice() else { return usage() };
    let warm = warm == "warm";
    let (Some(pattern), Ok(iterations)) = (Pattern::named(pattern), iterations.parse::<u32>())
    else {
        return usage();
    };
    let wanted = |size: &usize| only.iter().all(|only| *only == size.to_string());
    if !SIZES.iter().any(wanted) {
        return usage();
    }
    println!("libc_serves {}", if libc_serves() { "yes" } else { "no" });
    let mut rng = StdRng::seed_from_u64(SEED);
    let start = Instant::now();
    for _ in 0..10_000 {
        black_box((start.elapsed(), Box::new([0u8; 64])));
    }
    for size in SIZES.into_iter().filter(wanted) {
        let Some(batch) = of(store, size) else { return usage() };
        for iteration in 0..iterations {
            let before = faults();
            let start = Instant::now();
            batch(pattern, warm, &mut rng);
            let latency = start.elapsed();
            for _ in 1..INNER {
                batch(pattern, warm, &mut rng);
            }
            let total = start.elapsed();
            let faults = faults() - before;
            println!(
                "cell {size} {iteration} {} {} {faults}",
                total.as_nanos(),
                latency.as_nanos()
            );
        }
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: memalloc-… STORE cold|warm PATTERN ITERATIONS [SIZE]");
    ExitCode::from(2)
}

/// Whether the C library's allocator serves a box of this program.
fn libc_serves() -> bool {
    // SAFETY: only reads the C library's counters.
    let used = || unsafe { libc::mallinfo2() }.uordblks;
    let before = used();
    let block = black_box(Box::new([0u8; 1 << 16]));
    let after = used();
    drop(block);
    after >= before + (1 << 16)
}

/// Page faults of this process so far.
fn faults() -> i64 {
    // SAFETY: rusage is plain data for which zero is valid, and the place is writable.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage.ru_minflt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_store_has_every_size_and_pattern() {
        let mut rng = StdRng::seed_from_u64(SEED);
        for store in ["box", "slab", "bufpool", "masu_slab", "masu_pool"] {
            for size in SIZES {
                let batch = of(store, size).unwrap();
                for pattern in Pattern::ALL {
                    for warm in [false, true] {
                        batch(pattern, warm, &mut rng);
                    }
                }
            }
            assert!(of(store, 9).is_none());
        }
        assert!(of("other", 8).is_none());
    }

    #[test]
    fn the_system_serves_this_test() {
        // Other tests allocate and free meanwhile.
        assert!((0..1000).any(|_| libc_serves()));
    }
}

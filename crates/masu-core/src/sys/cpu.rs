//! How many processors the process may use.

use super::raw::{nr, syscall};
use super::result;
use crate::sync::{AtomicU32, Ordering};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// Processors in the calling thread's affinity mask when first asked; at least 1.
pub fn count() -> u32 {
    match COUNT.load(Ordering::Relaxed) {
        0 => {
            let n = ask();
            COUNT.store(n, Ordering::Relaxed);
            n
        }
        n => n,
    }
}

#[cold]
fn ask() -> u32 {
    // 1,024 processors; a larger machine makes the call fail, and then many are assumed.
    let mut mask = [0u64; 16];
    // SAFETY: the kernel writes at most the size given, 128 bytes, into `mask`.
    let written = unsafe {
        let at = mask.as_mut_ptr() as usize;
        result(syscall(nr::SCHED_GETAFFINITY, [0, size_of_val(&mask), at, 0, 0, 0]))
    };
    match written {
        Ok(_) => mask.iter().map(|w| w.count_ones()).sum::<u32>().max(1),
        Err(_) => 1024,
    }
}

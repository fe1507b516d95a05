//! Explicit thread caches: numbers that programs make, pass in `MALLOCX_TCACHE` and give back.
//!
//! An explicit cache keeps a thread's blocks apart from another's, which bins already do here. So a
//! number stands for nothing, but it is tracked, and one that was never made is refused.

use super::call::{Answer, Call, EAGAIN, EINVAL, Error};
use core::sync::atomic::{AtomicU64, Ordering};

const WORDS: usize = 16;

/// One bit per number: set while it is in use.
static USED: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

/// Reserves and returns the lowest number not in use.
fn make() -> Result<u32, Error> {
    for (w, word) in USED.iter().enumerate() {
        let mut used = word.load(Ordering::Relaxed);
        while used != u64::MAX {
            let bit = used.trailing_ones();
            match word.compare_exchange_weak(
                used,
                used | 1 << bit,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(w as u32 * 64 + bit),
                Err(now) => used = now,
            }
        }
    }
    Err(EAGAIN)
}

/// Returns the word and bit of a number in use.
fn find(number: u32) -> Result<(&'static AtomicU64, u64), Error> {
    let word = USED.get(number as usize / 64).ok_or(EINVAL)?;
    let bit = 1 << (number % 64);
    if word.load(Ordering::Relaxed) & bit == 0 { Err(EINVAL) } else { Ok((word, bit)) }
}

/// `tcache.create`.
pub fn create(call: &Call) -> Answer {
    call.read_only()?;
    call.must_read(size_of::<u32>())?;
    call.unsigned(make()?)
}

/// `tcache.flush`.
pub fn flush(call: &Call) -> Answer {
    call.write_only()?;
    find(call.new_unsigned()?.ok_or(EINVAL)?).map(drop)
}

/// `tcache.destroy`.
pub fn destroy(call: &Call) -> Answer {
    call.write_only()?;
    let (word, bit) = find(call.new_unsigned()?.ok_or(EINVAL)?)?;
    word.fetch_and(!bit, Ordering::Relaxed);
    Ok(())
}

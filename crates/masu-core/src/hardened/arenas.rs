//! The process's arenas: which of them serves a thread, and its pools, which begin when they are first needed.

use super::place::PROCESS;
use super::pool::Pool;
use super::shape::{self, CLASSES};
use crate::lock::Lock;

/// Taken before a pool's first use.
pub static BEGIN: Lock = Lock::new();

/// One in this many arenas has slots of pages.
const ARENAS_OF_PAGES: usize = 4;

/// The arena of a thread for a class. Fewer arenas serve slots of pages: each has a slab of up to 1 MiB of each such
/// class, and the slow parts, zeroing and checking for zeroes, run without the lock.
#[inline]
pub fn arena_of(class: usize, thread: usize) -> usize {
    let arenas = PROCESS.arenas().max(1);
    let arenas = if shape::is_pages(class) { arenas.div_ceil(ARENAS_OF_PAGES) } else { arenas };
    if thread < arenas { thread } else { thread % arenas }
}

/// The ready pool of a class and an arena; `None` if a fork stands still.
#[inline(never)]
pub fn pool_of(class: usize, arena: usize) -> Option<&'static Pool> {
    let region = arena * CLASSES + class;
    let pool = PROCESS.pool(region);
    if !pool.is_ready() {
        let _guard = BEGIN.enter()?;
        pool.prepare(&PROCESS, region);
    }
    Some(pool)
}

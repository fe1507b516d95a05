//! The heap profiler: which places in the program allocated what is in use.
//!
//! Every byte of a block is a sample point with probability 1 / rate, so a block of `s` bytes is sampled with
//! probability p = 1 − e^(−s / rate). A sample stands for 1 / p blocks of its size; that weight is taken when
//! the sample is drawn, since sums of blocks of different sizes cannot be weighed afterwards.
//!
//! ```text
//!  heap/sampling ── which request is a sample, and where its block comes from
//!        │ sample                        │ freed, if any sample is alive
//!        ▼                               ▼
//!      prof ── live samples by address, places by stack   [table]   ── dump   [dump, heap_v2]
//!        └──── the stack, from `stack`
//! ```
//!
//! A profile that is off costs slow paths a test of one word. What it needs is mapped when it is first
//! started, and stays.
//!
//! Locks: `table` has one, innermost. Who finds it held by a fork that stands still does without the sample.

mod area;
mod draw;
mod dump;
mod heap_v2;
mod table;

pub use area::{BASE, LENGTH, Record as Sample};
pub use draw::Draw;
pub use table::{FRAMES, Totals, lock_for_fork};

use crate::stack;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::sys::output::Descriptor;
use crate::sys::time;

/// What is sampled when nobody says: a sample in 512 KiB.
pub const DEFAULT_RATE: usize = 512 << 10;

/// Mean distance of sample points in bytes; 0: off.
static RATE: AtomicUsize = AtomicUsize::new(0);
/// Samples alive.
static LIVE: AtomicUsize = AtomicUsize::new(0);
/// Samples that could not be kept, since a fork or the bound on memory stood in the way.
static DROPPED: AtomicU64 = AtomicU64::new(0);
/// The rate of the last start, for dumps.
static LAST_RATE: AtomicUsize = AtomicUsize::new(0);
/// Milliseconds at the first start.
static BEGUN: AtomicU64 = AtomicU64::new(0);
/// Dumps written so far.
static DUMPS: AtomicU32 = AtomicU32::new(0);

/// Why a profile cannot be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// There is no memory for what it needs.
    NoMemory,
    /// A fork stands in the way, or the file cannot be written.
    Busy,
    /// None was ever started.
    NotStarted,
}

/// Starts sampling, `rate` bytes apart on average (at least 1), or changes the rate. Samples of an earlier
/// profile stay. Threads take part from their next slow path on.
///
/// # Errors
/// [`Refused::NoMemory`].
pub fn start(rate: usize) -> Result<(), Refused> {
    if !table::prepare(rate) {
        return Err(Refused::NoMemory);
    }
    let _ = BEGUN.compare_exchange(0, time::now_ms().max(1), Ordering::Relaxed, Ordering::Relaxed);
    let rate = rate.max(1);
    LAST_RATE.store(rate, Ordering::Relaxed);
    RATE.store(rate, Ordering::Release);
    Ok(())
}

/// Stops sampling. What is alive is still followed to its end.
pub fn stop() {
    RATE.store(0, Ordering::Relaxed);
}

/// Forgets everything sampled so far.
pub fn reset() {
    table::clear();
}

/// Mean distance of sample points in bytes; 0: off.
#[inline(always)]
pub fn rate() -> usize {
    RATE.load(Ordering::Relaxed)
}

/// The rate that the profile was last started with; 0: never.
pub fn last_rate() -> usize {
    LAST_RATE.load(Ordering::Relaxed)
}

/// Whether a block that is freed may be a sample.
#[inline(always)]
pub fn any_live() -> bool {
    LIVE.load(Ordering::Relaxed) != 0
}

/// Keeps a block that has just been drawn: `size` bytes of it were asked for, and it has `usable`. `kind`: see
/// [`table::kind`].
#[cold]
#[inline(never)]
pub fn sample(p: *mut u8, size: usize, usable: usize, rate: usize) {
    let mut frames = [0usize; FRAMES];
    let frames = stack::walk(&mut frames);
    if !table::insert(p as usize, size, usable, rate, frames) {
        dropped();
    }
}

/// Counts a sample that could not be kept.
#[cold]
pub fn dropped() {
    DROPPED.fetch_add(1, Ordering::Relaxed);
}

/// A block is freed, or about to move: if it was a sample, that is over. Called before the block can be
/// anybody else's.
#[cold]
#[inline(never)]
pub fn freed(p: *const u8) {
    table::remove(p as usize);
}

/// A block is about to move: takes its sample out, if it is one.
#[cold]
#[inline(never)]
pub fn set_aside(p: *const u8) -> Option<Sample> {
    table::set_aside(p as usize)
}

/// It did not move.
#[cold]
#[inline(never)]
pub fn put_back(sample: Sample) {
    table::put_back(sample);
}

/// All blocks that `ends` says so of are freed.
#[cold]
#[inline(never)]
pub fn ended(ends: impl Fn(*const u8) -> bool) {
    table::remove_all(|address| ends(address as *const u8));
}

/// What the samples say of the whole process; zeroes before the first start.
pub fn totals() -> Totals {
    table::totals()
}

/// Writes the profile to a descriptor, in masu's own format: see `docs/profiling.md`.
///
/// # Errors
/// [`Refused::NotStarted`], [`Refused::Busy`].
pub fn dump(to: u32) -> Result<(), Refused> {
    dump::write(Descriptor(to))
}

/// Writes the profile to a descriptor as jemalloc's tools read it.
///
/// # Errors
/// As for [`dump`].
pub fn dump_heap_v2(to: u32) -> Result<(), Refused> {
    heap_v2::write(Descriptor(to))
}

/// The number of the next dump, from 0.
pub fn next_dump() -> u32 {
    DUMPS.fetch_add(1, Ordering::Relaxed)
}

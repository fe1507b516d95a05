//! The heap profiler: finds which places in the program allocated the memory in use.
//!
//! Every byte of a block is a sample point with probability 1 / rate, so a block of `s` bytes is sampled with
//! probability p = 1 − e^(−s / rate). A sample stands for 1 / p blocks of its size; that weight is taken when the
//! sample is drawn, because sums of blocks of different sizes cannot be weighted afterwards.
//!
//! ```text
//!  heap/sampling ── which request is a sample, and where its block comes from
//!        │ sample                        │ freed, if any sample is alive
//!        ▼                               ▼
//!      prof ── live samples by address, places by stack   [table]   ── dump   [dump, heap_v2]
//!        └──── the stack, from `stack`
//! ```
//!
//! A profile that is off costs slow paths a test of one word. The memory it needs is mapped when it is first
//! started, and stays.
//!
//! A profile is started from inside ([`start`]), or from outside by `masu prof -p`, which writes to the process: see
//! `switch`.
//!
//! Locks: `table` has one, innermost. A thread that finds it held by a fork that stands still does without the
//! sample.

mod area;
mod copy;
mod draw;
mod dump;
mod every;
pub mod heads;
mod heap_v2;
mod peak;
pub mod switch;
mod table;

pub use area::{Amount, LENGTH, NO_HOME, Record as Sample, Site};
pub use draw::Draw;
pub use every::{Event, Known, frames_of, is_every, known, moved, set_every, site_here};
pub use table::{FRAMES, Totals, lock_for_fork, totals, used_bytes};

use crate::config::Config;
use crate::features;
use crate::stack;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::sys::output::{self, Descriptor};
use crate::sys::tags::untagged;
use crate::sys::time;
use switch::Switch;
use table::{Drawn, Origin};

/// What lies where, for readers of the process from outside.
pub mod outside {
    pub use super::area::{BASE, FIRST_SITE, NO_HOME, PARTS};
    pub use super::peak::{PEAK, TOP};
    pub use super::switch::{Switch, Word, ask};
    pub use super::table::{CHANGES, LARGE_KINDS, SITES, USED};
    pub use super::{BEGUN, DROPPED, SWITCH};
}

/// The default rate: a sample in 512 KiB.
pub const DEFAULT_RATE: usize = Config::DEFAULT.prof_rate;

/// Whether a profile is being taken.
pub static SWITCH: Switch = Switch::new();
/// The rate of the program's own last start, whose samples a request from outside must not clear; 0 if there was none.
static OWN_RATE: AtomicUsize = AtomicUsize::new(0);
/// Samples alive.
static LIVE: AtomicUsize = AtomicUsize::new(0);
/// Samples that could not be kept, because of a fork or the bound on memory.
pub static DROPPED: AtomicU64 = AtomicU64::new(0);
/// The rate of the last start, for dumps.
static LAST_RATE: AtomicUsize = AtomicUsize::new(0);
/// Milliseconds at the first start.
pub static BEGUN: AtomicU64 = AtomicU64::new(0);
/// Dumps written so far.
static DUMPS: AtomicU32 = AtomicU32::new(0);

/// Why there is no profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// There is no memory for it.
    NoMemory,
    /// A fork stands still, or the file cannot be written.
    Busy,
    /// No profile was ever started.
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
    let rate = if is_every() { 1 } else { rate.max(1) };
    OWN_RATE.store(rate, Ordering::Relaxed);
    LAST_RATE.store(rate, Ordering::Relaxed);
    SWITCH.start(rate);
    Ok(())
}

/// Starts the profile that was asked for from outside. Returns `false` if that is not possible now. Forgets what an
/// earlier request from outside has left, which is no longer needed.
#[cold]
#[inline(never)]
pub fn answer() -> bool {
    SWITCH.answer(output::process(), table::enter, |table, rate| {
        if OWN_RATE.load(Ordering::Relaxed) == 0 {
            table.clear();
            BEGUN.store(time::now_ms().max(1), Ordering::Relaxed);
        }
        LAST_RATE.store(rate, Ordering::Relaxed);
    })
}

/// The number of the start that is in force; 0 if one is to be answered.
#[inline(always)]
pub fn session() -> u32 {
    SWITCH.session()
}

/// Whether a profile was asked for from outside, and the request is still unanswered.
#[inline]
pub fn is_asked() -> bool {
    features::PROF && SWITCH.is_asked()
}

/// Stops sampling. Samples that are alive are still followed to their end. Does nothing if every block is recorded.
pub fn stop() {
    if !is_every() {
        SWITCH.stop();
    }
}

/// Forgets everything sampled so far. Does nothing if every block is recorded: reports need the records.
pub fn reset() {
    if !is_every() {
        table::clear();
    }
}

/// Mean distance of sample points in bytes; 0 if off.
#[inline(always)]
pub fn rate() -> usize {
    if features::PROF { SWITCH.rate() } else { 0 }
}

/// The rate that the profile was last started with; 0 if it never was.
pub fn last_rate() -> usize {
    if features::PROF { LAST_RATE.load(Ordering::Relaxed) } else { 0 }
}

/// The rate with which the program itself last started a profile; 0 if it never did.
pub fn own_rate() -> usize {
    if features::PROF { OWN_RATE.load(Ordering::Relaxed) } else { 0 }
}

/// Whether a block that is freed may be a sample.
#[inline(always)]
pub fn any_live() -> bool {
    features::PROF && LIVE.load(Ordering::Relaxed) != 0
}

/// Keeps a block that has just been drawn as a sample: `size` bytes of it were asked for, and it has `usable`.
/// `home`: see [`Sample`]. `most`: the bytes that all blocks in use can have at most.
#[cold]
#[inline(never)]
pub fn sample(p: *mut u8, size: usize, usable: usize, rate: usize, home: u32, most: fn() -> u64) {
    if SWITCH.is_left_behind(output::process) {
        return;
    }
    let mut room = stack::room::<FRAMES>();
    let frames = stack::walk(&mut room);
    let drawn = Drawn { address: untagged(p.addr()), size, usable, rate, home, thread: 0, most };
    if !table::insert(drawn, Origin::Stack(frames)) {
        dropped();
    }
}

/// Records a block of `size` bytes that was allocated just now, if every one is recorded: see [`set_every`]. `site`:
/// what [`site_here`] has returned for it, or 0.
#[cold]
#[inline(never)]
pub fn allocated(p: *const u8, size: usize, site: u32) {
    every::allocated(untagged(p.addr()), size, site);
}

/// Counts a sample that could not be kept.
#[cold]
pub fn dropped() {
    DROPPED.fetch_add(1, Ordering::Relaxed);
}

/// Ends the sample of a block that is freed, or about to move, if it was one. Called before the block can have a new
/// owner.
#[cold]
#[inline(never)]
pub fn freed(p: *const u8) {
    if is_every() {
        every::freed(untagged(p.addr()));
    } else {
        table::remove(untagged(p.addr()));
    }
}

/// The bytes of the block that a small sample was drawn for. Its own may be longer.
#[cold]
#[inline(never)]
pub fn usable(p: *const u8) -> Option<usize> {
    table::usable(untagged(p.addr()))
}

/// Takes out the sample of a block that is about to move, if it is one.
#[inline]
pub fn set_aside(p: *const u8) -> Option<Sample> {
    if any_live() { table::set_aside(untagged(p.addr())) } else { None }
}

/// Puts it back: the block did not move.
#[cold]
#[inline(never)]
pub fn put_back(sample: Sample) {
    table::put_back(sample);
}

/// Ends the samples of all blocks for which `ends` returns true: they are freed.
#[cold]
#[inline(never)]
pub fn ended(ends: impl Fn(*const u8) -> bool) {
    table::remove_all(|address| ends(address as *const u8));
}

/// What a place has allocated, in blocks of one size.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Bytes of a block: exact up to 16 KiB, otherwise the power of two below.
    pub size: u64,
    /// Samples drawn there.
    pub samples: u64,
    /// How many blocks each of them stands for, squared and added up.
    pub squares: f64,
    /// Everything that was allocated.
    pub allocated: Amount,
    /// The part of it that is in use.
    pub live: Amount,
    /// What was in use there when the process had most in use. All places' may add up to more than [`Totals::peak`],
    /// and are to be made smaller in proportion.
    pub peak: Amount,
    /// Milliseconds that freed blocks lived, added up.
    pub lived: u64,
    /// Return addresses, innermost first.
    pub frames: &'a [usize],
}

/// The profile at some moment, in memory of its own.
pub struct Snapshot {
    copy: copy::Copy,
    /// The rate of the last start.
    pub rate: usize,
    /// Milliseconds since the first start.
    pub milliseconds: u64,
    /// Samples that could not be kept.
    pub dropped: u64,
}

impl Snapshot {
    /// Takes a snapshot.
    ///
    /// # Errors
    /// [`Refused::NotStarted`], [`Refused::Busy`].
    pub fn take() -> Result<Snapshot, Refused> {
        if last_rate() == 0 {
            return Err(Refused::NotStarted);
        }
        let copy = copy::Copy::of_all().ok_or(Refused::Busy)?;
        let milliseconds = time::now_ms().saturating_sub(BEGUN.load(Ordering::Relaxed));
        let dropped = DROPPED.load(Ordering::Relaxed);
        Ok(Snapshot { copy, rate: last_rate(), milliseconds, dropped })
    }

    /// Its places.
    pub fn places(&self) -> impl Iterator<Item = Place<'_>> {
        self.copy.sites().map(|(site, frames)| Place {
            size: table::size_of_kind(site.kind),
            samples: site.samples,
            squares: site.squares,
            allocated: site.allocated,
            live: site.live,
            peak: peak::of(site, self.copy.peak),
            lived: site.lived,
            frames,
        })
    }
}

/// Writes the profile to a descriptor, in masu's own format: see `docs/profiling.md`.
///
/// # Errors
/// [`Refused::NotStarted`], [`Refused::Busy`].
pub fn dump(to: u32) -> Result<(), Refused> {
    dump::write(Descriptor(to))
}

/// Writes the profile to a descriptor in the format of jemalloc's tools.
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

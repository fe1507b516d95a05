//! Statistics as of the last epoch.
//!
//! jemalloc's statistics stand still between two writes to `epoch`, so that a program reads figures
//! that belong together. Here too: a write takes them, all later reads give them. A program that
//! never writes gets them as of its first read.
//!
//! The figures are words of their own, and a reader during another thread's epoch may see some of
//! either; each is true of one of the two moments.

use super::arenas;
use super::call::{Answer, Call, ENOENT};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use masu_core::Stats;
use masu_core::size_class::{LAST_CLASS, size_of_class};

static EPOCH: AtomicU64 = AtomicU64::new(1);
/// Whether figures were ever taken.
static TAKEN: AtomicU64 = AtomicU64::new(0);

macro_rules! figures {
    ($($name:ident),+) => {
        /// The engine's figures of the last epoch, a word each.
        struct Words { $($name: AtomicU64),+ }

        static WORDS: Words = Words { $($name: AtomicU64::new(0)),+ };

        fn store(stats: &Stats) {
            $(WORDS.$name.store(stats.$name as u64, Ordering::Relaxed);)+
        }

        /// The engine's figures as of the last epoch.
        fn load() -> Stats {
            let mut stats = Stats::default();
            $(stats.$name = WORDS.$name.load(Ordering::Relaxed) as _;)+
            stats
        }
    };
}

figures! {
    allocated, active, resident, mapped, retained, metadata, dirty, thread_cached, threads, refills,
    medium_allocs, huge_allocs, purged_bytes, purge_ticks
}

/// Slabs and blocks of each small class.
static SLABS: [AtomicUsize; LAST_CLASS] = [const { AtomicUsize::new(0) }; LAST_CLASS];
static BLOCKS: [AtomicUsize; LAST_CLASS] = [const { AtomicUsize::new(0) }; LAST_CLASS];

/// Begins an epoch.
pub fn renew() {
    take();
    EPOCH.fetch_add(1, Ordering::Relaxed);
}

fn take() {
    store(&masu_core::stats());
    for (class, (slabs, blocks)) in masu_core::class_stats().iter().zip(SLABS.iter().zip(&BLOCKS)) {
        slabs.store(class.slabs, Ordering::Relaxed);
        blocks.store(class.blocks, Ordering::Relaxed);
    }
    TAKEN.store(1, Ordering::Release);
}

/// The figures of the last epoch, of now if there was none.
#[unsafe(link_section = "masu_door")]
pub fn latest() -> Stats {
    if TAKEN.load(Ordering::Acquire) == 0 {
        take();
    }
    load()
}

/// `epoch`: any new value begins the next one.
pub fn epoch(call: &Call) -> Answer {
    if call.new_size()?.is_some() {
        renew();
    }
    call.word(EPOCH.load(Ordering::Relaxed))
}

/// A figure of the whole process.
pub fn give(call: &Call, of: impl FnOnce(&Stats) -> usize) -> Answer {
    call.read_only()?;
    call.size(of(&latest()))
}

/// Refuses arenas that do not exist.
pub fn of_arena(call: &Call) -> Answer {
    if arenas::is_listed(call) { Ok(()) } else { Err(ENOENT) }
}

/// A figure of an arena. They are kept for all arenas together and for those that programs made;
/// arena 0 has what the others have not, which is nearly everything.
pub fn arena(call: &Call, of: impl FnOnce(&Stats) -> usize) -> Answer {
    call.read_only()?;
    of_arena(call)?;
    let figures = match arenas::named(call) {
        0 | arenas::ALL => latest(),
        made => arenas::figures(made),
    };
    call.size(of(&figures))
}

/// `stats.arenas.<i>.nthreads`.
pub fn arena_threads(call: &Call) -> Answer {
    call.read_only()?;
    of_arena(call)?;
    call.unsigned(match arenas::named(call) {
        0 | arenas::ALL => latest().threads as u32,
        _ => 0,
    })
}

/// The class and counts of `stats.arenas.<i>.bins.<j>`.
fn bin(call: &Call, counts: &[AtomicUsize; LAST_CLASS]) -> Answer {
    call.read_only()?;
    of_arena(call)?;
    let count = counts.get(call.index[1]).ok_or(ENOENT)?;
    latest();
    call.size(match arenas::named(call) {
        0 | arenas::ALL => count.load(Ordering::Relaxed),
        _ => return Err(ENOENT),
    })
}

/// `stats.arenas.<i>.bins.<j>.curregs`.
pub fn bin_blocks(call: &Call) -> Answer {
    bin(call, &BLOCKS)
}

/// `stats.arenas.<i>.bins.<j>.curslabs`.
pub fn bin_slabs(call: &Call) -> Answer {
    bin(call, &SLABS)
}

/// Slabs and blocks of a small class (from 0) as of the last epoch.
pub fn class(class: usize) -> (usize, usize) {
    let get = |counts: &[AtomicUsize]| counts.get(class).map_or(0, |n| n.load(Ordering::Relaxed));
    (get(&SLABS), get(&BLOCKS))
}

/// Bytes in small blocks as of the last epoch.
pub fn small() -> usize {
    (0..LAST_CLASS).map(|c| class(c).1 * size_of_class(c + 1)).sum()
}

/// `stats.arenas.<i>.small.allocated`.
pub fn small_bytes(call: &Call) -> Answer {
    call.read_only()?;
    of_arena(call)?;
    latest();
    match arenas::named(call) {
        0 | arenas::ALL => call.size(small()),
        _ => Err(ENOENT),
    }
}

/// `stats.arenas.<i>.large.allocated`.
pub fn large_bytes(call: &Call) -> Answer {
    call.read_only()?;
    of_arena(call)?;
    let all = latest().allocated;
    match arenas::named(call) {
        0 | arenas::ALL => call.size(all.saturating_sub(small())),
        _ => Err(ENOENT),
    }
}

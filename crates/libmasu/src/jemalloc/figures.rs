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
use super::tree::SPAN;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use masu_core::size_class::{LAST_CLASS, size_of_class};
use masu_core::{Arena, ArenaStats, Stats};

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

/// Figures of a small class as of the last epoch.
struct Class {
    spans: AtomicUsize,
    blocks: AtomicUsize,
    freed: AtomicUsize,
}

static CLASSES: [Class; LAST_CLASS] = [const {
    Class { spans: AtomicUsize::new(0), blocks: AtomicUsize::new(0), freed: AtomicUsize::new(0) }
}; LAST_CLASS];

/// Begins an epoch.
pub fn renew() {
    take();
    EPOCH.fetch_add(1, Ordering::Relaxed);
}

fn take() {
    store(&masu_core::stats());
    for (now, class) in masu_core::class_stats().iter().zip(&CLASSES) {
        class.spans.store(now.spans, Ordering::Relaxed);
        let before = class.blocks.swap(now.blocks, Ordering::Relaxed);
        class.freed.fetch_add(before.saturating_sub(now.blocks), Ordering::Relaxed);
    }
    TAKEN.store(1, Ordering::Release);
}

/// Sees to it that there are figures.
fn begin() {
    if TAKEN.load(Ordering::Acquire) == 0 {
        take();
    }
}

/// The figures of the last epoch, of now if there was none.
#[unsafe(link_section = "masu_door")]
pub fn latest() -> Stats {
    begin();
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

/// What is in a class of small blocks, jemalloc's bin.
#[derive(Clone, Copy)]
pub struct Bin {
    /// Bytes of a block.
    pub size: usize,
    /// Spans.
    pub spans: usize,
    /// Blocks in use, those that threads keep to hand among them.
    pub blocks: usize,
    /// Blocks freed. Nobody counts them one by one, so these are those that were fewer at one epoch
    /// than at the one before: what was freed and allocated anew in between is in neither this figure
    /// nor [`Bin::allocated`], and the difference of the two is right.
    pub freed: usize,
}

impl Bin {
    /// Blocks allocated.
    pub fn allocated(&self) -> usize {
        self.freed + self.blocks
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.size * self.blocks
    }
}

/// The small classes of all arenas together, the smallest first, as of the last epoch.
pub fn bins() -> impl Iterator<Item = Bin> {
    CLASSES.iter().enumerate().map(|(class, figures)| Bin {
        size: size_of_class(class + 1),
        spans: figures.spans.load(Ordering::Relaxed),
        blocks: figures.blocks.load(Ordering::Relaxed),
        freed: figures.freed.load(Ordering::Relaxed),
    })
}

/// A class in an arena that a program made, now. Spans by class are not counted there: these are as few
/// as hold the blocks.
fn made_bin(bin: &Bin, heap: &ArenaStats) -> Bin {
    let of_size = heap.by_size().find(|(size, _)| *size == bin.size);
    let blocks = of_size.map_or(0, |(_, blocks)| blocks as usize);
    let spans = (blocks * bin.size).div_ceil(SPAN);
    Bin { size: bin.size, spans, blocks, freed: 0 }
}

/// A figure of a class in the arena of a call, or their sum.
#[inline(never)]
fn of_bins(call: &Call, class: Option<usize>, of: fn(&Bin) -> usize) -> Answer {
    call.read_only()?;
    of_arena(call)?;
    begin();
    let made = arenas::heap(arenas::named(call)).map(Arena::stats);
    let mut bins = bins().map(|bin| of(&made.as_ref().map_or(bin, |heap| made_bin(&bin, heap))));
    call.size(match class {
        Some(class) => bins.nth(class).ok_or(ENOENT)?,
        None => bins.sum(),
    })
}

/// A figure of `stats.arenas.<i>.bins.<j>`.
pub fn bin(call: &Call, of: fn(&Bin) -> usize) -> Answer {
    of_bins(call, Some(call.index[1]), of)
}

/// A figure of `stats.arenas.<i>.small`.
pub fn small(call: &Call, of: fn(&Bin) -> usize) -> Answer {
    of_bins(call, None, of)
}

/// `stats.arenas.<i>.large.allocated`.
pub fn large_bytes(call: &Call) -> Answer {
    call.read_only()?;
    of_arena(call)?;
    let all = latest().allocated;
    call.size(match arenas::heap(arenas::named(call)) {
        Some(heap) => heap.stats().large,
        None => all.saturating_sub(bins().map(|bin| bin.bytes()).sum()),
    })
}

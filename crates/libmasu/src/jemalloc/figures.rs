//! Statistics as of the last epoch.
//!
//! jemalloc's statistics stand still between two writes to `epoch`, so that a program reads
//! consistent figures. The same holds here: a write takes them, and all later reads return them. A
//! program that never writes gets them as of its first read.
//!
//! Each figure is a separate word, and a reader during another thread's epoch may see a mixture;
//! each figure is true of one of the two moments.

use super::arenas;
use super::call::{Answer, Call, ENOENT};
use super::tree::SPAN;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use masu_core::size_class::{LAST_CLASS, size_of_class};
use masu_core::{Arena, ArenaStats, Stats};

static EPOCH: AtomicU64 = AtomicU64::new(1);
/// Whether figures have been taken.
static TAKEN: AtomicU64 = AtomicU64::new(0);

macro_rules! figures {
    ($($name:ident),+) => {
        /// The engine's figures of the last epoch, a word each.
        struct Words { $($name: AtomicU64),+ }

        static WORDS: Words = Words { $($name: AtomicU64::new(0)),+ };

        fn store(stats: &Stats) {
            $(WORDS.$name.store(stats.$name as u64, Ordering::Relaxed);)+
        }

        /// Returns the engine's figures as of the last epoch.
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

/// Makes sure that there are figures.
fn begin() {
    if TAKEN.load(Ordering::Acquire) == 0 {
        take();
    }
}

/// Returns the figures of the last epoch, or current ones if there was none.
#[unsafe(link_section = "masu_door")]
pub fn latest() -> Stats {
    begin();
    load()
}

/// `epoch`: writing any value begins the next epoch.
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

/// Returns a figure of an arena. Figures are kept for all arenas together and for those that
/// programs made; arena 0 gets the rest, which is nearly everything.
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
        made => arenas::heap(made).map_or(0, Arena::threads),
    })
}

/// The contents of a class of small blocks, jemalloc's bin.
#[derive(Clone, Copy)]
pub struct Bin {
    /// Bytes of a block.
    pub size: usize,
    /// Spans.
    pub spans: usize,
    /// Blocks in use, including free ones that threads keep for reuse.
    pub blocks: usize,
    /// Blocks freed. They are not counted one by one: this sums the decreases from one epoch to the
    /// next. Blocks freed and reallocated in between are in neither this figure nor
    /// [`Bin::allocated`], but the difference of the two is right.
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

/// Yields the small classes of all arenas together, smallest first, as of the last epoch.
pub fn bins() -> impl Iterator<Item = Bin> {
    CLASSES.iter().enumerate().map(|(class, figures)| Bin {
        size: size_of_class(class + 1),
        spans: figures.spans.load(Ordering::Relaxed),
        blocks: figures.blocks.load(Ordering::Relaxed),
        freed: figures.freed.load(Ordering::Relaxed),
    })
}

/// Returns the current figures of a class in an arena that a program made. Spans by class are not
/// counted there: this is the smallest number that holds the blocks.
fn made_bin(bin: &Bin, heap: &ArenaStats) -> Bin {
    let of_size = heap.by_size().find(|(size, _)| *size == bin.size);
    let blocks = of_size.map_or(0, |(_, blocks)| blocks as usize);
    let spans = (blocks * bin.size).div_ceil(SPAN);
    Bin { size: bin.size, spans, blocks, freed: 0 }
}

/// Returns a figure of a class in a call's arena, or the sum over all classes.
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

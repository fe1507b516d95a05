//! Statistics as of the last epoch.
//!
//! jemalloc's statistics stand still between two writes to `epoch`, so that a program reads
//! consistent figures. The same holds here: a write takes them, and all later reads return them. A
//! program that never writes gets them as of its first read.
//!
//! Each figure is a separate word, and a reader during another thread's epoch may see a mixture;
//! each figure is true of one of the two moments.

use super::arenas;
use super::call::{Answer, Call, ENOENT, Error};
use super::tree::SPAN;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use masu_core::Stats;
use masu_core::size_class::{LAST_CLASS, size_of_class};

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

/// Refuses arenas that do not exist.
pub fn of_arena(call: &Call) -> Answer {
    if arenas::is_listed(call) { Ok(()) } else { Err(ENOENT) }
}

/// The figures of a call's arena.
#[inline(always)]
fn of_named(call: &Call) -> Result<Stats, Error> {
    call.read_only()?;
    of_arena(call)?;
    Ok(arenas::figures(arenas::named(call)))
}

/// Beyond all figures: a figure that is always 0.
pub const NONE: usize = usize::MAX;

/// Returns a figure of an arena, by its offset, in units of so many bytes. Figures are kept for all arenas together and
/// for those that programs made; arena 0 gets the rest, which is nearly everything. What only counts up is arena 0's.
#[inline(never)]
pub fn arena(call: &Call, of: usize, unit: usize) -> Answer {
    call.word(of_named(call)?.at(of) / unit as u64)
}

/// A figure of the whole process, by its offset.
pub fn give(call: &Call, of: usize) -> Answer {
    call.read_only()?;
    call.word(latest().at(of))
}

/// `stats.arenas.<i>.nthreads`, and how many large blocks were allocated.
#[inline(never)]
pub fn counts(call: &Call, is_threads: bool) -> Answer {
    let figures = of_named(call)?;
    if is_threads {
        return call.unsigned(figures.threads as u32);
    }
    call.word(figures.medium_allocs + figures.huge_allocs)
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

/// Returns the small classes of an arena, smallest first. Arena 0 has what the whole process had in the last epoch, less
/// what programs' arenas have now. Spans by class are not counted in these: theirs is the smallest number that holds
/// the blocks.
#[inline(never)]
pub fn bins(arena: usize) -> [Bin; LAST_CLASS] {
    begin();
    let mut bins = [Bin { size: 0, spans: 0, blocks: 0, freed: 0 }; LAST_CLASS];
    for (class, bin) in bins.iter_mut().enumerate() {
        bin.size = size_of_class(class + 1);
    }
    for number in 1..arenas::count() as usize {
        let Some(heap) = arenas::heap(number) else { continue };
        let counts = match arena {
            // The classes of the whole process leave out hook memory.
            arenas::ALL => heap.hook_memory().0 != 0,
            0 => heap.hook_memory().0 == 0,
            _ => number == arena,
        };
        if counts {
            for (size, blocks) in heap.stats().by_size() {
                for bin in &mut bins {
                    bin.blocks += if bin.size == size { blocks as usize } else { 0 };
                }
            }
        }
    }
    for (bin, all) in bins.iter_mut().zip(&CLASSES) {
        bin.spans = (bin.blocks * bin.size).div_ceil(SPAN);
        let (spans, blocks) =
            (all.spans.load(Ordering::Relaxed), all.blocks.load(Ordering::Relaxed));
        (bin.spans, bin.blocks) = match arena {
            arenas::ALL => (spans + bin.spans, blocks + bin.blocks),
            0 => (spans.saturating_sub(bin.spans), blocks.saturating_sub(bin.blocks)),
            _ => continue,
        };
        bin.freed = all.freed.load(Ordering::Relaxed);
    }
    bins
}

/// Returns a figure of a class in a call's arena, or the sum over all classes.
#[inline(never)]
fn of_bins(call: &Call, class: Option<usize>, of: fn(&Bin) -> usize) -> Answer {
    call.read_only()?;
    of_arena(call)?;
    let bins = bins(arenas::named(call));
    let chosen = match class {
        Some(class) => core::slice::from_ref(bins.get(class).ok_or(ENOENT)?),
        None => &bins[..],
    };
    let mut sum = 0;
    for bin in chosen {
        sum += of(bin);
    }
    call.size(sum)
}

/// A figure of `stats.arenas.<i>.bins.<j>`.
pub fn bin(call: &Call, of: fn(&Bin) -> usize) -> Answer {
    of_bins(call, Some(call.index[1]), of)
}

/// A figure of `stats.arenas.<i>.small`.
#[inline(always)]
pub fn small(call: &Call, of: fn(&Bin) -> usize) -> Answer {
    of_bins(call, None, of)
}

/// `stats.arenas.<i>.large.allocated`: what is not small.
pub fn large_bytes(call: &Call) -> Answer {
    call.read_only()?;
    of_arena(call)?;
    let arena = arenas::named(call);
    call.size(match arenas::heap(arena) {
        Some(heap) => heap.stats().large,
        None => {
            let small: usize = bins(arena).iter().map(Bin::bytes).sum();
            arenas::figures(arena).allocated.saturating_sub(small)
        }
    })
}

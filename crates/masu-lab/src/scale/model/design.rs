//! Three ways to share blocks among threads, as protocols: which lines a call touches, and when.
//!
//! | design | alloc | free by the owner | free by another thread |
//! |---|---|---|---|
//! | masu | own bin | own span | outbox; sixteen at once by one compare-and-swap; a span that nobody owns is claimed |
//! | lock per arena | small cache, then the arena's lock | the same; small ones without the lock | the same, in the block's arena |
//! | page and compare-and-swap | own page | own page | one compare-and-swap on the page's list for each block |

mod arena;
mod masu;
mod page;

pub use masu::Variant;

use masu_core::size_class::UNIT;

use super::machine::{Copied, Line, Machine};
use super::what::What;

/// A design.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Design {
    /// masu's protocol.
    Masu,
    /// The same with what is tried out.
    Tried(Variant),
    /// A lock for each arena and a small cache for each thread, as in glibc.
    Arena,
    /// Pages with an owner and a list that others push on one by one, as in mimalloc.
    Page,
}

impl Design {
    /// Those of allocators that exist.
    pub const ALL: [Design; 3] = [Design::Masu, Design::Arena, Design::Page];

    /// What reports call it.
    pub fn name(self) -> String {
        match self {
            Design::Masu => "masu's protocol".into(),
            Design::Tried(variant) => format!("masu with {variant}"),
            Design::Arena => "a lock per arena".into(),
            Design::Page => "a compare-and-swap per page".into(),
        }
    }

    /// An allocator of this design for so many threads on so many cores.
    pub fn start(self, threads: usize, cores: usize) -> Box<dyn Protocol> {
        match self {
            Design::Masu => Box::new(masu::Masu::new(threads, cores, Variant::default())),
            Design::Tried(variant) => Box::new(masu::Masu::new(threads, cores, variant)),
            Design::Arena => Box::new(arena::Arena::new(threads, cores)),
            Design::Page => Box::new(page::Page::new(threads)),
        }
    }
}

/// Who calls: a thread, and the core on which it runs.
pub struct Caller<'a> {
    /// What counts.
    pub machine: &'a mut Machine,
    /// The core's number.
    pub core: usize,
    /// The thread's number.
    pub thread: usize,
}

impl Caller<'_> {
    fn atomic(&mut self, line: &mut Line) {
        self.machine.atomic(self.core, line);
    }

    fn fetch(&mut self, line: &mut Line) {
        self.machine.fetch(self.core, line);
    }

    fn follow(&mut self, line: &mut Line) {
        self.machine.follow(self.core, line);
    }

    fn read(&mut self, line: &mut Copied) {
        self.machine.read(self.core, line);
    }

    fn change(&mut self, line: &mut Copied) {
        self.machine.change(self.core, line);
    }

    fn change_atomic(&mut self, line: &mut Copied) {
        self.machine.change_atomic(self.core, line);
    }

    fn execute(&mut self, instructions: u32) {
        self.machine.execute(self.core, instructions);
    }

    fn acquire(&mut self, lock: &mut Line) -> f64 {
        self.machine.acquire(self.core, lock)
    }

    fn release(&mut self, lock: &mut Line, since: f64) {
        self.machine.release(self.core, lock, since);
    }

    fn lay_down(&mut self, lock: &mut Line, since: f64) {
        self.machine.lay_down(self.core, lock, since);
    }

    fn discard(&mut self, calls: u64) {
        self.machine.discard(self.core, calls);
    }

    fn enter(&mut self, line: &mut Copied) -> f64 {
        self.machine.enter(self.core, line)
    }

    fn leave(&mut self, line: &mut Copied, since: f64) {
        self.machine.leave(self.core, line, since);
    }

    fn locked(&mut self, line: &mut Copied, instructions: u32) {
        let since = self.enter(line);
        self.execute(instructions);
        self.leave(line, since);
    }

    fn allocated(&mut self, at: usize, bytes: u32) {
        self.machine.allocated(self.core, at, bytes as usize);
    }

    fn node(&self) -> usize {
        self.machine.nodes.of(self.core)
    }
}

/// What its own allocator counts of a run, as far as one does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Bins that were filled.
    pub refills: u64,
    /// Spans that came from the pool.
    pub fresh_spans: u64,
    /// Spans that nobody owned, taken by whoever needed blocks.
    pub adopted: u64,
    /// Spans that nobody owned, taken by whoever freed into them.
    pub claimed: u64,
}

/// An allocator at work: what a design does at each call.
pub trait Protocol {
    /// A block of so many bytes.
    fn alloc(&mut self, caller: &mut Caller<'_>, size: u32) -> u32;

    /// The end of a block.
    fn free(&mut self, caller: &mut Caller<'_>, block: u32);

    /// The thread ends, and another one takes its place.
    fn replace(&mut self, _caller: &mut Caller<'_>) {}

    /// What the allocator counted so far.
    fn tally(&self) -> Tally {
        Tally::default()
    }

    /// A tick of the engine's clock begins.
    fn tick(&mut self) {}

    /// System calls that a purge would make now: for each range of pages that has been free since the tick.
    fn stale_ranges(&self) -> u64 {
        0
    }
}

/// What the two designs have in common that keep every block on a list for ever: a bin of free blocks
/// for each thread and class.
trait Binned {
    fn slots(&mut self) -> &mut Slots;

    /// The thread's free blocks of a class.
    fn bin(&mut self, thread: usize, class: usize) -> &mut Vec<u32>;

    /// Fills an empty bin.
    fn refill(&mut self, caller: &mut Caller<'_>, class: usize);

    /// What else a block's owner touches when it takes one.
    fn taken(&mut self, _caller: &mut Caller<'_>, _slot: u32) {}

    /// What becomes of a block.
    fn put(&mut self, caller: &mut Caller<'_>, slot: u32);

    /// What becomes of what a thread has that ends.
    fn end(&mut self, _caller: &mut Caller<'_>) {}
}

impl<T: Binned> Protocol for T {
    fn alloc(&mut self, caller: &mut Caller<'_>, size: u32) -> u32 {
        let class = class(size);
        if self.bin(caller.thread, class).is_empty() {
            self.refill(caller, class);
        }
        let slot = self.bin(caller.thread, class).pop().expect("the bin was filled");
        self.taken(caller, slot);
        self.slots().touch(caller, slot);
        caller.allocated(self.slots().all[slot as usize].at, size);
        slot
    }

    fn free(&mut self, caller: &mut Caller<'_>, block: u32) {
        self.slots().touch(caller, block);
        self.put(caller, block);
    }

    fn replace(&mut self, caller: &mut Caller<'_>) {
        self.end(caller);
    }
}

/// Size classes, two to a doubling from 16 bytes to 1 MiB.
const CLASSES: usize = 34;
/// Bytes from which small blocks are carved together, and blocks of more than an eighth of that.
const SPAN: u32 = 64 << 10;
const LARGE_SPAN: u32 = 512 << 10;

/// The class of a size.
fn class(size: u32) -> usize {
    (0..CLASSES).find(|&class| block_size(class) >= size).unwrap_or(CLASSES - 1)
}

/// The size of a class' blocks.
fn block_size(class: usize) -> u32 {
    let whole = 16u32 << (class / 2);
    if class.is_multiple_of(2) { whole } else { whole + whole / 2 }
}

/// Blocks of a class that are carved together.
fn capacity(class: usize) -> u32 {
    let size = block_size(class);
    (if size <= SPAN / 8 { SPAN } else { LARGE_SPAN } / size).max(1)
}

/// A place for a block.
#[derive(Debug, Clone, Copy)]
struct Slot {
    class: u8,
    /// The page or arena that it is part of.
    home: u32,
    /// Its address.
    at: usize,
    /// The line with the free list's link: who freed the block wrote it, who gets it reads it.
    line: Line,
}

/// All places for blocks.
#[derive(Default)]
struct Slots {
    all: Vec<Slot>,
    /// The address behind the last one.
    end: usize,
}

impl Slots {
    /// New ones, never used so far.
    fn carve(&mut self, class: usize, home: u32) -> std::ops::Range<u32> {
        let (start, first) = (self.all.len() as u32, self.end.next_multiple_of(UNIT));
        let (size, line) = (block_size(class) as usize, Line::of(What::Block));
        self.end = first + capacity(class) as usize * size;
        let addresses = (first..self.end).step_by(size);
        self.all.extend(addresses.map(|at| Slot { class: class as u8, home, at, line }));
        start..self.all.len() as u32
    }

    fn home(&self, slot: u32) -> usize {
        self.all[slot as usize].home as usize
    }

    fn class(&self, slot: u32) -> usize {
        usize::from(self.all[slot as usize].class)
    }

    /// A core writes into the block itself.
    fn touch(&mut self, caller: &mut Caller<'_>, slot: u32) {
        caller.fetch(&mut self.all[slot as usize].line);
    }
}

/// Free blocks of each class, the last freed last.
type Bins = Vec<Vec<u32>>;

fn bins() -> Bins {
    vec![Vec::new(); CLASSES]
}

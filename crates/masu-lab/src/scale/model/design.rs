//! Three ways to share blocks among threads, as protocols: which lines a call touches, and when.
//!
//! | design | alloc | free by the owner | free by another thread |
//! |---|---|---|---|
//! | masu | own bin | own bin | outbox; sixteen at once by one compare-and-swap; a span that nobody owns is claimed |
//! | lock per arena | small cache, then the arena's lock | the same | the same, with the lock of the block's arena |
//! | page and compare-and-swap | own page | own page | one compare-and-swap on the page's list for each block |

mod arena;
mod masu;
mod page;

use std::collections::VecDeque;

use super::machine::{Line, Machine};

/// A design.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Design {
    /// masu's protocol.
    Masu,
    /// A lock for each arena and a small cache for each thread, as in glibc.
    Arena,
    /// Pages with an owner and a list that others push on one by one, as in mimalloc.
    Page,
}

impl Design {
    /// All of them.
    pub const ALL: [Design; 3] = [Design::Masu, Design::Arena, Design::Page];

    /// What reports call it.
    pub fn name(self) -> &'static str {
        match self {
            Design::Masu => "masu's protocol",
            Design::Arena => "a lock per arena",
            Design::Page => "a compare-and-swap per page",
        }
    }
}

/// An allocator of some design at work.
pub enum Allocator {
    /// See [`Design::Masu`].
    Masu(masu::Masu),
    /// See [`Design::Arena`].
    Arena(arena::Arena),
    /// See [`Design::Page`].
    Page(page::Page),
}

impl Allocator {
    /// One for so many threads on so many cores.
    pub fn new(design: Design, threads: usize, cores: usize) -> Self {
        match design {
            Design::Masu => Allocator::Masu(masu::Masu::new(threads)),
            Design::Arena => Allocator::Arena(arena::Arena::new(threads, cores)),
            Design::Page => Allocator::Page(page::Page::new(threads)),
        }
    }

    /// A block of so many bytes for `thread`, which runs on `core`.
    pub fn alloc(&mut self, machine: &mut Machine, core: usize, thread: usize, size: u32) -> u32 {
        let class = class(size);
        match self {
            Allocator::Masu(masu) => masu.alloc(machine, core, thread, class),
            Allocator::Arena(arena) => arena.alloc(machine, core, thread, class),
            Allocator::Page(page) => page.alloc(machine, core, thread, class),
        }
    }

    /// The end of a block.
    pub fn free(&mut self, machine: &mut Machine, core: usize, thread: usize, slot: u32) {
        match self {
            Allocator::Masu(masu) => masu.free(machine, core, thread, slot),
            Allocator::Arena(arena) => arena.free(machine, core, thread, slot),
            Allocator::Page(page) => page.free(machine, core, thread, slot),
        }
    }
}

/// Size classes, two to a doubling from 16 bytes to 8 KiB.
const CLASSES: usize = 20;
/// Bytes from which blocks are carved together.
const SPAN: u32 = 64 << 10;

/// The class of a size.
fn class(size: u32) -> usize {
    (0..CLASSES).find(|&class| block_size(class) >= size).unwrap_or(CLASSES - 1)
}

/// The size of a class' blocks.
fn block_size(class: usize) -> u32 {
    let whole = 16u32 << (class / 2);
    if class.is_multiple_of(2) { whole } else { whole + whole / 2 }
}

/// Blocks in a span of a class.
fn capacity(class: usize) -> u32 {
    SPAN / block_size(class)
}

/// A place for a block.
#[derive(Debug, Clone, Copy)]
struct Slot {
    class: u8,
    /// The span, page or arena that it is part of.
    home: u32,
    /// The line with the free list's link: who freed the block wrote it, who gets it reads it.
    line: Line,
}

/// All places for blocks.
#[derive(Default)]
struct Slots(Vec<Slot>);

impl Slots {
    /// New ones, never used so far.
    fn carve(&mut self, class: usize, home: u32, count: u32) -> std::ops::Range<u32> {
        let start = self.0.len() as u32;
        let slot = Slot { class: class as u8, home, line: Line::default() };
        self.0.extend(std::iter::repeat_n(slot, count as usize));
        start..start + count
    }

    fn home(&self, slot: u32) -> u32 {
        self.0[slot as usize].home
    }

    fn class(&self, slot: u32) -> usize {
        usize::from(self.0[slot as usize].class)
    }

    /// A core writes into the block itself.
    fn touch(&mut self, machine: &mut Machine, core: usize, slot: u32) {
        machine.fetch(core, &mut self.0[slot as usize].line);
    }
}

/// Free blocks of each class, the last freed first.
type Bins = Vec<VecDeque<u32>>;

fn bins() -> Bins {
    vec![VecDeque::new(); CLASSES]
}

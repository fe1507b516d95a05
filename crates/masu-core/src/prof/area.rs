//! Where the profile lies: one reserved mapping, made when a profile is first started, whose pages come as they
//! are written.
//!
//! ```text
//!  heads: a word for each value of an address's hash │ records │ blocks freed │ stacks' heads │ sites
//! ```
//!
//! The heads lie in the reverse order, so that the first of them share a page with the first records, or sites.
//!
//! Invariants:
//! 1. the mapping is never moved or unmapped, so an index that was given out stays valid.

use super::heads;
use crate::size_class::{LAST_CLASS, SMALL_MAX, UNIT, exact_class_of, size_of_class};
use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use crate::sys::{mem, time};

/// Most samples alive: at 512 KiB each, half a terabyte.
pub const RECORDS: usize = 1 << 20;
/// Blocks of which the end is remembered, if every one is recorded.
pub const FREED: usize = 1 << 16;
/// Most bytes of sites at any rate.
pub const SITE_BYTES: usize = 64 << 20;

/// One block, in the unit that blocks are counted in.
pub const ONE: u64 = 1 << 16;
/// The home of a sample if it is not known.
pub const NO_HOME: u32 = u32::MAX;

/// A sample that is alive.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Record {
    /// Its block; 0 if the record is free.
    pub address: usize,
    /// Bytes that it stands for.
    pub bytes: u64,
    /// Blocks that it stands for, in [`ONE`]s.
    pub objects: u64,
    /// When it was drawn, in milliseconds.
    pub born: u64,
    /// The next record of the chain, or the next free one, plus 1; 0 if there is none.
    pub next: u32,
    /// Its site.
    pub site: u32,
    /// The granule, plus 1, of the span that the block would be in if it were no sample: a small sample has a
    /// block of a separate arena. 0 if the block is where it would be; [`NO_HOME`] if not known.
    pub home: u32,
    /// The thread that allocated it; 0 if it was the only one.
    pub thread: u32,
}

impl Record {
    /// The milliseconds since it was drawn, once for each block that it stands for.
    pub fn lived(&self) -> u64 {
        let age = time::now_ms().saturating_sub(self.born);
        ((u128::from(self.objects) * u128::from(age)) >> ONE.trailing_zeros()) as u64
    }
}

/// A block that was freed.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Ended {
    /// Its record while it lived.
    pub block: Record,
    /// The site of its free, which has no blocks.
    pub site: u32,
    /// The thread that freed it.
    pub thread: u32,
}

/// What a place in the program has allocated, in blocks of one size. Its frames follow, a word each.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Site {
    /// The hash of the stack and the kind.
    pub hash: u64,
    /// The next site of the chain, by its offset / 8; 0 if there is none.
    pub next: u32,
    /// The number of frames.
    pub depth: u16,
    /// The blocks' usable size: see [`kind_of`].
    pub kind: u16,
    /// Samples drawn here.
    pub samples: u64,
    /// How many blocks each of them stands for, squared and added up: the margin of error comes from it.
    pub squares: f64,
    /// Everything that was allocated here.
    pub allocated: Amount,
    /// The part of it that is alive.
    pub live: Amount,
    /// What was alive when most was, if `peak` is the number of that peak; otherwise the same as `live`.
    pub at_peak: Amount,
    /// See there.
    pub peak: u64,
    /// Blocks freed, each times the milliseconds that it lived.
    pub lived: u64,
}

impl Site {
    /// Notes that a sample was drawn, with this probability, that stands for these objects and bytes.
    pub fn drawn(&mut self, chance: f64, objects: u64, bytes: u64) {
        self.samples += 1;
        self.squares += 1.0 / (chance * chance);
        self.allocated.add(objects, bytes);
    }
}

/// The kind of the first larger blocks.
pub const LARGE_KINDS: u16 = 64;

/// A number for blocks of about the same size: the class for small ones, [`LARGE_KINDS`] plus the binary logarithm for
/// others.
pub fn kind_of(usable: usize) -> u16 {
    if usable <= SMALL_MAX {
        exact_class_of(usable) as u16
    } else {
        LARGE_KINDS + usable.ilog2() as u16
    }
}

/// Bytes of a kind's blocks: exact for small ones, the next power of two below for others.
pub fn size_of_kind(kind: u16) -> u64 {
    match usize::from(kind) {
        class if class <= LAST_CLASS => size_of_class(class) as u64,
        other => 1 << (other.saturating_sub(LARGE_KINDS.into()) & 63),
    }
}

/// Blocks and bytes, as samples stand for them.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Amount {
    /// In units of `ONE`, of which an object has 65,536.
    pub objects: u64,
    /// The bytes that were asked for.
    pub bytes: u64,
}

impl Amount {
    /// Whole blocks.
    pub fn blocks(&self) -> u64 {
        self.objects / ONE
    }

    /// Adds to it.
    pub fn add(&mut self, objects: u64, bytes: u64) {
        self.objects = self.objects.wrapping_add(objects);
        self.bytes = self.bytes.wrapping_add(bytes);
    }

    /// Subtracts from it.
    pub fn sub(&mut self, objects: u64, bytes: u64) {
        self.objects = self.objects.wrapping_sub(objects);
        self.bytes = self.bytes.wrapping_sub(bytes);
    }
}

/// Where the first site is: offset 0 means that there is none.
pub const FIRST_SITE: usize = 8;
/// Where records and sites are in the mapping, for readers from outside.
pub const PARTS: [usize; 2] = [RECORDS_AT, SITES_AT];

const HEADS_AT: usize = 0;
const RECORDS_AT: usize = HEADS_AT + heads::ALL * 4;
const FREED_AT: usize = RECORDS_AT + RECORDS * size_of::<Record>();
const SITE_HEADS_AT: usize = (FREED_AT + FREED * size_of::<Ended>()).next_multiple_of(UNIT);
const SITES_AT: usize = SITE_HEADS_AT + heads::ALL * 4;
/// Bytes of the mapping.
pub const LENGTH: usize = SITES_AT + SITE_BYTES;

/// Where it is; 0 if there is none so far.
pub static BASE: AtomicUsize = AtomicUsize::new(0);

/// The mapping.
#[derive(Clone, Copy)]
pub struct Area(usize);

impl Area {
    /// The existing mapping.
    #[inline]
    pub fn get() -> Option<Area> {
        let base = BASE.load(Ordering::Acquire);
        (base != 0).then_some(Area(base))
    }

    /// The existing mapping, or a new one. Under the lock.
    pub fn make() -> Option<Area> {
        if let Some(area) = Area::get() {
            return Some(area);
        }
        let base = mem::reserve(LENGTH).ok()?;
        BASE.store(base, Ordering::Release);
        Some(Area(base))
    }

    /// A head by its number: the index of the chain's first record, plus 1, or 0. May be read without the lock.
    #[inline]
    pub fn head(self, number: usize) -> &'static AtomicU32 {
        // SAFETY: invariant 1: inside the mapping; any word is a valid atomic.
        unsafe {
            &*((self.0 + RECORDS_AT - 4 - number.min(heads::ALL - 1) * 4) as *const AtomicU32)
        }
    }

    /// The head of a chain of sites by its number: the offset of the first one / 8, or 0. Under the lock.
    pub fn site_head(self, number: usize) -> *mut u32 {
        (self.sites() - 4 - number.min(heads::ALL - 1) * 4) as *mut u32
    }

    /// A record. Under the lock.
    pub fn record(self, index: u32) -> *mut Record {
        (self.0 + RECORDS_AT + index as usize % RECORDS * size_of::<Record>()) as *mut Record
    }

    /// What is known of the free of this number. Written under the lock.
    pub fn ended(self, number: usize) -> *mut Ended {
        (self.0 + FREED_AT + number % FREED * size_of::<Ended>()) as *mut Ended
    }

    /// A site, by its offset / 8. Under the lock.
    pub fn site(self, at: u32) -> *mut Site {
        (self.sites() + at as usize * 8 % SITE_BYTES) as *mut Site
    }

    /// Writes the bytes before the first site. Under the lock.
    pub fn begin_sites(self) {
        // SAFETY: invariant 1: inside the mapping, and no site's.
        unsafe { (self.sites() as *mut u64).write_volatile(0) }
    }

    /// Where the sites begin.
    pub fn sites(self) -> usize {
        self.0 + SITES_AT
    }

    /// Where the heads begin, and how long all are with the records, for clearing them. The page on which the last ones
    /// lie may be cleared as a whole.
    pub fn tables(self) -> (usize, usize) {
        (self.0, SITES_AT)
    }
}

//! From an address to the chunk of hook memory that holds it.
//!
//! Hook memory may lie anywhere, so a tree of two levels finds it: a root of 2^14 leaves, each of 2^13 chunks
//! of 2 MiB, which are 48 bits of address. Neither exists before a program sets hooks, and until then lookups
//! cost all others a load.
//!
//! Invariants:
//! 1. leaves and the root are mapped for ever and never become anything else; zeroed bytes are valid ones.
//! 2. an entry is null or the record of the chunk that lies at the entry's address; only the thread that has
//!    that address from a hook and has not given it back changes it, and that is one thread at a time.
//!
//! The memory mapped for it, and the pool of records ([`super::records`]), are under the innermost lock.
//! Entries are stored with release after their record is written, and loaded with acquire.

use super::chunk::Chunk;
use crate::features;
use crate::lock::{Guard, Lock};
use crate::region::{CHUNK, CHUNK_SHIFT};
use crate::sync::{AtomicUsize, Ordering};
use crate::sys::mem;
use core::sync::atomic::AtomicPtr;

const LEAF_BITS: usize = 13;
const ROOT_BITS: usize = 48 - CHUNK_SHIFT - LEAF_BITS;
type Leaf = [AtomicPtr<Chunk>; 1 << LEAF_BITS];
type Root = [AtomicPtr<Leaf>; 1 << ROOT_BITS];

static LOCK: Lock = Lock::new();
static ROOT: AtomicPtr<Root> = AtomicPtr::new(core::ptr::null_mut());
/// Bytes mapped for all of this.
pub static MAPPED: AtomicUsize = AtomicUsize::new(0);

/// Takes the lock.
pub fn lock() -> Guard<'static> {
    LOCK.lock()
}

/// Maps zeroed bytes for ever. Under the lock.
pub fn map(bytes: usize) -> Option<usize> {
    let at = mem::map_aligned(bytes, 1 << 16).ok()?;
    MAPPED.fetch_add(bytes, Ordering::Relaxed);
    Some(at)
}

fn map_part<T>() -> Option<*mut T> {
    map(size_of::<T>()).map(core::ptr::with_exposed_provenance_mut)
}

fn leaf(number: usize) -> Option<&'static Leaf> {
    // SAFETY: null, or the root (invariant 1).
    let root = unsafe { ROOT.load(Ordering::Acquire).as_ref()? };
    // SAFETY: null, or a leaf (invariant 1).
    unsafe { root.get(number >> LEAF_BITS)?.load(Ordering::Acquire).as_ref() }
}

fn leaf_or_map(number: usize) -> Option<&'static Leaf> {
    if number >> LEAF_BITS >= 1 << ROOT_BITS {
        return None;
    }
    if let Some(leaf) = leaf(number) {
        return Some(leaf);
    }
    let _guard = LOCK.lock();
    if ROOT.load(Ordering::Relaxed).is_null() {
        ROOT.store(map_part::<Root>()?, Ordering::Release);
    }
    // SAFETY: invariant 1: the root was mapped just now, or before.
    let place = unsafe { (&*ROOT.load(Ordering::Relaxed)).get(number >> LEAF_BITS)? };
    if place.load(Ordering::Relaxed).is_null() {
        place.store(map_part::<Leaf>()?, Ordering::Release);
    }
    leaf(number)
}

/// The chunk that holds an address, if it is hook memory.
#[inline(always)]
pub fn find(at: usize) -> Option<&'static Chunk> {
    if !features::HOOKS || ROOT.load(Ordering::Relaxed).is_null() { None } else { find_slow(at) }
}

#[inline(never)]
fn find_slow(at: usize) -> Option<&'static Chunk> {
    let number = at >> CHUNK_SHIFT;
    let entry = leaf(number)?.get(number % (1 << LEAF_BITS))?;
    // SAFETY: invariants 1 and 2.
    unsafe { entry.load(Ordering::Acquire).as_ref() }
}

/// Makes lookups of a chunk's address find it. Returns `false` if there is no memory, or the address is
/// impossible or taken.
pub fn enter(at: usize, chunk: &'static Chunk) -> bool {
    let number = at >> CHUNK_SHIFT;
    let Some(leaf) = leaf_or_map(number) else { return false };
    leaf.get(number % (1 << LEAF_BITS)).is_some_and(|entry| {
        let new = core::ptr::from_ref(chunk).cast_mut();
        let null = core::ptr::null_mut();
        entry.compare_exchange(null, new, Ordering::Release, Ordering::Relaxed).is_ok()
    })
}

/// Makes lookups find nothing at a chunk's address.
pub fn leave(at: usize) {
    debug_assert!(at.is_multiple_of(CHUNK));
    let number = at >> CHUNK_SHIFT;
    if let Some(entry) = leaf(number).and_then(|leaf| leaf.get(number % (1 << LEAF_BITS))) {
        entry.store(core::ptr::null_mut(), Ordering::Release);
    }
}

/// Bytes mapped for records, leaves and the root.
pub fn mapped_bytes() -> usize {
    MAPPED.load(Ordering::Relaxed)
}

/// The lock, for fork.
pub fn lock_for_fork() -> &'static Lock {
    &LOCK
}

//! The shared arena, which lends blocks to threads with little demand.
//!
//! Ten thousand threads that each need a few blocks of twenty classes would touch a page for every pair. So all but the
//! first [`NEVER_BORROW`](crate::tuning::NEVER_BORROW) heaps take their first blocks of a class from here, in batches of
//! 1, 2, 4 and 8, and get a span of their own only then ([`source`](super::source)). In a process with many more threads
//! than processors ([`Mode::Oversubscribed`](super::mode::Mode)) they never do, since most of them sleep on what they
//! have: there the shared arena lends to [caches of processors](super::processor_cache). A thread that is past its
//! destructors, or for which there is no memory for a heap, lives on the shared arena alone.
//!
//! It has shards, each a lock, the outermost, and a heap under it: one until that lock makes threads wait (`sharding`),
//! then up to one for every two processors, on eight or more. A thread borrows from the shard of its home. A shard's
//! spans are owned by an id that no thread has, so every free of their blocks is a remote one, and needs no lock. What
//! one shard gives up serves the others too.
//!
//! ```text
//!            ┌─lend: the lock of the thread's shard─▶ a thread's bin ─▶ live ─free, any thread─┐
//!  shard 0   │ heap: active, partial                                                          ▼
//!  shard 1 …─┘   └──rest, too many──▶ abandoned spans ──▶ any shard, any thread      the span's remote word
//! ```
//!
//! Invariants:
//! 1. the holder of a shard's lock alone touches its heap, except that [`begins_with`] and `suspect` compare a word.
//! 2. the first shard's heap is all zero until it is made, under the lock, and never becomes anything else after
//!    that.
//! 3. the other shards' heaps are heaps of the table that no thread ever has.

use super::record::{Heap, Role};
use super::table::{self, SHARED_ARENA_ID};
use super::tls::make;
use super::{event, refill};
use crate::clock::Tick;
use crate::lock::{CachePadded, Guard, Lock};
use crate::region;
use crate::run::Home;
use crate::settings;
use crate::sharding::{self, Contention, LENDERS, most_lenders};
use crate::size_class::row;
use crate::span::Block;
use crate::sync::{
    AtomicBool, AtomicU32, AtomicUsize, Ordering, array_of, const_unless_loom, shared_static,
};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr::null_mut;

/// A shard.
struct Lender {
    lock: Lock,
    contention: Contention,
    /// The index of its heap in the table; 0 if it has none there. (Index 0 is a thread's.)
    index: AtomicU32,
}

impl Lender {
    const_unless_loom! {
        fn new() -> Self {
            Lender { lock: Lock::new(), contention: Contention::new(), index: AtomicU32::new(0) }
        }
    }
}

shared_static! {
    static FIRST: CachePadded<Lender> = CachePadded(Lender::new());
}
shared_static! {
    /// The other shards, by their numbers.
    static OTHERS: [CachePadded<Lender>; LENDERS] = array_of![CachePadded(Lender::new()); LENDERS];
}
shared_static! {
    /// The number of the last shard in use.
    static LAST: AtomicUsize = AtomicUsize::new(0);
}
shared_static! {
    /// The first shard's heap.
    pub static ARENA: Late = Late(UnsafeCell::new(MaybeUninit::zeroed()));
}
shared_static! {
    static MADE: AtomicBool = AtomicBool::new(false);
}

/// Zero, and so not part of the library's file, until it is made.
pub struct Late(UnsafeCell<MaybeUninit<Heap>>);

// SAFETY: invariant 1.
unsafe impl Sync for Late {}

fn lender(number: usize) -> &'static Lender {
    match number {
        0 => &FIRST,
        _ => &OTHERS[number % LENDERS],
    }
}

/// The number of the last shard in use.
fn last_lender() -> usize {
    // Acquire: invariant 2 of `sharding`.
    LAST.load(Ordering::Acquire) % LENDERS
}

impl Lender {
    /// Its lock. `None` if a fork stands still.
    #[inline]
    fn enter(&'static self) -> Option<Guard<'static>> {
        let guard = match self.lock.try_lock() {
            Some(guard) => guard,
            None => self.contended()?,
        };
        self.contention.took();
        Some(guard)
    }

    #[cold]
    #[inline(never)]
    fn contended(&'static self) -> Option<Guard<'static>> {
        let guard = self.lock.enter()?;
        self.contention.waited(&LAST, grow);
        Some(guard)
    }

    /// Its heap. The caller has its lock.
    fn heap(&self) -> &'static Heap {
        let index = self.index.load(Ordering::Relaxed);
        if index != 0 {
            // SAFETY: invariant 3: of one that was made.
            return unsafe { table::at(index) };
        }
        let heap = ARENA.0.get().cast::<Heap>();
        // SAFETY: invariant 1: the caller has the lock; before the heap is made no reference to it
        // exists.
        unsafe {
            if !MADE.swap(true, Ordering::Relaxed) {
                make(heap, Role::SharedArena, SHARED_ARENA_ID).runs.seat.begin(0);
            }
            &*heap
        }
    }
}

/// Doubles the shards, whose last one has this number, unless that makes more than there may be or addresses are
/// scarce.
pub fn grow(last: usize) {
    if !region::is_scarce() {
        let most = most_lenders(settings::processors() as usize);
        sharding::double(&LAST, last, most, |shards| (last + 1..shards).all(begin));
    }
}

/// Gives the shard of a number its heap, if it has none. Returns `false` if there is no memory for
/// it.
fn begin(number: usize) -> bool {
    let lender = lender(number);
    if lender.index.load(Ordering::Relaxed) == 0 {
        let Some(index) = table::make_for_lending(number) else { return false };
        lender.index.store(index, Ordering::Relaxed);
    }
    true
}

/// Whether an owner is a shard, or none: then no thread has a use for what is freed into its spans.
pub fn serves(owner: u32) -> bool {
    owner <= SHARED_ARENA_ID
        || last_lender() != 0
            && table::index_of_id(owner).is_some_and(|index| {
                // SAFETY: invariant 4 of `heap`: of one that was made.
                unsafe { table::at(index) }.live.load(Ordering::Relaxed) == table::LENDS
            })
}

/// A block for a thread of that home, null if memory is out; a list of up to `want - 1` more, and how many those are.
pub fn lend(home: Home, class: usize, want: usize) -> (*mut Block, *mut Block, u32) {
    let lender = lender(home.among(last_lender()));
    let Some(_guard) = lender.enter() else { return (null_mut(), null_mut(), 0) };
    let arena = lender.heap();
    arena.used[row(class)].set(Tick::now().into());
    event::on_tick(arena);
    let bin = arena.bin(class);
    let next = || {
        let head = bin.get();
        if head.is_null() {
            return refill::refill(arena, class, None);
        }
        // SAFETY: invariant 3 of `heap`: a free block, which is the lock's holder's (invariant 1).
        unsafe {
            bin.set((*head).next);
            Block::hand_out(head);
        }
        head
    };
    let first = next();
    let (mut rest, mut n) = (null_mut(), 0);
    for _ in 1..want {
        let block = next();
        if block.is_null() {
            break;
        }
        // SAFETY: handed out just now to this thread.
        unsafe { Block::make_free(block, rest) };
        rest = block;
        n += 1;
    }
    (first, rest, n)
}

/// Whether the first shard's bin of a class begins with a block, for code that suspects that it is free. The answer
/// may be out of date. The other shards are in the table of heaps.
#[cfg(not(loom))]
pub fn begins_with(class: usize, block: *mut Block) -> bool {
    // SAFETY: one word, null until the heap is made (invariant 2), which another thread may be writing: it is only
    // compared.
    MADE.load(Ordering::Relaxed)
        && unsafe { (*ARENA.0.get().cast::<Heap>()).bin(class).as_ptr().read_volatile() } == block
}

/// Calls `look` with each shard's heap, under its lock, until a fork stands still.
pub fn for_each(mut look: impl FnMut(&Heap)) {
    let last = last_lender();
    if last == 0 && !MADE.load(Ordering::Relaxed) {
        return;
    }
    for number in 0..=last {
        let lender = lender(number);
        let Some(_guard) = lender.lock.enter() else { return };
        look(lender.heap());
    }
}

/// The locks in their order, for a fork, which has [`sharding::GROWTH`].
pub fn locks_for_fork() -> impl Iterator<Item = &'static Lock> {
    (0..=last_lender()).map(|number| &lender(number).lock)
}

//! Small blocks of the hardened heap: which thread has a slot, which slots threads have at hand, and checks of other
//! threads' slots.
//!
//! ```text
//!  pool ──draw, its lock──▶ a thread's bin ──hand out──▶ live ──a free, by any thread──▶ that thread's bin
//!    ▲                                                                                    │
//!    └──────────────────────────── handed over, its lock ─────────────────────────────────┘
//! ```
//!
//! Invariants: of two frees of a block, one learns that it was too late; no thread gets a slot that another has, nor
//! one that is not zero, and none is lost; a thread that checks another's slot sees no damage if there is none. In a
//! forked child a slot is in at most one place, and the blocks that another thread had are in none.

use super::check;
use super::world::atomic::Watch;
use super::world::hardened;
use super::world::process::{self, fork, spawn};
use crate::hardened::bin::{Bin, Taker};
use crate::hardened::state::{Canary, State};
use crate::lock::Guard;
use crate::sync::{AtomicU64, Ordering};
use std::cell::RefCell;
use std::rc::Rc;

/// A slot, of one word.
struct Slot {
    state: State,
    word: AtomicU64,
    owner: Watch,
}

impl Slot {
    /// What a neighbour's free sees.
    fn looks_damaged(&self) -> bool {
        self.state.is_damaged(&|live| !live && self.word.load(Ordering::Relaxed) != 0)
    }
}

/// A pool's slots; an entry is a slot's number plus 1.
struct Pool {
    slots: Vec<Slot>,
    free: RefCell<Vec<u64>>,
    watch: Watch,
    /// Blocks in each part of a bin's quarantine.
    waiting: usize,
}

impl Pool {
    fn new(slots: u64, waiting: usize) -> Rc<Self> {
        process::reset();
        let slot = || Slot { state: State::new(), word: AtomicU64::new(0), owner: Watch::new() };
        Rc::new(Pool {
            slots: (0..slots).map(|_| slot()).collect(),
            free: RefCell::new((1..=slots).collect()),
            watch: Watch::new(),
            waiting,
        })
    }

    fn slot(&self, entry: u64) -> &Slot {
        &self.slots[entry as usize - 1]
    }

    /// Does what a refill does.
    fn draw(&self, bin: &Bin, count: usize) {
        let Some(_guard) = hardened::pool().enter() else { return };
        self.watch.written();
        for _ in 0..count {
            let Some(entry) = self.free.borrow_mut().pop() else { return };
            self.slot(entry).state.draw();
            bin.add(entry);
        }
    }

    /// Does what an allocation does.
    fn alloc(&self, bin: &Bin) -> Option<u64> {
        let entry = bin.take(|_| 0)?;
        let slot = self.slot(entry);
        slot.owner.written();
        slot.state.hand_out();
        assert_eq!(slot.word.load(Ordering::Relaxed), 0, "written after its free");
        slot.word.store(entry, Ordering::Relaxed);
        Some(entry)
    }

    /// Does what a free does. Returns `false` if another free was first.
    fn free(&self, bin: &Bin, entry: u64) -> bool {
        let slot = self.slot(entry);
        let Some(live) = slot.state.live() else { return false };
        if bin.is_new() {
            bin.set_most(2, self.waiting, self.waiting);
        }
        if !bin.has_room() {
            assert!(bin.make_room(&mut To { pool: self, guard: None }));
        }
        if !slot.state.claim(live, false) {
            return false;
        }
        slot.owner.written();
        slot.word.store(0, Ordering::Relaxed);
        slot.state.rest(live);
        bin.put(entry, |_| 0);
        true
    }

    /// Does what the end of a thread does.
    fn empty(&self, bin: &Bin) {
        assert!(bin.empty(&mut To { pool: self, guard: None }));
    }

    /// The slots in the pool, each once.
    fn in_pool(&self) -> Vec<u64> {
        let mut free = self.free.borrow().clone();
        free.sort_unstable();
        assert!(free.windows(2).all(|pair| pair[0] < pair[1]), "one is there twice: {free:?}");
        free
    }

    fn all_are_back(&self) {
        assert_eq!(self.in_pool().len(), self.slots.len(), "one is lost");
    }
}

/// Takes entries back to the pool.
struct To<'a> {
    pool: &'a Pool,
    guard: Option<Guard<'static>>,
}

impl Taker for To<'_> {
    fn reach(&mut self, _: u64) -> bool {
        self.guard = self.guard.take().or_else(|| hardened::pool().enter());
        self.guard.is_some()
    }

    fn take(&mut self, entry: u64, _: bool) {
        self.pool.watch.written();
        self.pool.slot(entry).state.release();
        self.pool.free.borrow_mut().push(entry);
    }
}

#[test]
fn of_two_frees_one_is_too_late_and_the_slot_is_in_one_bin() {
    check(None, || {
        let pool = Pool::new(1, 1);
        let bins = [Rc::new(Bin::new()), Rc::new(Bin::new())];
        pool.draw(&bins[0], 1);
        let block = pool.alloc(&bins[0]).unwrap();
        let others = Rc::new(RefCell::new(false));
        let thread = spawn({
            let (pool, bin, others) = (pool.clone(), bins[1].clone(), others.clone());
            move || *others.borrow_mut() = pool.free(&bin, block)
        });
        let own = pool.free(&bins[0], block);
        thread.join().unwrap();
        assert!(own ^ *others.borrow(), "both or none");
        bins.iter().for_each(|bin| pool.empty(bin));
        pool.all_are_back();
    });
}

/// A second free that began before the first is noticed although the slot has a new owner.
#[test]
fn a_late_free_does_not_take_a_slot_from_its_next_owner() {
    check(None, || {
        let pool = Pool::new(1, 0);
        let bin = Bin::new();
        pool.draw(&bin, 1);
        let block = pool.alloc(&bin).unwrap();
        let slot = pool.slot(block);
        let live = slot.state.live().unwrap();
        assert!(pool.free(&bin, block));
        pool.alloc(&bin).unwrap();
        assert!(!slot.state.retire(live, false) && !slot.state.claim(live, false));
    });
}

/// The other steps of a free that takes the pool's lock, and zeroes first.
#[test]
fn of_two_frees_in_different_ways_one_is_too_late() {
    check(None, || {
        let pool = Pool::new(1, 0);
        let bin = Bin::new();
        pool.draw(&bin, 1);
        let block = pool.alloc(&bin).unwrap();
        let others = Rc::new(RefCell::new(false));
        let thread = spawn({
            let (pool, others) = (pool.clone(), others.clone());
            move || {
                let state = &pool.slot(block).state;
                if let Some(live) = state.live() {
                    *others.borrow_mut() = state.retire(live, false);
                }
            }
        });
        let own = pool.free(&bin, block);
        thread.join().unwrap();
        assert!(own ^ *others.borrow(), "both or none");
    });
}

/// Between the two steps of a free.
#[test]
fn a_block_that_is_being_zeroed_is_nobodys_and_not_damaged() {
    check(None, || {
        let pool = Pool::new(1, 0);
        let bin = Bin::new();
        pool.draw(&bin, 1);
        let state = &pool.slot(pool.alloc(&bin).unwrap()).state;
        let live = state.live().unwrap();
        assert!(state.claim(live, false));
        assert!(!state.is_live() && !state.claim(live, false) && !state.retire(live, false));
        assert!(state.is_taken() && !state.is_damaged(&|live| !live));
        state.rest(live);
        assert!(!state.is_live() && !state.claim(live, false));
        assert!(state.is_damaged(&|live| !live), "what is written to it now is seen");
    });
}

/// A thread's use of a bin that it fills with `draw` slots.
fn live_and_end(pool: &Pool, draw: usize) {
    let bin = Bin::new();
    pool.draw(&bin, draw);
    let blocks = [pool.alloc(&bin), pool.alloc(&bin)];
    assert!(blocks.into_iter().flatten().all(|block| pool.free(&bin, block)));
    if let Some(block) = pool.alloc(&bin) {
        assert!(pool.free(&bin, block));
    }
    pool.empty(&bin);
    pool.empty(&bin);
    assert_eq!(bin.count(), 0);
}

/// Two threads draw `draws` slots from a pool with `slots` slots and a quarantine of that length.
fn two_live_and_end(slots: u64, quarantine: usize, draws: [usize; 2]) {
    check(3, move || {
        let pool = Pool::new(slots, quarantine);
        let other = pool.clone();
        let thread = spawn(move || live_and_end(&other, draws[1]));
        live_and_end(&pool, draws[0]);
        thread.join().unwrap();
        pool.all_are_back();
    });
}

#[test]
fn slots_come_and_go_by_the_pool() {
    two_live_and_end(3, 1, [2, 2]);
}

/// A free that finds more slots ready than allowed.
#[test]
fn slots_that_are_too_many_are_handed_over() {
    two_live_and_end(5, 0, [4, 1]);
}

/// The owner frees its block, gets it again and frees it, while a neighbour's free looks at it.
#[test]
fn a_look_at_a_neighbour_sees_no_damage_where_there_is_none() {
    check(3, || {
        let pool = Pool::new(1, 0);
        let bin = Bin::new();
        pool.draw(&bin, 1);
        let block = pool.alloc(&bin).unwrap();
        let other = pool.clone();
        let thread = spawn(move || {
            assert!(!other.slot(block).looks_damaged(), "it was only handed out");
        });
        assert!(pool.free(&bin, block));
        let block = pool.alloc(&bin).unwrap();
        assert!(pool.free(&bin, block));
        thread.join().unwrap();
        let slot = pool.slot(block);
        assert!(!slot.looks_damaged());
        slot.word.store(7, Ordering::Relaxed);
        assert!(slot.looks_damaged(), "a write after the free is seen");
    });
}

/// The same where the owner zeroes its block first.
#[test]
fn a_look_at_a_neighbour_that_is_zeroed_and_then_retired_sees_no_damage() {
    check(3, || {
        let pool = Pool::new(1, 0);
        let bin = Bin::new();
        pool.draw(&bin, 1);
        let block = pool.alloc(&bin).unwrap();
        let other = pool.clone();
        let thread = spawn(move || {
            assert!(!other.slot(block).looks_damaged(), "it was only freed");
        });
        let slot = pool.slot(block);
        let live = slot.state.live().unwrap();
        slot.word.store(0, Ordering::Relaxed);
        assert!(slot.state.retire(live, false));
        thread.join().unwrap();
    });
}

/// The trailer of a live slot is its slab's canary; an empty slab gets another one.
#[test]
fn a_look_at_a_neighbours_trailer_knows_the_slabs_canary() {
    check(3, || {
        let pool = Pool::new(1, 0);
        let canary = Rc::new(Canary::new(1));
        let bin = Bin::new();
        pool.draw(&bin, 1);
        let block = pool.alloc(&bin).unwrap();
        let thread = spawn({
            let (pool, canary) = (pool.clone(), canary.clone());
            move || {
                let slot = pool.slot(block);
                let is_wrong = |live: bool| {
                    let canary = canary.get();
                    let trailer = slot.word.load(Ordering::Relaxed);
                    trailer != 0 && !(live && trailer == canary)
                };
                assert!(!slot.state.is_damaged(&is_wrong), "it is another block's");
            }
        });
        assert!(pool.free(&bin, block));
        canary.set(2);
        let slot = pool.slot(bin.take(|_| 0).unwrap());
        slot.state.hand_out();
        slot.word.store(2, Ordering::Relaxed);
        thread.join().unwrap();
    });
}

/// Hands out one of two slots with the first of some tags that is allowed.
fn hand_out_with_one_of(pool: &Pool, slot: usize, tags: [u8; 2]) -> u8 {
    let (state, neighbour) = (&pool.slots[slot].state, &pool.slots[1 - slot].state);
    state.draw();
    let may_be = |not: u16| tags.into_iter().find(|&tag| not >> tag & 1 == 0).unwrap();
    state.hand_out_with_tag(|| 1 << neighbour.tag(), may_be)
}

#[test]
fn neighbours_that_are_handed_out_at_once_have_different_tags() {
    check(None, || {
        let pool = Pool::new(2, 0);
        let others = Rc::new(RefCell::new(0));
        let thread = spawn({
            let (pool, others) = (pool.clone(), others.clone());
            move || *others.borrow_mut() = hand_out_with_one_of(&pool, 1, [1, 3])
        });
        let own = hand_out_with_one_of(&pool, 0, [1, 2]);
        thread.join().unwrap();
        let [one, other] = [0, 1].map(|slot: usize| pool.slots[slot].state.tag());
        assert!(one == own && other == *others.borrow() && one != other, "{one} and {other}");
    });
}

/// A late free is noticed by the count or the tag, whichever has changed with the slot's next block.
#[test]
fn a_late_free_does_not_take_a_slot_with_a_tag_from_its_next_owner() {
    check(None, || {
        let pool = Pool::new(2, 0);
        hand_out_with_one_of(&pool, 0, [1, 2]);
        let state = &pool.slots[0].state;
        let live = state.live().unwrap();
        for n in 0..2 {
            assert!(state.retire(state.live().unwrap(), false));
            state.release();
            let tag = hand_out_with_one_of(&pool, 0, [1, 2]);
            assert_eq!(tag, [2, 1][n], "the last one is left out");
            assert!(state.is_live() && !state.retire(live, false));
        }
    });
}

#[test]
fn a_child_whose_parents_thread_was_at_its_bin() {
    hardened::have_in_forks(true);
    check(2, || {
        let pool = Pool::new(3, 1);
        process::interrupt_anywhere();
        let bin = Rc::new(Bin::new());
        pool.draw(&bin, 3);
        let block = pool.alloc(&bin).unwrap();
        // Blocks that the other thread's program holds.
        let held = Rc::new(RefCell::new(vec![block]));
        let thread = spawn({
            let (pool, bin, held) = (pool.clone(), bin.clone(), held.clone());
            move || {
                let free = || {
                    let block = held.borrow_mut().pop().unwrap();
                    assert!(pool.free(&bin, block));
                };
                let alloc = || {
                    let block = pool.alloc(&bin).unwrap();
                    held.borrow_mut().push(block);
                };
                alloc();
                free();
                free();
                alloc();
            }
        });
        fork(|| {
            pool.empty(&bin);
            let free = pool.in_pool();
            assert!(held.borrow().iter().all(|block| !free.contains(block)), "it is in use");
            for entry in free {
                assert_eq!(pool.slot(entry).word.load(Ordering::Relaxed), 0, "it is not zero");
            }
        });
        thread.join().unwrap();
    });
    hardened::have_in_forks(false);
}

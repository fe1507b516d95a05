//! The protocol between a thread that makes a debt and a thread that is about to stop paying.
//!
//! ```text
//!  maker: debt += 1 ─▶ take_up ─┬─ taken by another ─▶ leave it to it
//!                               └─ taken by me ──────▶ payer
//!  payer: pay all ─▶ lay_down ─┬─ no debt ─▶ gone, which the kernel writes
//!                              └─ debt ────▶ payer
//! ```
//!
//! Invariants: at most one payer at a time; when all have gone, no debt is left.

use super::check;
use crate::sync::{AtomicU32, Ordering};
use crate::turn::Turn;
use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;

struct World {
    turn: Turn,
    debt: AtomicU32,
    /// Written only by the payer; a race for it means two at a time.
    paid: UnsafeCell<u32>,
}

// SAFETY: the checker watches `paid`.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(World { turn: Turn::new(), debt: AtomicU32::new(0), paid: UnsafeCell::new(0) })
    }

    fn owe(&self) {
        self.debt.fetch_add(1, Ordering::Relaxed);
        if self.turn.take_up(thread::yield_now) {
            self.pay();
        }
    }

    fn pay(&self) {
        loop {
            let paid = self.debt.swap(0, Ordering::Relaxed);
            // SAFETY: the payer is alone, as the checker sees.
            self.paid.with_mut(|sum| unsafe { *sum += paid });
            if self.turn.lay_down(|| self.debt.load(Ordering::Relaxed) != 0) {
                return self.turn.release();
            }
        }
    }

    fn settled(&self, made: u32) {
        assert!(!self.turn.is_taken());
        assert_eq!(self.debt.load(Ordering::Relaxed), 0, "a debt is left and nobody has the turn");
        // SAFETY: all other threads have ended.
        assert_eq!(self.paid.with(|sum| unsafe { *sum }), made);
    }
}

#[test]
fn no_debt_is_left_when_the_payer_has_gone() {
    check(None, || {
        let world = World::new();
        assert!(world.turn.take_up(thread::yield_now));
        let payer = thread::spawn({
            let world = world.clone();
            move || world.pay()
        });
        world.owe();
        payer.join().unwrap();
        world.settled(1);
    });
}

#[test]
fn two_makers_of_debts_and_a_payer() {
    check(2, || {
        let world = World::new();
        assert!(world.turn.take_up(thread::yield_now));
        let payer = thread::spawn({
            let world = world.clone();
            move || world.pay()
        });
        let maker = thread::spawn({
            let world = world.clone();
            move || world.owe()
        });
        world.owe();
        payer.join().unwrap();
        maker.join().unwrap();
        world.settled(2);
    });
}

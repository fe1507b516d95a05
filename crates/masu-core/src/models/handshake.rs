//! The owner and the visitor of a structure.
//!
//! ```text
//!  owner:   inside = 1 ─▶ a visitor? ─┬─ no ──▶ use ─▶ inside = 0
//!                                     └─ yes ─▶ inside = 0, do without
//!  visitor: visitor = 1 (cas) ─▶ barrier in all threads ─▶ owner inside? ─┬─ no ──▶ use ─▶ visitor = 0
//!                                                                         └─ yes ─▶ visitor = 0, go away
//! ```
//!
//! Invariants: owner and visitor never use the structure at the same time, and each sees what the other
//! left; neither waits, so there is no loop here that the checker could find endless.

use super::check;
use crate::handshake::Handshake;
use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;

struct Guarded {
    handshake: Handshake,
    uses: UnsafeCell<u32>,
}

// SAFETY: the checker watches `uses`.
unsafe impl Sync for Guarded {}
// SAFETY: as above.
unsafe impl Send for Guarded {}

impl Guarded {
    fn new() -> Arc<Self> {
        Arc::new(Guarded { handshake: Handshake::new(), uses: UnsafeCell::new(0) })
    }

    fn touch(&self) {
        // SAFETY: inside the handshake; the checker sees a race.
        self.uses.with_mut(|n| unsafe { *n += 1 });
    }

    fn own(&self) -> u32 {
        let Some(_inside) = self.handshake.enter() else { return 0 };
        self.touch();
        1
    }

    fn visit(&self) -> u32 {
        u32::from(self.handshake.visit(|| true, || self.touch()))
    }

    fn uses(&self) -> u32 {
        // SAFETY: all other threads have ended.
        self.uses.with(|n| unsafe { *n })
    }
}

#[test]
fn owner_and_visitor_are_never_inside_together() {
    check(None, || {
        let guarded = Guarded::new();
        let visitor = thread::spawn({
            let guarded = guarded.clone();
            move || guarded.visit()
        });
        let owned = guarded.own() + guarded.own();
        let visited = visitor.join().unwrap();
        assert_eq!(guarded.uses(), owned + visited);
    });
}

#[test]
fn two_visitors_are_never_inside_together() {
    check(3, || {
        let guarded = Guarded::new();
        let visitors: [_; 2] = core::array::from_fn(|_| {
            let guarded = guarded.clone();
            thread::spawn(move || guarded.visit())
        });
        let mut uses = guarded.own();
        for visitor in visitors {
            uses += visitor.join().unwrap();
        }
        assert_eq!(guarded.uses(), uses);
    });
}

#[test]
fn a_visitor_whose_barrier_fails_goes_away() {
    check(None, || {
        let guarded = Guarded::new();
        assert!(!guarded.handshake.visit(|| false, || unreachable!()));
        assert_eq!(guarded.own(), 1, "the visitor has not left");
    });
}

#[test]
fn in_a_forks_child_both_are_forgotten() {
    check(None, || {
        let guarded = Guarded::new();
        core::mem::forget(guarded.handshake.enter());
        assert_eq!(guarded.visit(), 0);
        guarded.handshake.reset();
        assert_eq!(guarded.visit(), 1);
    });
}

//! Which thread has a slot for a guarded block.
//!
//! ```text
//!  allocator: take ─▶ writes the record, opens the pages ─▶ publish
//!  program:   end  ─▶ reads the record, closes the pages ─▶ release
//! ```
//!
//! Invariants: one thread has the slot at a time, and sees what the previous one wrote; of two frees of a block, one
//! learns that it was too late.

use super::check;
use crate::guard::state::State;
use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;

struct Slot {
    state: State,
    /// The record, which stands for everything that belongs to the slot.
    record: UnsafeCell<u32>,
}

// SAFETY: the checker watches `record`.
unsafe impl Sync for Slot {}
// SAFETY: as above.
unsafe impl Send for Slot {}

impl Slot {
    fn new() -> Arc<Self> {
        Arc::new(Slot { state: State::new(), record: UnsafeCell::new(0) })
    }

    /// Does what an allocation does. Returns whether there is a block now.
    fn alloc(&self, record: u32) -> bool {
        let taken = self.state.take();
        if taken {
            // SAFETY: taken, as the checker sees.
            self.record.with_mut(|it| unsafe { *it = record });
            self.state.publish();
        }
        taken
    }

    /// Does what a free does. Returns what the record says; `None` if it was too late.
    fn free(&self) -> Option<u32> {
        self.state.end().then(|| {
            // SAFETY: taken, as the checker sees.
            let record = self.record.with_mut(|it| unsafe { core::mem::replace(&mut *it, 0) });
            self.state.release();
            record
        })
    }
}

#[test]
fn of_two_frees_one_is_too_late() {
    check(None, || {
        let slot = Slot::new();
        assert!(slot.alloc(7));
        let other = Arc::clone(&slot);
        let freed = thread::spawn(move || other.free());
        let own = slot.free();
        let others = freed.join().unwrap();
        assert_eq!(own.xor(others), Some(7), "{own:?} {others:?}");
        assert!(!slot.state.is_live());
    });
}

#[test]
fn a_slot_is_taken_again_by_one_only_and_after_its_free() {
    check(None, || {
        let slot = Slot::new();
        assert!(slot.alloc(1));
        let frees = Arc::clone(&slot);
        let takes = Arc::clone(&slot);
        let freed = thread::spawn(move || frees.free());
        let taken = thread::spawn(move || takes.alloc(2));
        let own = slot.alloc(3);
        assert_eq!(freed.join().unwrap(), Some(1));
        let others = taken.join().unwrap();
        assert!(!(own && others), "two have it");
        let expected = if own {
            Some(3)
        } else if others {
            Some(2)
        } else {
            None
        };
        assert_eq!(slot.free(), expected);
    });
}

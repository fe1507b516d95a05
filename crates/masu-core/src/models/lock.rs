//! The futex lock.
//!
//! ```text
//!         lock (cas)             somebody must wait (swap)
//!  FREE ─────────────▶ HELD ───────────────────────────▶ CONTENDED
//!   ▲                   │                                    │
//!   └──── release ──────┴──────── release, wake one ─────────┘
//! ```
//!
//! Invariants: one holder at a time, who sees what the one before wrote; whoever sleeps is woken,
//! for a sleeper that nobody wakes is a deadlock here; after a fork, whose child has one thread, the
//! lock is free whatever its state was.

use super::check;
use crate::lock::Lock;
use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;

struct Counted {
    lock: Lock,
    count: UnsafeCell<u32>,
}

// SAFETY: `count` is watched by the checker.
unsafe impl Sync for Counted {}
// SAFETY: as above.
unsafe impl Send for Counted {}

impl Counted {
    fn new() -> Arc<Self> {
        Arc::new(Counted { lock: Lock::new(), count: UnsafeCell::new(0) })
    }

    fn bump(&self) {
        let _guard = self.lock.lock();
        // SAFETY: under the lock; a race is seen by the checker.
        self.count.with_mut(|n| unsafe { *n += 1 });
    }

    fn count(&self) -> u32 {
        let _guard = self.lock.lock();
        // SAFETY: as above.
        self.count.with(|n| unsafe { *n })
    }
}

#[test]
fn two_threads_exclude_each_other_and_nobody_sleeps_for_ever() {
    check(None, || {
        let counted = Counted::new();
        let other = thread::spawn({
            let counted = counted.clone();
            move || counted.bump()
        });
        counted.bump();
        other.join().unwrap();
        assert_eq!(counted.count(), 2);
    });
}

#[test]
fn of_two_sleepers_both_are_woken() {
    check(3, || {
        let counted = Counted::new();
        let others: [_; 2] = core::array::from_fn(|_| {
            let counted = counted.clone();
            thread::spawn(move || counted.bump())
        });
        counted.bump();
        others.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(counted.count(), 3);
    });
}

#[test]
fn try_lock_takes_a_free_lock_only() {
    check(None, || {
        let counted = Counted::new();
        let other = thread::spawn({
            let counted = counted.clone();
            move || {
                if let Some(_guard) = counted.lock.try_lock() {
                    // SAFETY: under the lock.
                    counted.count.with_mut(|n| unsafe { *n += 1 });
                }
            }
        });
        counted.bump();
        other.join().unwrap();
        assert!((1..=2).contains(&counted.count()));
    });
}

/// A try that fails leaves the lock as it is: nobody else gets in.
#[test]
fn a_failed_try_lock_does_not_open_the_lock() {
    check(None, || {
        let counted = Counted::new();
        let guard = counted.lock.lock();
        let trying = thread::spawn({
            let counted = counted.clone();
            move || assert!(counted.lock.try_lock().is_none())
        });
        trying.join().unwrap();
        assert!(counted.lock.try_lock().is_none());
        drop(guard);
        assert!(counted.lock.try_lock().is_some());
    });
}

/// The snapshot that a fork takes: the lock is held by who forks, and others may be on their way to
/// sleep. Of all that the child has the word alone.
#[test]
fn a_forks_child_finds_the_lock_free_whatever_its_state() {
    check(2, || {
        let counted = Counted::new();
        counted.lock.acquire();
        let waiter = thread::spawn({
            let counted = counted.clone();
            move || counted.bump()
        });
        // Any moment of the waiter's, by the interleaving; here the child begins.
        let child = Lock::new();
        if counted.lock.try_lock().is_none() {
            child.acquire();
        }
        // SAFETY: the child's word is this thread's alone.
        unsafe { child.reset() };
        assert!(child.try_lock().is_some());
        // SAFETY: acquired above.
        unsafe { counted.lock.release() };
        waiter.join().unwrap();
        assert_eq!(counted.count(), 1);
    });
}

//! The futex lock.
//!
//! ```text
//!         lock (cas)          a thread must wait (fetch_or)
//!  FREE ─────────────▶ HELD ───────────────────────────▶ HELD | SLEEPERS
//!   ▲                   │  ╲                                 │       │
//!   │                   │   fork (fetch_or)                  │  fork, wake all
//!   │                   │      ╲                             │       │
//!   │                   │      HELD | FORK ──▶ HELD | SLEEPERS | FORK ◀─┘
//!   │                   │           │                 │      │
//!   └──── release ──────┴───────────┴──── release, wake one ─┘
//! ```
//!
//! Invariants: one holder at a time, which sees what the previous one wrote; every sleeper is woken, because one that
//! is never woken is a deadlock here; a fork may wait for a thread that sleeps and may give up, and a thread that gives
//! up does not take another's wake-up; after a fork, whose child has one thread, the lock is free whatever its state
//! was.

use super::check;
use crate::lock::brief::BriefLock;
use crate::lock::{Lock, fork};
use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::thread;
use std::sync::Arc;

struct Counted<L = Lock> {
    lock: L,
    count: UnsafeCell<u32>,
}

// SAFETY: the checker watches `count`.
unsafe impl<L> Sync for Counted<L> {}
// SAFETY: as above.
unsafe impl<L> Send for Counted<L> {}

impl<L: Default> Counted<L> {
    fn new() -> Arc<Self> {
        Arc::new(Counted { lock: L::default(), count: UnsafeCell::new(0) })
    }

    /// Adds one, under the lock.
    fn add(&self) {
        // SAFETY: under the lock; the checker sees a race.
        self.count.with_mut(|n| unsafe { *n += 1 });
    }
}

impl Counted {
    fn bump(&self) {
        let _guard = self.lock.lock();
        self.add();
    }

    /// The same, unless a fork is in progress.
    fn try_bump(&self) {
        if let Some(_guard) = self.lock.enter() {
            self.add();
        }
    }

    /// Forks, and runs `meanwhile` in between.
    fn fork(&self, meanwhile: impl FnOnce()) {
        self.lock.acquire();
        fork::begin();
        // SAFETY: acquired above.
        unsafe { self.lock.mark_fork() };
        meanwhile();
        fork::end();
        // SAFETY: as above.
        unsafe { self.lock.release() };
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
        let counted = Counted::<Lock>::new();
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
        let counted = Counted::<Lock>::new();
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
        let counted = Counted::<Lock>::new();
        let other = thread::spawn({
            let counted = counted.clone();
            move || {
                if let Some(_guard) = counted.lock.try_lock() {
                    counted.add();
                }
            }
        });
        counted.bump();
        other.join().unwrap();
        assert!((1..=2).contains(&counted.count()));
    });
}

/// A lock that is only tried, by two threads, and that a fork waits for.
#[test]
fn a_brief_lock_has_one_holder_and_a_fork_gets_it() {
    check(3, || {
        let counted: Arc<Counted<BriefLock>> = Counted::new();
        let others: [_; 2] = core::array::from_fn(|_| {
            let counted = counted.clone();
            thread::spawn(move || {
                u32::from(counted.lock.try_lock().map(|_guard| counted.add()).is_some())
            })
        });
        counted.lock.acquire();
        counted.add();
        // SAFETY: acquired above.
        unsafe { counted.lock.release() };
        let added: u32 = others.into_iter().map(|t| t.join().unwrap()).sum();
        let _guard = counted.lock.try_lock().expect("free");
        // SAFETY: under the lock.
        assert_eq!(counted.count.with(|n| unsafe { *n }), 1 + added);
    });
}

/// A failed try leaves the lock as it is: no other thread gets in.
#[test]
fn a_failed_try_lock_does_not_open_the_lock() {
    check(None, || {
        let counted = Counted::<Lock>::new();
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

/// A thread that holds what a fork waits for gives up, whether it falls asleep before the fork has begun or during it.
#[test]
fn a_fork_may_wait_for_a_sleeper() {
    check(None, || {
        let counted = Counted::<Lock>::new();
        let outer = Arc::new(Mutex::new(()));
        let other = thread::spawn({
            let (counted, outer) = (counted.clone(), outer.clone());
            move || {
                let _held = outer.lock().unwrap();
                counted.try_bump();
            }
        });
        counted.fork(|| drop(outer.lock().unwrap()));
        other.join().unwrap();
        assert!(counted.count() <= 1);
    });
}

/// One sleeper holds what a fork waits for and gives up; the other does not, and gets the lock after the fork.
#[test]
fn who_waits_for_a_fork_is_woken_after_it() {
    check(2, || {
        let counted = Counted::<Lock>::new();
        let outer = Arc::new(Mutex::new(()));
        let gives_up = thread::spawn({
            let (counted, outer) = (counted.clone(), outer.clone());
            move || {
                let _held = outer.lock().unwrap();
                counted.try_bump();
            }
        });
        let waits = thread::spawn({
            let counted = counted.clone();
            move || counted.bump()
        });
        counted.fork(|| drop(outer.lock().unwrap()));
        gives_up.join().unwrap();
        waits.join().unwrap();
        assert!((1..=2).contains(&counted.count()));
    });
}

/// Two threads sleep until a holder wakes one of them. Before that one runs, a fork takes the lock, whose word does not
/// say that the other still sleeps. That other thread holds what the fork waits for.
#[test]
fn who_is_woken_into_a_fork_wakes_those_who_still_sleep() {
    check(2, || {
        let counted = Counted::<Lock>::new();
        let outer = Arc::new(Mutex::new(()));
        let guard = counted.lock.lock();
        let woken = thread::spawn({
            let counted = counted.clone();
            move || counted.try_bump()
        });
        let has_outer = thread::spawn({
            let (counted, outer) = (counted.clone(), outer.clone());
            move || {
                let _held = outer.lock().unwrap();
                counted.try_bump();
            }
        });
        drop(guard);
        counted.fork(|| drop(outer.lock().unwrap()));
        woken.join().unwrap();
        has_outer.join().unwrap();
        assert!(counted.count() <= 2);
    });
}

/// The first fork's mark disappears with it, and the second fork sets it anew.
#[test]
fn a_second_fork_is_like_the_first() {
    check(3, || {
        let counted = Counted::<Lock>::new();
        let outer = Arc::new(Mutex::new(()));
        let other = thread::spawn({
            let (counted, outer) = (counted.clone(), outer.clone());
            move || {
                counted.bump();
                let _held = outer.lock().unwrap();
                counted.try_bump();
            }
        });
        counted.fork(|| ());
        assert!(!fork::is_in_progress());
        counted.fork(|| drop(outer.lock().unwrap()));
        other.join().unwrap();
        assert!((1..=2).contains(&counted.count()));
    });
}

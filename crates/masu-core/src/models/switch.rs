//! A profile that is switched on from outside.
//!
//! ```text
//!  outside: rate = 0 ─▶ guest ─▶ session = 0 ─▶ rate = wanted
//!  threads: asked? ─▶ answer: lock ─▶ table ready ─▶ session = n ─▶ unlock ─▶ sample
//! ```
//!
//! Invariants: a request is answered once, at the rate that it asks for, even if another command was killed and
//! has left its own rate on; a thread that sees the session sees the table that is ready for it.

use super::check;
use crate::prof::switch::{Switch, ask};
use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::thread;
use std::convert::Infallible;
use std::sync::Arc;

/// The rate that was left on, and the one that is requested.
const OLD: usize = 1;
const WANTED: usize = 2;

struct Process {
    switch: Switch,
    lock: Mutex<()>,
    /// The rate of each session and whether its table is ready; stands for the table.
    table: UnsafeCell<(usize, u32)>,
}

// SAFETY: the checker watches `table`.
unsafe impl Sync for Process {}
// SAFETY: as above.
unsafe impl Send for Process {}

impl Process {
    /// A process whose profile a command has left on, or one without a profile.
    fn new(is_left_on: bool) -> Arc<Self> {
        let process =
            Process { switch: Switch::new(), lock: Mutex::new(()), table: UnsafeCell::new((0, 0)) };
        process.switch.start(if is_left_on { OLD } else { 0 });
        Arc::new(process)
    }

    fn is_asked_for(&self) {
        let Ok(()) = ask(9, WANTED as u64, |word, value| {
            self.switch.write(word, value);
            Ok::<(), Infallible>(())
        });
    }

    /// What a slow path does.
    fn slow_path(&self) {
        if self.switch.is_asked() {
            self.switch.answer(
                7,
                |_| self.lock.lock().ok(),
                |_, rate| {
                    // SAFETY: under the lock; the checker sees any other thread there.
                    self.table.with_mut(|it| unsafe { *it = (rate, (*it).1 + 1) });
                },
            );
        }
        let session = self.switch.session();
        if session > 1 && self.switch.rate() != 0 {
            // SAFETY: written before the session was; otherwise the checker sees it.
            let seen = self.table.with(|it| unsafe { *it });
            assert_eq!(seen, (WANTED, 1), "session {session}");
        }
    }
}

fn asked(is_left_on: bool) {
    let process = Process::new(is_left_on);
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let process = Arc::clone(&process);
            thread::spawn(move || process.slow_path())
        })
        .collect();
    process.is_asked_for();
    for thread in threads {
        thread.join().unwrap();
    }
    process.slow_path();
    assert_eq!(process.switch.session(), 2, "one answer");
}

#[test]
fn a_request_is_answered_once() {
    check(3, || asked(false));
}

#[test]
fn what_a_killed_command_has_left_on_is_taken_over() {
    check(3, || asked(true));
}

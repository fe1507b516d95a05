//! The process: its threads, and a fork that freezes all but one of them.
//!
//! A forked child is checked in place: the thread that forks goes on as the child's only one, in the same memory and
//! unknown to the checker, so without interruption. Meanwhile the other threads stand still at any of their steps, as
//! the interleavings have it. When the child has finished, the check ends, and each other thread ends at its next step.

use super::sys::futex;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread::{self, JoinHandle};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// All threads run.
    Whole,
    /// One thread has forked and is the child.
    Child,
    /// The child is done.
    Over,
}

std::thread_local! {
    static PHASE: Cell<Phase> = const { Cell::new(Phase::Whole) };
    static FORKED_BY: Cell<Option<thread::ThreadId>> = const { Cell::new(None) };
    /// Calls of the engine in progress.
    static CALLS: Cell<usize> = const { Cell::new(0) };
    /// Whether a thread may be interrupted anywhere.
    static FINE: Cell<bool> = const { Cell::new(false) };
}

loom::lazy_static! {
    /// Every step of every thread, if they may be interrupted anywhere.
    static ref STEPS: AtomicUsize = AtomicUsize::new(0);
}

/// How a thread that a fork left behind ends.
struct Frozen;

/// Begins with a process that is whole.
pub fn reset() {
    PHASE.set(Phase::Whole);
    FORKED_BY.set(None);
    CALLS.set(0);
    FINE.set(false);
}

/// Lets other threads, and forks, come between any two steps of a thread, such as two reads of a span's line, and not
/// only between steps that other threads can see.
pub fn interrupt_anywhere() {
    FINE.set(true);
}

/// The caller may be interrupted here.
pub fn step() {
    // Also when the child has finished, so that the checker knows what a thread would have done next.
    if FINE.get() && !is_child() {
        STEPS.fetch_add(1, Ordering::Relaxed);
        passed(());
    }
}

/// Whether the caller is a fork's child.
pub fn is_child() -> bool {
    PHASE.get() == Phase::Child
}

/// Whether the checker must look for races: a child has one thread.
pub fn is_watched() -> bool {
    PHASE.get() == Phase::Whole
}

/// Records that a thread has made a step that others can see.
pub fn passed<T>(result: T) -> T {
    if PHASE.get() != Phase::Whole && FORKED_BY.get() != Some(thread::current().id()) {
        assert!(!is_child(), "a thread runs that does not exist in the child");
        if !std::thread::panicking() {
            resume_unwind(Box::new(Frozen));
        }
    }
    result
}

/// Makes a call of the engine, which a fork may interrupt.
pub fn call<T>(f: impl FnOnce() -> T) -> T {
    CALLS.set(CALLS.get() + 1);
    let result = f();
    CALLS.set(CALLS.get() - 1);
    result
}

/// Calls of the engine in progress.
pub fn calls() -> usize {
    CALLS.get()
}

/// Starts a thread, which a fork may leave behind.
pub fn spawn(f: impl FnOnce() + 'static) -> JoinHandle<()> {
    thread::spawn(move || {
        if let Err(reason) = catch_unwind(AssertUnwindSafe(f))
            && !reason.is::<Frozen>()
        {
            resume_unwind(reason);
        }
    })
}

/// Forks by the engine's handlers, and runs `child` in the child. The parent is not checked.
pub fn fork(child: impl FnOnce()) {
    crate::fork::prepare();
    // This depends on each step of each thread, so the interleavings have it before and after each.
    STEPS.fetch_add(1, Ordering::Relaxed);
    FORKED_BY.set(Some(thread::current().id()));
    PHASE.set(Phase::Child);
    // SAFETY: prepared above, and the other threads stand still.
    unsafe { crate::fork::child() };
    child();
    PHASE.set(Phase::Over);
    futex::wake_all();
}

//! The background thread: ticks while there is a debt, then ends.
//!
//! A raw thread of the kernel ([`crate::sys::thread`]): it makes system calls, takes the engine's
//! locks, and touches nothing of the C library and no thread-local state. At most one exists.
//!
//! The thread has the [`Turn`] from its start, so that no debt is forgotten between a free that
//! makes one and a thread that is about to end. The kernel makes the turn free when the thread no longer
//! uses its stack, which the next one reuses: also when a filter of system calls has killed it, or when it belonged to
//! a child of `vfork`, with which it ends.
//!
//! The kernel gives it the credentials of the thread that starts it. If the process gives some up, it ends at its next
//! look, four times a second, and the next one has what is left ([`credentials`]).
//!
//! Invariants:
//! 1. a thread that has taken up the turn has the stack to itself.

use super::{advance, budget, pressure, stale, visit_caches};
use crate::clock;
use crate::lock::fork;
use crate::run::collapse;
use crate::settings;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::sys::{auxv, credentials, futex, mem, thread, time};
use crate::tuning::KERNEL_EVERY;
use crate::turn::Turn;
use core::cell::UnsafeCell;
use core::ops::Deref;

/// The turn, on a page of its own, which is empty in children of the process: there it is free, also if no handler of a
/// fork ran, as after `clone` without the C library.
#[repr(C, align(4096))]
pub struct TurnPage {
    turn: Turn,
    /// What the thread's TLS register points at: zeroes, which nothing reads.
    tls: [u64; 511],
}

impl Deref for TurnPage {
    type Target = Turn;

    fn deref(&self) -> &Turn {
        &self.turn
    }
}

pub static TURN: TurnPage = TurnPage { turn: Turn::new(), tls: [0; 511] };
pub static STARTS: AtomicU64 = AtomicU64::new(0);

const STACK: usize = 32 << 10;

#[repr(C, align(64))]
struct Stack(UnsafeCell<[u8; STACK]>);

// SAFETY: invariant 1.
unsafe impl Sync for Stack {}

static STACK_MEMORY: Stack = Stack(UnsafeCell::new([0; STACK]));

/// Whether the thread exists, and will see what the caller has made stale.
pub fn is_running() -> bool {
    TURN.is_taken()
}

/// The mark of the credentials of the process when the thread was started. Only the holder of the turn writes it.
static BEGAN_AS: AtomicU64 = AtomicU64::new(0);

/// The mark of those that the process has now, unless no files may be read.
fn credentials() -> u64 {
    if settings::cgroup() { credentials::mark() } else { 0 }
}

/// Times it was started.
pub fn starts() -> u64 {
    STARTS.load(Ordering::Relaxed)
}

/// How many threads in a row the kernel has refused, or killed at once; and until when it is not asked again.
/// Only the holder of the turn writes these.
static REFUSALS: AtomicU32 = AtomicU32::new(0);
static PAUSE_UNTIL: AtomicU64 = AtomicU64::new(0);

/// Milliseconds after the first refusal; each further one doubles them.
const PAUSE: u64 = 1000;
/// The most doublings: 17 minutes.
const DOUBLED: u32 = 10;

/// Milliseconds for which the kernel is not asked after this many refusals in a row.
fn pause(refusals: u32) -> u64 {
    PAUSE << refusals.saturating_sub(1).min(DOUBLED)
}

/// Starts the thread if there is none. If the kernel refuses or kills it, for a while (`RLIMIT_NPROC`) or for
/// good (a sandbox), the pauses between two attempts get longer and longer. During a fork none starts: a child's own
/// handler, which may come after the program's, takes the thread of the turn for one of its parent's.
#[cold]
pub fn start() {
    if fork::is_in_progress() {
        return;
    }
    let refusals = REFUSALS.load(Ordering::Relaxed);
    if refusals != 0 && time::now_ms() < PAUSE_UNTIL.load(Ordering::Relaxed) {
        return;
    }
    crate::sharing::begin();
    // The previous thread has laid the turn down and is at its last instructions.
    let wait = || {
        let (word, seen) = TURN.futex();
        futex::wait(word, seen, Some((0, MOMENT)));
    };
    if !TURN.take_up(wait) {
        return;
    }
    // Other variables share a longer page.
    if auxv::page_size() == size_of::<TurnPage>() {
        mem::wipe_in_children((&raw const TURN).addr(), size_of::<TurnPage>());
    }
    // Before the thread exists: the program may give some up before it runs.
    BEGAN_AS.store(credentials(), Ordering::Relaxed);
    // As if it were refused. Once a filter has let it open files, it says that it was not.
    let refusals = refusals.saturating_add(1);
    PAUSE_UNTIL.store(time::now_ms() + pause(refusals), Ordering::Relaxed);
    REFUSALS.store(refusals, Ordering::Relaxed);
    let stack = STACK_MEMORY.0.get().cast::<u8>();
    let tls = (&raw const TURN.tls).cast_mut().cast();
    // SAFETY: invariant 1: the turn is this thread's. `run` makes system calls only.
    let started = unsafe { thread::spawn(run, 0, stack.add(STACK), tls, TURN.futex().0) };
    match started {
        Ok(()) => {
            STARTS.fetch_add(1, Ordering::Relaxed);
        }
        Err(_) => TURN.release(),
    }
}

/// Nanoseconds between two looks at the turn, because the kernel does not reliably wake a waiter in
/// time.
const MOMENT: i64 = 50_000;

/// Ticks without much debt after which the thread ends.
const PATIENCE: u32 = 4;

extern "C" fn run(_: usize) {
    let mut calm = 0;
    let mut stalled = None;
    let (word, taken) = TURN.futex();
    pressure::is_pressed(&mut stalled);
    REFUSALS.store(0, Ordering::Relaxed);
    collapse::begin();
    while let Some(decay) = settings::decay_ms() {
        let mut left = clock::tick_ms(decay).max(1);
        // A decay time that is set meanwhile counts at once.
        while left != 0 && settings::decay_ms() == Some(decay) {
            let period = left.min(KERNEL_EVERY);
            left -= period;
            let timeout = (period / 1000, period % 1000 * 1_000_000);
            futex::wait(word, taken, Some((timeout.0 as i64, timeout.1 as i64)));
            if credentials() != BEGAN_AS.load(Ordering::Relaxed) {
                super::give_all();
                return TURN.end();
            }
            if pressure::is_pressed(&mut stalled) {
                super::give_all();
            }
            super::answer(super::give_all);
        }
        advance(|| visit_caches(false));
        let left = collapse::step();
        calm = if stale() > settings::budget() / 2 { 0 } else { calm + 1 };
        if !left && (stale() == 0 || calm >= PATIENCE) && TURN.lay_down(|| stale() > budget()) {
            return;
        }
    }
    TURN.end();
}

/// In a fork's child the thread does not exist.
pub fn after_fork_in_child() {
    TURN.release();
    REFUSALS.store(0, Ordering::Relaxed);
    crate::limit::after_fork_in_child();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound() {
        assert_eq!((1..6).map(pause).collect::<Vec<_>>(), [1000, 2000, 4000, 8000, 16000]);
        assert_eq!(pause(u32::MAX), 1_024_000);
    }
}

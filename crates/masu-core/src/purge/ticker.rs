//! The background thread: ticks while there is a debt, then ends.
//!
//! A raw thread of the kernel ([`crate::sys::thread`]): it makes system calls, takes the engine's
//! locks, and touches nothing of the C library and no thread-local state. At most one exists.
//!
//! States of `RUNNING`: 0 none, 1 started. The kernel clears `TID` when the thread no longer uses
//! its stack, which the next one reuses. The end is a Dekker pair: the thread stores 0, then looks
//! at the debt again; a freer adds to the debt, then looks at `RUNNING`.

use super::{advance, dirty, stale, visit_caches};
use crate::settings;
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};
use crate::sys::{futex, thread};
use core::cell::UnsafeCell;

static RUNNING: AtomicU32 = AtomicU32::new(0);
static TID: AtomicU32 = AtomicU32::new(0);
static STARTS: AtomicU64 = AtomicU64::new(0);

const STACK: usize = 32 << 10;

#[repr(C, align(64))]
struct Stack(UnsafeCell<[u8; STACK]>);

// SAFETY: used by one background thread at a time, as `RUNNING` and `TID` see to.
unsafe impl Sync for Stack {}

static STACK_MEMORY: Stack = Stack(UnsafeCell::new([0; STACK]));
/// What the thread's TLS register points at: a zero word, which nothing reads.
static TLS: Stack = Stack(UnsafeCell::new([0; STACK]));

/// Ticks without much debt after which the thread ends although some is left, because the program
/// is at work and pays as it goes.
const PATIENCE: u32 = 4;

/// Whether the thread exists.
pub fn is_running() -> bool {
    RUNNING.load(Ordering::Relaxed) != 0
}

/// Times it was started.
pub fn starts() -> u64 {
    STARTS.load(Ordering::Relaxed)
}

/// Starts the thread if there is none. A refusal of the kernel is not tried again in a hurry.
#[cold]
pub fn start() {
    if TID.load(Ordering::Acquire) != 0
        || RUNNING.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_err()
    {
        return;
    }
    let stack = STACK_MEMORY.0.get().cast::<u8>();
    // SAFETY: RUNNING was 0 and TID is 0: no thread uses the stack. `run` makes system calls only.
    let started =
        unsafe { thread::spawn(run, 0, stack.add(STACK), TLS.0.get().cast(), TID.as_ptr()) };
    match started {
        Ok(()) => {
            STARTS.fetch_add(1, Ordering::Relaxed);
        }
        Err(_) => RUNNING.store(0, Ordering::SeqCst),
    }
}

extern "C" fn run(_: usize) {
    let mut calm = 0;
    loop {
        let Some(decay) = settings::decay_ms() else { break };
        let period = decay.div_ceil(2).max(1) as i64;
        futex::wait(RUNNING.as_ptr(), 1, Some((period / 1000, period % 1000 * 1_000_000)));
        visit_caches(false);
        advance();
        calm = if stale() > settings::budget() / 2 { 0 } else { calm + 1 };
        if stale() == 0 || calm >= PATIENCE {
            RUNNING.store(0, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if dirty() <= settings::budget()
                || RUNNING.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_err()
            {
                return;
            }
        }
    }
    RUNNING.store(0, Ordering::SeqCst);
}

/// In a fork's child the thread does not exist.
pub fn after_fork_in_child() {
    RUNNING.store(0, Ordering::Relaxed);
    TID.store(0, Ordering::Relaxed);
}

//! Whether the process has only one thread, and what must be done once it has a second one: the door registers its
//! fork handlers.
//!
//! As long as there is only one thread, a fork needs no locks: the child's only thread goes on wherever it was, even
//! inside the engine if a signal handler forks. So a program with one thread registers no handlers, and saves the
//! 128 KiB of glibc's pages that registering them touches. If handlers are registered all the same, they take no
//! locks as long as the thread [is alone](is_alone).
//!
//! Any thread may fork, also one that has never allocated. So whoever takes a lock looks first whether there are
//! several threads ([`before_lock`]); a thread that is alone stays alone while it holds one.
//!
//! The C library holds the lock of its handlers while it forks, so a registration waits until a fork in another thread
//! is over, and only then does the thread that registers touch what is shared. One case slips through: glibc from 2.36
//! on releases that lock around each prepare handler. If a thread registers while another runs such a handler of the
//! program, it may hold locks that the fork does not know of, and the child may wait for them.

use crate::sync::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use crate::sys::{futex, host, thread};

/// Whether there may be a thread that the C library does not know of, or ever was a second heap.
static SHARED: AtomicBool = AtomicBool::new(false);

/// The door's function, as an address; 0 if there is none, or it has already been called at start.
static HOOK: AtomicUsize = AtomicUsize::new(0);
/// Whether there is one that was not called.
static WAITS: AtomicBool = AtomicBool::new(false);
/// [`IDLE`], [`DONE`], or the number of the thread that runs the hook.
static STATE: AtomicU32 = AtomicU32::new(IDLE);

const IDLE: u32 = 0;
const DONE: u32 = u32::MAX;
/// Nanoseconds between two looks at whether the thread that runs the hook still exists.
const MOMENT: i64 = 1_000_000;

/// Sets `hook`, which is called once, before a second thread uses the engine.
pub fn set_hook(hook: fn()) {
    HOOK.store(hook as usize, Ordering::Release);
    WAITS.store(true, Ordering::Relaxed);
}

/// Whether the calling thread is the only one. If so, it stays the only one for as long as it calls no
/// foreign code.
#[inline]
pub fn is_alone() -> bool {
    host::is_single_threaded() && !SHARED.load(Ordering::Relaxed)
}

/// Called by a thread that is about to become the second one. The hook may allocate and free.
#[cold]
pub fn begin() {
    SHARED.store(true, Ordering::Relaxed);
    make_ready();
}

/// Called before a thread takes a lock: a fork has to know of it, if there is a second thread. That one may never
/// have allocated, and fork. A thread that holds a lock already is either alone still, or has had the hook called.
#[inline(always)]
pub fn before_lock() {
    if WAITS.load(Ordering::Relaxed) {
        begin_with_threads();
    }
}

#[cold]
#[inline(never)]
fn begin_with_threads() {
    if !host::is_single_threaded() {
        begin();
    }
}

/// Calls the hook now, although there is only one thread.
#[cold]
pub fn make_ready() {
    let hook = HOOK.load(Ordering::Acquire);
    if hook == 0 || STATE.load(Ordering::Acquire) == DONE {
        return;
    }
    let me = thread::id();
    loop {
        match STATE.compare_exchange(IDLE, me, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => break,
            // Inside the hook, which allocates.
            Err(state) if state == DONE || state == me => return,
            Err(state) if thread::exists(state) => {
                futex::wait(STATE.as_ptr(), state, Some((0, MOMENT)));
            }
            // A fork was faster, and left that thread behind.
            Err(state) => {
                let _ = STATE.compare_exchange(state, IDLE, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }
    // SAFETY: stored by `set_hook`, from a function of this type.
    let hook = unsafe { core::mem::transmute::<usize, fn()>(hook) };
    hook();
    WAITS.store(false, Ordering::Relaxed);
    STATE.store(DONE, Ordering::Release);
    futex::wake(STATE.as_ptr(), i32::MAX as usize);
}

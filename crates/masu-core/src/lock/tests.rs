//! A fork has to know of every lock that is taken, also if the thread that forks has never allocated.

use super::Lock;
use super::brief::BriefLock;
use crate::own_process::alone;
use crate::sharing;
use std::sync::atomic::{AtomicU32, Ordering};

static LOCK: Lock = Lock::new();
static BRIEF: BriefLock = BriefLock::new();
static CALLS: AtomicU32 = AtomicU32::new(0);

fn count_if_free() {
    if LOCK.try_lock().is_some() && BRIEF.try_lock().is_some() {
        CALLS.fetch_add(1, Ordering::Relaxed);
    }
}

/// The test's own thread is not the process's only one.
fn takes_after_the_hook(take: fn()) {
    sharing::set_hook(count_if_free);
    take();
    assert_eq!(CALLS.load(Ordering::Relaxed), 1, "the hook was not called, or too late");
    take();
    assert_eq!(CALLS.load(Ordering::Relaxed), 1, "the hook was called again");
}

macro_rules! ways {
    ($($name:ident: $take:expr;)+) => {$(
        #[test]
        fn $name() {
            alone!($name, || takes_after_the_hook(|| drop($take)));
        }
    )+};
}

ways! {
    a_lock_is_taken_after_the_hook: LOCK.lock();
    a_lock_is_entered_after_the_hook: LOCK.enter().expect("no fork");
    a_lock_is_tried_after_the_hook: LOCK.try_lock().expect("it is free");
    a_brief_lock_is_tried_after_the_hook: BRIEF.try_lock().expect("it is free");
}

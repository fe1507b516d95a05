//! The soft limit on the bytes in use: once it is passed, the engine makes room and tells the program. (The
//! hard limit is the [`ledger`](crate::ledger)'s.)
//!
//! [`SOFT`] is the option, or what the control group says, looked up once [`LARGE`] bytes are in use.
//! The state goes
//!
//! ```text
//!   BELOW ── in use > WATCH ──▶ BUSY ── still above after a purge ──▶ OVER: nothing free is kept
//!     ▲                          │ no                                  │
//!     └──────────────────────────┴──── in use < 7/8 of the limit ──────┘
//! ```
//!
//! and the thread that goes from BUSY to OVER calls the program's callback, outside all locks. The way back leads
//! through BUSY too: from there only the thread that made the state so goes on. [`crate::purge`] drives it (`pressure`).

use crate::config::LimitOrAuto;
use crate::ledger::used;
use crate::settings;
use crate::sync::{AtomicU32, AtomicUsize, Ordering, spin_hint};
use crate::sys::cgroup;
use crate::tuning::LARGE;
use core::ffi::c_void;
use core::mem::transmute;
use core::ptr::with_exposed_provenance_mut;

const BELOW: u32 = 0;
const BUSY: u32 = 1;
const OVER: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(BELOW);
/// The soft limit; 0 until it is known.
pub(crate) static SOFT: AtomicUsize = AtomicUsize::new(0);
/// Bytes in use above which a thread must look.
static WATCH: AtomicUsize = AtomicUsize::new(LARGE);
/// How many were in use when a thread last looked, and found that they are not resident.
static LOOKED_AT: AtomicUsize = AtomicUsize::new(0);

/// The function that a program wants called when the soft limit is passed, with the bytes in use, the limit
/// and its own word.
pub type Callback = unsafe extern "C" fn(usize, usize, *mut c_void);

/// The callback's address, 0 if there is none, and its word, which belongs to it: a thread that sets or reads the two
/// replaces the address by [`TAKEN`] meanwhile.
static CALLBACK: AtomicUsize = AtomicUsize::new(0);
static DATA: AtomicUsize = AtomicUsize::new(0);
/// No function's address.
const TAKEN: usize = 1;

/// Puts the soft limit of the options in force. That the last one was passed says nothing about another one; a callback
/// that sets the same one again, and then allocates, is not called inside itself.
pub fn apply() {
    let before = SOFT.load(Ordering::Relaxed);
    match settings::limit_soft() {
        LimitOrAuto::AUTO => {
            set_soft(0, LARGE);
            // If the last one is passed: this may be the same one.
            is_over();
        }
        0 => set_soft(usize::MAX, usize::MAX),
        soft => set_soft(soft, soft),
    }
    if SOFT.load(Ordering::Relaxed) != before {
        let _ = STATE.compare_exchange(OVER, BELOW, Ordering::Relaxed, Ordering::Relaxed);
    }
}

fn set_soft(soft: usize, watch: usize) {
    SOFT.swap(soft, Ordering::AcqRel);
    WATCH.store(watch, Ordering::Relaxed);
}

/// The soft limit; `usize::MAX` if there is none. May read the control group's files.
pub fn soft() -> usize {
    match SOFT.load(Ordering::Relaxed) {
        0 => look_up(0),
        soft => soft,
    }
}

/// Nine tenths of what the control group allows, unless the program has set a limit since it was the one `before`.
#[cold]
fn look_up(before: usize) -> usize {
    let limit = if settings::cgroup() { cgroup::memory_limit() } else { None };
    // The rest is for memory that is not the allocator's: stacks, code, the page cache.
    let soft = limit.map_or(usize::MAX, |limit| (limit - limit / 10).max(1));
    replace(before, soft, soft)
}

/// Puts a soft limit in force in place of another one, at which a thread must look when more than `watch` bytes are in
/// use. Returns that which is in force.
fn replace(before: usize, soft: usize, watch: usize) -> usize {
    // First: the program sets the limit before this word, so that what it sets stays.
    WATCH.store(watch, Ordering::Relaxed);
    match SOFT.compare_exchange(before, soft, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => soft,
        Err(set) => {
            // Unless the program has just set yet another limit.
            let _ = WATCH.compare_exchange(watch, set, Ordering::Relaxed, Ordering::Relaxed);
            if set == 0 { soft } else { set }
        }
    }
}

/// Looks the control group's limit up again, because it may change while processes run. It may have been raised because
/// it is passed.
pub fn refresh() {
    // First, and acquire: the program sets its option before this word.
    let known = SOFT.load(Ordering::Acquire);
    if known != 0 && settings::limit_soft() == LimitOrAuto::AUTO && state() != BUSY {
        look_up(known);
    }
}

fn state() -> u32 {
    STATE.load(Ordering::Relaxed)
}

/// The decay time that is observed now: none while the soft limit is passed.
pub fn decay_now() -> Option<u64> {
    if state() == OVER { Some(0) } else { settings::decay_ms() }
}

/// Whether the soft limit is passed, or was until now: finds out whether it still is.
pub fn is_over() -> bool {
    if state() == OVER {
        let soft = soft();
        if used() < soft - soft / 8 {
            fall_below(soft);
        }
    }
    state() == OVER
}

/// Notes that the limit is no longer passed, as long as it is `soft`.
fn fall_below(soft: usize) {
    if take(OVER) {
        replace(soft, soft, soft);
        STATE.store(BELOW, Ordering::Release);
    }
}

/// Goes from a state to BUSY. Returns `false` if another thread was faster.
fn take(from: u32) -> bool {
    STATE.compare_exchange(from, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

/// Whether a thread must handle the soft limit, and the caller is that thread: it calls [`end`].
pub fn begin() -> bool {
    !is_over() && must_look(used()) && take(BELOW)
}

/// Whether so much is in use that a thread must look. If memory was freed since one found it not to be resident, what
/// is taken in its place may be: then the limit itself counts again.
fn must_look(used: usize) -> bool {
    let (soft, watch) = (SOFT.load(Ordering::Relaxed), WATCH.load(Ordering::Relaxed));
    if watch > soft && used < LOOKED_AT.load(Ordering::Relaxed) && soft != 0 {
        // Unless the program has just set another limit.
        let _ = WATCH.compare_exchange(watch, soft, Ordering::Relaxed, Ordering::Relaxed);
        return used > soft;
    }
    used > watch
}

/// Ends what [`begin`] began: whether the limit is still passed after what could be done.
pub fn end(over: bool) {
    STATE.store(if over { OVER } else { BELOW }, Ordering::Release);
}

/// No thread need look before `room` bytes more than `used` are in use, as long as the limit is `soft`.
pub fn watch_from(soft: usize, used: usize, room: usize) {
    LOOKED_AT.store(used, Ordering::Relaxed);
    replace(soft, soft, used.saturating_add(room));
}

/// In a fork's child no thread is handling the limit. A callback that a thread was setting or reading is not whole.
pub fn after_fork_in_child() {
    let _ = CALLBACK.compare_exchange(TAKEN, 0, Ordering::Relaxed, Ordering::Relaxed);
    let _ = STATE.compare_exchange(BUSY, BELOW, Ordering::Relaxed, Ordering::Relaxed);
}

/// Sets the function to call when the soft limit is passed; `None` calls nothing.
pub fn set_callback(callback: Option<Callback>, data: *mut c_void) {
    while CALLBACK.swap(TAKEN, Ordering::Acquire) == TAKEN {
        spin_hint();
    }
    DATA.store(data.expose_provenance(), Ordering::Relaxed);
    CALLBACK.store(callback.map_or(0, |f| f as usize), Ordering::Release);
}

/// Calls the program's callback.
pub fn call(used: usize, soft: usize) {
    let callback = CALLBACK.swap(TAKEN, Ordering::Acquire);
    if callback == TAKEN {
        // Set at this moment: the thread that sets it need not hear of this. Read: the other one calls it.
        return;
    }
    let data = with_exposed_provenance_mut(DATA.load(Ordering::Relaxed));
    CALLBACK.store(callback, Ordering::Release);
    if callback == 0 {
        return;
    }
    // SAFETY: stored by `set_callback`, from a function of this type.
    unsafe { transmute::<usize, Callback>(callback)(used, soft, data) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger;
    use crate::own_process::alone;
    use crate::sys::cgroup::Fake;

    const SOFT_LIMIT: usize = 64 << 20;

    #[test]
    fn a_limit_that_is_raised_while_it_is_passed_counts() {
        alone!(a_limit_that_is_raised_while_it_is_passed_counts, || {
            const FILE: &str = "sys/fs/cgroup/memory.max";
            let files = [("proc/self/cgroup", "0::/\n"), (FILE, "100000000\n")];
            let fake = Fake::new(&files);
            assert_eq!(soft(), 90_000_000);
            ledger::HUGE.store(150_000_000, Ordering::Relaxed);
            assert!(begin());
            end(true);
            refresh();
            assert!(is_over());
            fake.write(FILE, "200000000\n");
            refresh();
            assert!(!is_over());
            assert_eq!(soft(), 180_000_000);
            assert!(!begin());
        });
    }

    /// A block that was never touched was no reason to act. What is allocated when it is gone may be one.
    #[test]
    fn the_limit_holds_again_once_what_was_not_touched_is_freed() {
        alone!(the_limit_holds_again_once_what_was_not_touched_is_freed, || {
            set_soft(SOFT_LIMIT, SOFT_LIMIT);
            ledger::HUGE.store(10 * SOFT_LIMIT, Ordering::Relaxed);
            assert!(begin());
            watch_from(SOFT_LIMIT, used(), SOFT_LIMIT / 16);
            end(false);
            assert!(!begin());
            ledger::HUGE.store(SOFT_LIMIT / 2, Ordering::Relaxed);
            assert!(!begin());
            ledger::HUGE.store(SOFT_LIMIT + 1, Ordering::Relaxed);
            assert!(begin());
            watch_from(SOFT_LIMIT, used(), SOFT_LIMIT / 16);
            end(false);
            assert!(!begin());
            // Some of it, while more than the limit is in use all the time.
            ledger::HUGE.store(10 * SOFT_LIMIT, Ordering::Relaxed);
            assert!(begin());
            watch_from(SOFT_LIMIT, used(), SOFT_LIMIT / 16);
            end(false);
            ledger::HUGE.store(5 * SOFT_LIMIT, Ordering::Relaxed);
            assert!(begin());
        });
    }

    /// The thread that looks does not know of it.
    #[test]
    fn a_limit_that_is_set_while_another_one_is_seen_to_holds() {
        alone!(a_limit_that_is_set_while_another_one_is_seen_to_holds, || {
            const HIGHER: usize = 10 * SOFT_LIMIT;
            set_soft(HIGHER, HIGHER);
            ledger::HUGE.store(HIGHER + SOFT_LIMIT, Ordering::Relaxed);
            assert!(begin());
            set_soft(SOFT_LIMIT, SOFT_LIMIT);
            watch_from(HIGHER, used(), SOFT_LIMIT);
            end(false);
            assert!(begin());
        });
    }

    /// Neither does one that sees the use fall.
    #[test]
    fn a_limit_that_is_set_while_another_one_is_no_longer_passed_holds() {
        alone!(a_limit_that_is_set_while_another_one_is_no_longer_passed_holds, || {
            const HIGHER: usize = 10 * SOFT_LIMIT;
            set_soft(HIGHER, HIGHER);
            ledger::HUGE.store(HIGHER + SOFT_LIMIT, Ordering::Relaxed);
            assert!(begin());
            end(true);
            ledger::HUGE.store(2 * SOFT_LIMIT, Ordering::Relaxed);
            set_soft(SOFT_LIMIT, SOFT_LIMIT);
            fall_below(HIGHER);
            assert!(begin());
        });
    }

    /// The files take a while to read.
    #[test]
    fn what_the_program_sets_stays_while_the_control_group_is_looked_up() {
        alone!(what_the_program_sets_stays_while_the_control_group_is_looked_up, || {
            let both = || (SOFT.load(Ordering::Relaxed), WATCH.load(Ordering::Relaxed));
            set_soft(SOFT_LIMIT, SOFT_LIMIT);
            assert_eq!(replace(0, 2 * SOFT_LIMIT, 2 * SOFT_LIMIT), SOFT_LIMIT);
            assert_eq!(both(), (SOFT_LIMIT, SOFT_LIMIT));
            // It was not known yet, and was set before the files were read.
            assert_eq!(look_up(0), SOFT_LIMIT);
            assert_eq!(both(), (SOFT_LIMIT, SOFT_LIMIT));
            assert_eq!(replace(SOFT_LIMIT, 2 * SOFT_LIMIT, 2 * SOFT_LIMIT), 2 * SOFT_LIMIT);
            assert_eq!(both(), (2 * SOFT_LIMIT, 2 * SOFT_LIMIT));
        });
    }

    /// Two libraries of one program may each set theirs.
    #[test]
    fn a_callback_never_gets_the_word_of_another_one() {
        static CALLS: AtomicUsize = AtomicUsize::new(0);
        extern "C" fn even(_: usize, _: usize, word: *mut c_void) {
            assert_eq!(word.addr() % 2, 0);
            CALLS.fetch_add(1, Ordering::Relaxed);
        }
        alone!(a_callback_never_gets_the_word_of_another_one, || {
            let calls = || {
                call(1, 0);
                CALLS.swap(0, Ordering::Relaxed)
            };
            let word = |word| with_exposed_provenance_mut(word);
            set_callback(Some(even), word(2));
            assert_eq!(calls(), 1);
            // Another thread has set its word, and not its function.
            CALLBACK.store(TAKEN, Ordering::Relaxed);
            DATA.store(3, Ordering::Relaxed);
            assert_eq!(calls(), 0);
            // In a fork's child it never will.
            after_fork_in_child();
            assert_eq!(calls(), 0);
            set_callback(Some(even), word(4));
            assert_eq!(calls(), 1);
            set_callback(None, word(3));
            assert_eq!(calls(), 0);
        });
    }

    #[test]
    fn nothing_free_is_kept_exactly_while_the_limit_is_passed() {
        alone!(nothing_free_is_kept_exactly_while_the_limit_is_passed, || {
            set_soft(SOFT_LIMIT, SOFT_LIMIT);
            let usual = settings::decay_ms();
            for over in [false, true] {
                ledger::HUGE.store(2 * SOFT_LIMIT, Ordering::Relaxed);
                assert!(begin() && !begin());
                assert_eq!(decay_now(), usual);
                end(over);
                assert_eq!((is_over(), decay_now() == Some(0)), (over, over));
                ledger::HUGE.store(0, Ordering::Relaxed);
                assert_eq!((is_over(), decay_now()), (false, usual));
            }
            // A thread that handles the limit does not exist in a fork's child.
            ledger::HUGE.store(2 * SOFT_LIMIT, Ordering::Relaxed);
            assert!(begin());
            after_fork_in_child();
            assert!(begin());
        });
    }

    #[test]
    fn only_another_limit_can_be_passed_anew() {
        alone!(only_another_limit_can_be_passed_anew, || {
            let set = |bytes| {
                settings::set_limit_soft(bytes);
                apply();
            };
            set(SOFT_LIMIT);
            ledger::HUGE.store(2 * SOFT_LIMIT, Ordering::Relaxed);
            assert!(begin());
            end(true);
            set(SOFT_LIMIT);
            assert!(!begin() && is_over(), "the same one");
            set(SOFT_LIMIT / 2);
            assert!(begin(), "another one");
        });
    }

    #[test]
    fn the_control_groups_limit_that_is_set_again_is_the_same() {
        alone!(the_control_groups_limit_that_is_set_again_is_the_same, || {
            const FILE: &str = "sys/fs/cgroup/memory.max";
            let fake = Fake::new(&[("proc/self/cgroup", "0::/\n"), (FILE, "100000000\n")]);
            assert_eq!(soft(), 90_000_000);
            ledger::HUGE.store(150_000_000, Ordering::Relaxed);
            assert!(begin());
            end(true);
            apply();
            assert!(!begin() && is_over());
            fake.write(FILE, "110000000\n");
            apply();
            assert!(begin(), "another one");
        });
    }
}

//! The options in force, as words that any thread may read at any time.
//!
//! They have the documented defaults until [`apply`] runs, once, in the constructor. Those with a `set_` function may
//! change at any time after that; each reader sees the new value the next time it reads.

use crate::config::{BackgroundThread, Config, Delay, File, OnError, Origin, Statistics};
use crate::features;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::sys::cpu;

const DEFAULT: Config = Config::DEFAULT;
/// The decay time that stands for "never".
const NEVER: u64 = Delay::Never.to_word();

pub static DECAY: AtomicU64 = AtomicU64::new(DEFAULT.decay.to_word());
pub static BUDGET: AtomicUsize = AtomicUsize::new(DEFAULT.budget);
static RUN_CACHE: AtomicUsize = AtomicUsize::new(DEFAULT.run_cache);
static HUGE_CACHE: AtomicUsize = AtomicUsize::new(DEFAULT.huge_cache);
static RETAIN_FULL: AtomicU32 = AtomicU32::new(DEFAULT.retain_full);
static BACKGROUND: AtomicU32 = AtomicU32::new(DEFAULT.background_thread as u32);
static HUGE_PAGES: AtomicBool = AtomicBool::new(DEFAULT.huge_pages);
static HUGE_PAGES_FROM: AtomicUsize = AtomicUsize::new(DEFAULT.huge_pages_from);
static POPULATE: AtomicBool = AtomicBool::new(DEFAULT.populate);
static LIMIT_SOFT: AtomicUsize = AtomicUsize::new(DEFAULT.limit_soft);
pub(crate) static LIMIT_HARD: AtomicUsize = AtomicUsize::new(DEFAULT.limit_hard);
static CGROUP: AtomicBool = AtomicBool::new(DEFAULT.cgroup);
static SHOW_STATS: AtomicU32 = AtomicU32::new(DEFAULT.show_stats as u32);
static SHOW_ERRORS: AtomicBool = AtomicBool::new(DEFAULT.show_errors);
static ON_ERROR: AtomicU32 = AtomicU32::new(DEFAULT.on_error as u32);
/// Whether every request is served by the hardened heap.
static HARDENED: AtomicBool = AtomicBool::new(false);
static OBSERVE: AtomicBool = AtomicBool::new(DEFAULT.observe);
/// Processors; 0 if they were never counted.
static PROCESSORS: AtomicU32 = AtomicU32::new(0);
/// Whether the constructor has run in a process that may start a thread.
static MAY_START_THREAD: AtomicBool = AtomicBool::new(false);

/// Puts a configuration in force. `secure` means that the process has more privileges than its caller.
pub fn apply(config: &Config, secure: bool) {
    DECAY.store(config.decay.to_word(), Ordering::Relaxed);
    BUDGET.store(config.budget, Ordering::Relaxed);
    RUN_CACHE.store(config.run_cache, Ordering::Relaxed);
    HUGE_CACHE.store(config.huge_cache, Ordering::Relaxed);
    RETAIN_FULL.store(config.retain_full, Ordering::Relaxed);
    BACKGROUND.store(config.background_thread as u32, Ordering::Relaxed);
    HUGE_PAGES.store(config.huge_pages, Ordering::Relaxed);
    HUGE_PAGES_FROM.store(config.huge_pages_from, Ordering::Relaxed);
    POPULATE.store(config.populate, Ordering::Relaxed);
    LIMIT_SOFT.store(config.limit_soft, Ordering::Relaxed);
    LIMIT_HARD.store(config.limit_hard, Ordering::Relaxed);
    CGROUP.store(config.cgroup, Ordering::Relaxed);
    SHOW_STATS.store(statistics_asked(config) as u32, Ordering::Relaxed);
    SHOW_ERRORS.store(config.show_errors, Ordering::Relaxed);
    ON_ERROR.store(config.on_error as u32, Ordering::Relaxed);
    OBSERVE.store(config.observe, Ordering::Relaxed);
    MAY_START_THREAD.store(!secure, Ordering::Release);
}

/// Naming a file for the statistics asks for them.
fn statistics_asked(config: &Config) -> Statistics {
    let unsaid = config.origins.show_stats == Origin::BuiltIn;
    if unsaid && config.stats_file != File::STDERR { Statistics::Text } else { config.show_stats }
}

/// The decay time in milliseconds; `None` if never.
pub fn decay_ms() -> Option<u64> {
    match DECAY.load(Ordering::Relaxed) {
        NEVER => None,
        n => Some(n),
    }
}

/// Sets the decay time.
pub fn set_decay(decay: Delay) {
    DECAY.store(decay.to_word(), Ordering::Relaxed);
}

/// Sets the budget.
pub fn set_budget(bytes: usize) {
    BUDGET.store(bytes, Ordering::Relaxed);
}

/// Sets which thread gives memory back.
pub fn set_background_thread(who: BackgroundThread) {
    BACKGROUND.store(who as u32, Ordering::Relaxed);
}

/// Sets the most bytes in a thread's cache of medium blocks.
pub fn set_run_cache(bytes: usize) {
    RUN_CACHE.store(bytes, Ordering::Relaxed);
}

/// Sets the most bytes of freed huge blocks.
pub fn set_huge_cache(bytes: usize) {
    HUGE_CACHE.store(bytes, Ordering::Relaxed);
}

/// Sets the most full spans that a heap keeps.
pub fn set_retain_full(count: u32) {
    RETAIN_FULL.store(count, Ordering::Relaxed);
}

/// Sets whether growing heaps may use huge pages.
pub fn set_huge_pages(may: bool) {
    HUGE_PAGES.store(may, Ordering::Relaxed);
}

/// Stale bytes above which the background thread may be started.
pub fn budget() -> usize {
    BUDGET.load(Ordering::Relaxed)
}

/// Most bytes in a thread's cache of medium blocks.
#[inline]
pub fn run_cache() -> usize {
    RUN_CACHE.load(Ordering::Relaxed)
}

/// Most bytes of freed huge blocks that are kept.
pub fn huge_cache() -> usize {
    HUGE_CACHE.load(Ordering::Relaxed)
}

/// Most full spans that a heap keeps.
#[inline]
pub fn retain_full() -> u32 {
    RETAIN_FULL.load(Ordering::Relaxed)
}

/// Whether there may be a background thread.
pub fn background_thread() -> BackgroundThread {
    if !MAY_START_THREAD.load(Ordering::Acquire) {
        return BackgroundThread::Off;
    }
    match BACKGROUND.load(Ordering::Relaxed) {
        n if n == BackgroundThread::On as u32 => BackgroundThread::On,
        n if n == BackgroundThread::Off as u32 => BackgroundThread::Off,
        _ => BackgroundThread::Auto,
    }
}

/// Whether growing heaps may use huge pages.
pub fn huge_pages() -> bool {
    HUGE_PAGES.load(Ordering::Relaxed)
}

/// Bytes in use from which on a growing heap has huge pages.
pub fn huge_pages_from() -> usize {
    HUGE_PAGES_FROM.load(Ordering::Relaxed)
}

/// Whether fresh memory is faulted in at once.
pub fn populate() -> bool {
    POPULATE.load(Ordering::Relaxed)
}

/// Bytes in use above which all free memory goes back: the option, which may be
/// [`AUTO`](crate::config::LimitOrAuto::AUTO).
pub fn limit_soft() -> usize {
    LIMIT_SOFT.load(Ordering::Relaxed)
}

/// Sets the soft limit.
pub fn set_limit_soft(bytes: usize) {
    LIMIT_SOFT.store(bytes, Ordering::Relaxed);
}

/// Hard limit on the bytes in use; 0 for no limit.
#[inline]
pub fn limit_hard() -> usize {
    LIMIT_HARD.load(Ordering::Relaxed)
}

/// Sets the hard limit.
pub fn set_limit_hard(bytes: usize) {
    LIMIT_HARD.store(bytes, Ordering::Relaxed);
}

/// Whether the files of the control group are read.
pub fn cgroup() -> bool {
    CGROUP.load(Ordering::Relaxed)
}

/// Processors that the process may use, as of the last count; at least 1.
pub fn processors() -> u32 {
    match PROCESSORS.load(Ordering::Relaxed) {
        0 => count_processors(),
        n => n,
    }
}

#[cold]
fn count_processors() -> u32 {
    let n = cpu::count(cgroup());
    PROCESSORS.store(n, Ordering::Relaxed);
    n
}

/// Counts them again, if they were ever counted.
pub fn refresh_processors() {
    if PROCESSORS.load(Ordering::Relaxed) != 0 {
        count_processors();
    }
}

/// Whether statistics are written at exit.
pub fn show_stats() -> bool {
    SHOW_STATS.load(Ordering::Relaxed) != Statistics::Off as u32
}

/// Whether statistics are written as JSON.
pub fn stats_as_json() -> bool {
    SHOW_STATS.load(Ordering::Relaxed) == Statistics::Json as u32
}

/// Whether every request is served by the hardened heap.
#[inline(always)]
pub fn hardened() -> bool {
    features::HARDENED && HARDENED.load(Ordering::Relaxed)
}

/// Makes the hardened heap serve every request from now on.
pub fn set_hardened() {
    HARDENED.store(true, Ordering::Release);
}

/// Whether the user's other processes may read this one.
pub fn observe() -> bool {
    OBSERVE.load(Ordering::Relaxed)
}

/// Whether mistakes are reported.
pub fn show_errors() -> bool {
    SHOW_ERRORS.load(Ordering::Relaxed)
}

/// What happens when a pointer is found not to be a live block's.
pub fn on_error() -> OnError {
    match ON_ERROR.load(Ordering::Relaxed) {
        n if n == OnError::Report as u32 => OnError::Report,
        n if n == OnError::Ignore as u32 => OnError::Ignore,
        _ => OnError::Abort,
    }
}

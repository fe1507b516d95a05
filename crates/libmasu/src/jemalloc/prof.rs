//! `prof.*`: the heap profile, controlled as in jemalloc.
//!
//! Errors are those of a jemalloc that was built with profiling. But here a profile can be switched on at run time even
//! if `opt.prof` is false, for which jemalloc returns `ENOENT`.
//!
//! Invariants:
//!
//! 1. The prefix in force is accessed with [`LOCK`] held.
//! 2. The prefix of the options is written only by [`set`], while masu's constructor reads them, and
//!    read only by calls of the program after that. (A thread that another library's constructor has
//!    started must not ask for it before `main`.)

use super::call::{Answer, Call, EAGAIN, EFAULT, EINVAL, ENOENT};
use super::print;
use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use masu_core::config::{Config, Origin};
use masu_core::lock::Lock;
use masu_core::profile::{self, Form, Refused};

/// Options that are on or off, each with the bit of its number in [`KEYS`]; a default of on is told by the opposite.
static FLAGS: AtomicU32 = AtomicU32::new(0);
/// The keys of `MALLOC_CONF`. A static, so that it has a symbol name that says where it belongs.
pub static KEYS: [u8; ALL.len()] = *ALL.as_bytes().first_chunk().unwrap();
const ALL: &str = "prof prof_active prof_final prof_leak prof_leak_error prof_gdump prof_thread_active_init \
                   lg_prof_sample lg_prof_interval prof_prefix";
/// `prof`.
const WANTED: u32 = 1;
/// Not `prof_active`.
const WAITS: u32 = 2;
/// `prof_final`.
const FINAL: u32 = 4;
/// `prof_leak`.
pub const LEAK: u32 = 8;
/// `prof_leak_error`.
pub const LEAK_ERROR: u32 = 16;
/// `prof_gdump`.
pub const GDUMP: u32 = 32;
/// Not `prof_thread_active_init`.
pub const MUTED: u32 = 64;
/// The numbers in [`KEYS`] of those that are not on or off, which come last.
const LG_PROF_SAMPLE: usize = 7;
const LG_PROF_INTERVAL: usize = 8;
const PROF_PREFIX: usize = 9;

/// The binary logarithm of the first start's rate.
static LG_RATE: AtomicU32 = AtomicU32::new(19);
/// Bytes from one interval's dump to the next, 0 without such dumps, and bytes since the last one.
static INTERVAL: AtomicU64 = AtomicU64::new(0);
static SINCE: AtomicU64 = AtomicU64::new(0);
/// `prof.gdump`, and the most bytes in use so far.
static DUMPS_MAXIMA: AtomicBool = AtomicBool::new(false);
static MAXIMUM: AtomicU64 = AtomicU64::new(0);
/// Dumps requested without a file name, of intervals, and of maxima.
static ASKED: AtomicU32 = AtomicU32::new(0);
static INTERVALS: AtomicU32 = AtomicU32::new(0);
static MAXIMA: AtomicU32 = AtomicU32::new(0);

/// A prefix of file names, once it was set, up to a zero.
struct Prefix(UnsafeCell<Option<[u8; LONGEST]>>);

// SAFETY: invariants 1 and 2: both are accessed under the lock, or only read.
unsafe impl Sync for Prefix {}

/// Longer ones are cut off.
const LONGEST: usize = 512;
const DEFAULT: &CStr = c"jeprof";
/// In force, and that of the options.
static PREFIX: Prefix = Prefix(UnsafeCell::new(None));
static OPTION: Prefix = Prefix(UnsafeCell::new(None));
static LOCK: Lock = Lock::new();

impl Prefix {
    /// Copies a prefix.
    ///
    /// # Safety
    /// The caller must hold [`LOCK`].
    unsafe fn set(&self, prefix: &[u8]) {
        // SAFETY: as the caller says, under the lock; by invariants 1 and 2, nothing else accesses it then.
        let buffer = unsafe { (*self.0.get()).insert([0; LONGEST]) };
        for (slot, &byte) in buffer.iter_mut().take(LONGEST - 1).zip(prefix) {
            *slot = byte;
        }
    }
}

fn text_of(prefix: Option<&[u8; LONGEST]>) -> &CStr {
    prefix.and_then(|set| CStr::from_bytes_until_nul(set).ok()).unwrap_or(DEFAULT)
}

/// Runs before a fork, after the engine's handler: the child finds the prefix whole, and its lock free. A thread
/// that has the lock takes no other.
///
/// # Safety
/// The engine must have begun a fork of the calling thread.
pub unsafe fn fork_prepare() {
    LOCK.acquire();
    // SAFETY: as the caller says, the fork has begun; just taken. The forking thread may use the prefix.
    unsafe { LOCK.mark_fork() }
}

/// Runs after a fork, in the parent and in the child, after the engine's handler.
///
/// # Safety
/// The calling thread must have called [`fork_prepare`].
pub unsafe fn fork_done() {
    // SAFETY: as the caller says, held since `fork_prepare`.
    unsafe { LOCK.release() }
}

/// Writes a dump by calling `write` with the prefix of file names. An empty one switches such dumps off. Waits for no
/// fork, which may be waiting for this thread.
fn with_prefix(write: impl FnOnce(&[u8]) -> Result<(), Refused>) -> Answer {
    let copy = {
        let _guard = LOCK.enter().ok_or(EFAULT)?;
        // SAFETY: invariants 1 and 2: under the lock, and the options are still being read.
        unsafe { *PREFIX.0.get() }
    };
    let prefix = text_of(copy.as_ref()).to_bytes();
    if prefix.is_empty() { Err(EFAULT) } else { answer(write(prefix)) }
}

/// Sets a key of `MALLOC_CONF`. Returns whether it is one of the profile's.
#[cold]
#[inline(never)]
pub fn set(key: &[u8], value: &[u8]) -> bool {
    let Some(number) = KEYS.split(|&byte| byte == b' ').position(|known| known == key) else {
        return false;
    };
    let lg = super::names::decimal(value);
    match number {
        PROF_PREFIX.. => {
            let _guard = LOCK.lock();
            // SAFETY: invariant 1: under the lock.
            unsafe {
                PREFIX.set(value);
                OPTION.set(value);
            }
        }
        LG_PROF_INTERVAL if value == b"-1" => INTERVAL.store(0, Ordering::Relaxed),
        LG_PROF_INTERVAL => {
            if let Some(lg @ 0..64) = lg {
                INTERVAL.store(1 << lg, Ordering::Relaxed);
            }
        }
        LG_PROF_SAMPLE => {
            if let Some(lg) = lg {
                LG_RATE.store(lg.min(MOST_LG) as u32, Ordering::Relaxed);
            }
        }
        _ => {
            let bit = 1 << number;
            let is_set = (value == b"true") != ((WAITS | MUTED) & bit != 0);
            let rest = FLAGS.load(Ordering::Relaxed) & !bit;
            FLAGS.store(if is_set { rest | bit } else { rest }, Ordering::Relaxed);
        }
    }
    true
}

/// Whether an option of this bit is set.
pub fn is(bit: u32) -> bool {
    FLAGS.load(Ordering::Relaxed) & bit != 0
}

/// The largest rate that is distinguished.
const MOST_LG: usize = 62;

/// Applies the keys to the engine's configuration.
#[cold]
#[inline(never)]
pub fn configure(config: &mut Config, origin: Origin) {
    let is_wanted = is_wanted();
    // Leaks alone need a profile, but no dumps before the end.
    let dumps = is(WANTED) || !is_wanted;
    DUMPS_MAXIMA.store(is(GDUMP) && dumps, Ordering::Relaxed);
    if !dumps {
        INTERVAL.store(0, Ordering::Relaxed);
    }
    profile::set_then(sampled);
    if profile::starts_muted() != is(MUTED) {
        profile::set_starts_muted(is(MUTED));
        profile::mute(is(MUTED));
    }
    if is_wanted {
        config.prof_rate = rate();
        config.origins.prof_rate = origin;
    }
    let begins = is_wanted && begins_active();
    // The environment may take back what the program's own string asks for.
    if begins || config.prof {
        config.prof = begins;
        config.origins.prof = origin;
    }
}

/// The rate of the program's next profile: that of its last one, if there was one.
fn rate() -> usize {
    match profile::own_rate() {
        0 => 1 << LG_RATE.load(Ordering::Relaxed),
        rate => rate,
    }
}

/// `opt.prof`: whether a profile was requested at start. Reports of leaks need one.
pub fn is_wanted() -> bool {
    is(WANTED | LEAK | LEAK_ERROR) || profile::last_rate() != 0
}

/// `opt.prof_active`.
pub fn begins_active() -> bool {
    !is(WAITS)
}

/// `opt.prof_final`.
pub fn dumps_at_exit() -> bool {
    is(FINAL)
}

/// `opt.prof_prefix`.
pub fn first_prefix() -> &'static CStr {
    // SAFETY: invariant 2: the options have been read, so it is not changed any more.
    text_of(unsafe { (*OPTION.0.get()).as_ref() })
}

/// `prof.interval`.
pub fn interval() -> u64 {
    if is_wanted() { INTERVAL.load(Ordering::Relaxed) } else { 0 }
}

/// `opt.lg_prof_interval`.
pub fn lg_interval() -> i64 {
    INTERVAL.load(Ordering::Relaxed).checked_ilog2().map_or(-1, i64::from)
}

/// `prof.lg_sample`.
pub fn lg_rate() -> usize {
    profile::last_rate().checked_ilog2().unwrap_or(LG_RATE.load(Ordering::Relaxed)) as usize
}

/// `prof.active`.
pub fn active(call: &Call) -> Answer {
    let (old, new) = (profile::rate() != 0, call.new_flag()?);
    call.flag(old)?;
    match new {
        Some(true) if !old => start(rate())?,
        Some(false) => profile::stop(),
        _ => {}
    }
    Ok(())
}

fn start(rate: usize) -> Answer {
    profile::set_then(sampled);
    profile::start(rate).map_err(|_| EAGAIN)
}

/// A profile that was asked for, and has not begun to be active, has no samples yet.
fn begun() -> Answer {
    if profile::last_rate() != 0 {
        return Ok(());
    }
    if !is_wanted() {
        return Err(ENOENT);
    }
    start(rate())?;
    profile::stop();
    Ok(())
}

/// `prof.dump`: to the named file, or to one with the prefix and a number.
pub fn dump(call: &Call) -> Answer {
    call.write_only()?;
    begun()?;
    match call.new_pointer()? {
        // SAFETY: invariant 2 of `jemalloc::call`: the new value is a string.
        Some(path) if !path.is_null() => unsafe { file(path, Form::HeapV2) },
        _ => numbered(b"m", &ASKED),
    }
}

/// `masu.prof.dump`: in masu's own format, to the named file.
pub fn dump_own(call: &Call) -> Answer {
    call.write_only()?;
    let path = call.new_pointer()?.filter(|path| !path.is_null()).ok_or(EINVAL)?;
    begun()?;
    // SAFETY: invariant 2 of `jemalloc::call`: the new value is a string.
    unsafe { file(path, Form::Masu) }
}

/// # Safety
/// `path` must be a C string.
#[inline(always)]
unsafe fn file(path: *const u8, form: Form) -> Answer {
    // SAFETY: passed on.
    answer(profile::write_file(unsafe { CStr::from_ptr(path.cast()) }, form))
}

/// A dump without a name: of a kind, with the next of its numbers.
fn numbered(kind: &[u8], numbers: &AtomicU32) -> Answer {
    with_prefix(|prefix| {
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        profile::write_numbered(prefix, kind, Some(number))
    })
}

/// After each sample, which stands for so many bytes: writes the dumps that are due. `in_use`: what blocks have at most.
///
/// Only for the program's own profile: a command outside that takes one wants no files here.
fn sampled(bytes: u64, in_use: fn() -> u64) {
    if profile::own_rate() == 0 {
        return;
    }
    let interval = INTERVAL.load(Ordering::Relaxed);
    if interval != 0 {
        let sum = SINCE.fetch_add(bytes, Ordering::Relaxed).wrapping_add(bytes);
        let rest = sum % interval;
        // Otherwise another thread has added more, and sees to it.
        if sum >= interval
            && SINCE.compare_exchange(sum, rest, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            let _ = numbered(b"i", &INTERVALS);
        }
    }
    let now = in_use();
    if MAXIMUM.fetch_max(now, Ordering::Relaxed) < now && DUMPS_MAXIMA.load(Ordering::Relaxed) {
        let _ = numbered(b"u", &MAXIMA);
    }
}

fn answer(done: Result<(), Refused>) -> Answer {
    done.map_err(|refused| if refused == Refused::NotStarted { ENOENT } else { EFAULT })
}

/// `prof.prefix`: an empty one switches dumps without a file name off.
pub fn prefix(call: &Call) -> Answer {
    call.write_only()?;
    if let Some(prefix) = call.new_pointer()?
        && !prefix.is_null()
    {
        let _guard = LOCK.lock();
        // SAFETY: invariant 1: under the lock; invariant 2 of `jemalloc::call`: the new value is a string.
        unsafe { PREFIX.set(CStr::from_ptr(prefix.cast()).to_bytes()) }
    }
    Ok(())
}

/// `prof.reset`: forgets all samples, and may set another rate.
pub fn reset(call: &Call) -> Answer {
    call.write_only()?;
    let lg = call.new_size()?;
    begun()?;
    if let Some(lg) = lg {
        let is_on = profile::rate() != 0;
        // The rate that is told, and that of the next profile, is that of the last start.
        start(1 << lg.min(MOST_LG))?;
        if !is_on {
            profile::stop();
        }
    }
    profile::reset();
    Ok(())
}

/// `prof.gdump`.
pub fn gdump(call: &Call) -> Answer {
    let new = call.new_flag()?;
    call.flag(DUMPS_MAXIMA.load(Ordering::Relaxed))?;
    if let Some(new) = new {
        profile::set_then(sampled);
        DUMPS_MAXIMA.store(new, Ordering::Relaxed);
    }
    Ok(())
}

/// `prof.thread_active_init`.
pub fn thread_active_init(call: &Call) -> Answer {
    let new = call.new_flag()?;
    call.flag(!profile::starts_muted())?;
    if let Some(new) = new {
        profile::set_starts_muted(!new);
    }
    Ok(())
}

/// `thread.prof.name`: either is possible, but not both.
pub fn thread_name(call: &Call) -> Answer {
    if call.reads() {
        call.read_only()?;
        return call.pointer(profile::own_name());
    }
    if let Some(name) = call.new_pointer()? {
        if name.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: invariant 2 of `jemalloc::call`: the new value is a string.
        let name = unsafe { CStr::from_ptr(name.cast()) }.to_bytes();
        if !name.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~')) {
            return Err(EINVAL);
        }
        profile::set_name(name);
    }
    Ok(())
}

/// `thread.prof.active`: whether the calling thread is sampled.
pub fn thread_active(call: &Call) -> Answer {
    let new = call.new_flag()?;
    call.flag(!profile::is_muted())?;
    if new.is_some_and(|new| !profile::mute(!new)) { Err(EAGAIN) } else { Ok(()) }
}

/// At exit: writes the last dump, and says what leaks, if requested and the prefix is not empty.
#[cold]
#[inline(never)]
pub fn at_exit() {
    let _ = with_prefix(|prefix| {
        let _ = profile::write_numbered(prefix, b"f", None);
        if is(LEAK | LEAK_ERROR) {
            tell_leaks();
        }
        Ok(())
    });
}

/// Lines about leaks. Statics, so that they have symbol names that say where they belong.
static SUMMARY: [u8; 41] = *b"<jemalloc>: Leak approximation summary: ~";
static DETAIL: [u8; 54] = *b"<jemalloc>: Run jeprof on dump output for leak detail\n";
static ERROR: [u8; 71] =
    *b"<jemalloc>: Exiting with error code because memory leaks were detected\n";

/// What is in use, in jemalloc's words. Ends the process if that is an error.
fn tell_leaks() {
    let Some((amount, stacks)) = profile::in_use() else { return };
    print::say(|text| {
        text.bytes(&SUMMARY).count(amount.bytes, "byte").str(", ~");
        text.count(amount.blocks(), "object").str(", >= ").count(stacks, "context");
        text.line().bytes(&DETAIL);
        if is(LEAK_ERROR) {
            text.bytes(&ERROR);
        }
    });
    if is(LEAK_ERROR) {
        masu_core::end(1);
    }
}

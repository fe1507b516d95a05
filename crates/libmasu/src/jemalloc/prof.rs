//! `prof.*`: the heap profile, controlled as in jemalloc.
//!
//! Errors are those of a jemalloc that was built with profiling. But here a profile can be switched on at run time even
//! if `opt.prof` is false, for which jemalloc returns `ENOENT`.

use super::call::{Answer, Call, EAGAIN, EFAULT, EINVAL, ENOENT};
use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use masu_core::config::{Config, Origin};
use masu_core::lock::Lock;
use masu_core::profile::{self, Form, Refused};

/// `opt.prof`, `opt.prof_active` (the opposite), `opt.prof_final`.
static WANTED: AtomicBool = AtomicBool::new(false);
static WAITS: AtomicBool = AtomicBool::new(false);
static FINAL: AtomicBool = AtomicBool::new(false);
/// The binary logarithm of the first start's rate.
static LG_RATE: AtomicU32 = AtomicU32::new(19);
/// Dumps requested without a file name.
static ASKED: AtomicU32 = AtomicU32::new(0);

/// The prefix of file names, once it was set, up to a zero.
struct Prefix(UnsafeCell<Option<[u8; LONGEST]>>);

// SAFETY: accessed under its lock, or before there is a second thread.
unsafe impl Sync for Prefix {}

/// Longer ones are cut off.
const LONGEST: usize = 512;
const DEFAULT: &[u8] = b"jeprof";
static PREFIX: Prefix = Prefix(UnsafeCell::new(None));
static LOCK: Lock = Lock::new();

/// Runs before a fork, after the engine's handler: the child finds the prefix whole, and its lock free. Who has the lock
/// takes no other.
///
/// # Safety
/// The engine must have begun a fork of the calling thread.
pub unsafe fn fork_prepare() {
    LOCK.acquire();
    // SAFETY: just taken, and the fork has begun. The forking thread may use the prefix.
    unsafe { LOCK.mark_fork() }
}

/// Runs after a fork, in the parent and in the child, after the engine's handler.
///
/// # Safety
/// The calling thread must have called [`fork_prepare`].
pub unsafe fn fork_done() {
    // SAFETY: held since `fork_prepare`.
    unsafe { LOCK.release() }
}

/// Copies the prefix of file names.
fn set_prefix(prefix: &[u8]) {
    let _guard = LOCK.lock();
    // SAFETY: under the lock.
    let buffer = unsafe { (*PREFIX.0.get()).insert([0; LONGEST]) };
    for (slot, &byte) in buffer.iter_mut().take(LONGEST - 1).zip(prefix) {
        *slot = byte;
    }
}

/// Writes a dump by calling `write` with the prefix of file names. An empty one switches such dumps off.
fn with_prefix(write: impl FnOnce(&[u8]) -> Result<(), Refused>) -> Answer {
    let copy = {
        let _guard = LOCK.lock();
        // SAFETY: under the lock.
        unsafe { *PREFIX.0.get() }
    };
    let prefix = match &copy {
        Some(set) => CStr::from_bytes_until_nul(set).map_or(DEFAULT, CStr::to_bytes),
        None => DEFAULT,
    };
    if prefix.is_empty() { Err(EFAULT) } else { answer(write(prefix)) }
}

/// Sets a key of `MALLOC_CONF`.
#[cold]
#[inline(never)]
pub fn set(key: &[u8], value: &[u8]) {
    let flag = value == b"true";
    match key {
        b"prof" => WANTED.store(flag, Ordering::Relaxed),
        b"prof_active" => WAITS.store(!flag, Ordering::Relaxed),
        b"prof_final" => FINAL.store(flag, Ordering::Relaxed),
        b"prof_prefix" => set_prefix(value),
        _ => {
            if let Some(lg) = super::names::decimal(value) {
                LG_RATE.store(lg.min(MOST_LG) as u32, Ordering::Relaxed);
            }
        }
    }
}

/// The largest rate that is distinguished.
const MOST_LG: usize = 62;

/// Applies the keys to the engine's configuration.
#[cold]
#[inline(never)]
pub fn configure(config: &mut Config, origin: Origin) {
    let is_wanted = is_wanted();
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

/// `opt.prof`: whether a profile was requested at start.
pub fn is_wanted() -> bool {
    WANTED.load(Ordering::Relaxed) || profile::last_rate() != 0
}

/// `opt.prof_active`.
pub fn begins_active() -> bool {
    !WAITS.load(Ordering::Relaxed)
}

/// `opt.prof_final`.
pub fn dumps_at_exit() -> bool {
    FINAL.load(Ordering::Relaxed)
}

/// `opt.prof_prefix`.
pub fn first_prefix() -> &'static CStr {
    c"jeprof"
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
    profile::start(rate).map_err(|_| EAGAIN)
}

/// `prof.dump`: to the named file, or to one with the prefix and a number.
pub fn dump(call: &Call) -> Answer {
    call.write_only()?;
    if profile::last_rate() == 0 {
        return Err(ENOENT);
    }
    let Some(path) = call.new_pointer()? else { return numbered() };
    if path.is_null() {
        return numbered();
    }
    // SAFETY: callers who write this name pass a C string.
    let path = unsafe { CStr::from_ptr(path.cast()) };
    answer(profile::write_file(path, Form::HeapV2))
}

/// `masu.prof.dump`: in masu's own format, to the named file.
pub fn dump_own(call: &Call) -> Answer {
    call.write_only()?;
    let path = call.new_pointer()?.filter(|path| !path.is_null()).ok_or(EINVAL)?;
    // SAFETY: callers who write this name pass a C string.
    let path = unsafe { CStr::from_ptr(path.cast()) };
    answer(profile::write_file(path, Form::Masu))
}

fn numbered() -> Answer {
    with_prefix(|prefix| {
        let number = ASKED.fetch_add(1, Ordering::Relaxed);
        profile::write_numbered(prefix, b"m", Some(number))
    })
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
        // SAFETY: callers who write this name pass a C string.
        set_prefix(unsafe { CStr::from_ptr(prefix.cast()) }.to_bytes());
    }
    Ok(())
}

/// `prof.reset`: forgets all samples, and may set another rate.
pub fn reset(call: &Call) -> Answer {
    call.write_only()?;
    let lg = call.new_size()?;
    if profile::last_rate() == 0 {
        return Err(ENOENT);
    }
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

/// `prof.gdump`: always off.
pub fn gdump(call: &Call) -> Answer {
    if call.new_flag()? == Some(true) {
        return Err(ENOENT);
    }
    call.flag(false)
}

/// `prof.thread_active_init`: always on.
pub fn thread_active_init(call: &Call) -> Answer {
    if call.new_flag()? == Some(false) {
        return Err(ENOENT);
    }
    call.flag(true)
}

/// `thread.prof.active`: whether the calling thread is sampled.
pub fn thread_active(call: &Call) -> Answer {
    let new = call.new_flag()?;
    call.flag(!profile::is_muted())?;
    if new.is_some_and(|new| !profile::mute(!new)) { Err(EAGAIN) } else { Ok(()) }
}

/// At exit: writes the last dump, if requested and the prefix is not empty.
#[cold]
#[inline(never)]
pub fn at_exit() {
    let _ = with_prefix(|prefix| profile::write_numbered(prefix, b"f", None));
}

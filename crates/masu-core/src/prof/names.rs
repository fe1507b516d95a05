//! The names that a program gives its threads in profiles, by the kernel's numbers of the threads.
//!
//! A name stays when its thread ends, for the samples that the thread leaves behind. When there are more names than
//! room, the oldest go.

use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::sys::{host, output, thread};
use core::ffi::c_char;

/// Most names.
const NAMES: usize = 512;
/// Bytes of a name, of which the last is zero: as many as jemalloc's have, and the kernel's.
pub const BYTES: usize = 16;

/// A thread's name. Whoever reads it while another takes its place sees parts of both.
struct Name {
    /// The thread; 0 if there is none.
    thread: AtomicU32,
    /// Its bytes, in their order in memory.
    text: [AtomicU64; 2],
}

static ALL: [Name; NAMES] =
    [const { Name { thread: AtomicU32::new(0), text: [const { AtomicU64::new(0) }; 2] } }; NAMES];
/// Names given so far.
static GIVEN: AtomicUsize = AtomicUsize::new(0);

/// The kernel's number of the calling thread; 0, without a system call, if it is the only one.
pub(super) fn calling_thread() -> u32 {
    if host::is_single_threaded() { 0 } else { thread::id() }
}

/// What [`calling_thread`] has returned as the kernel has it: the only thread's number is its process's.
pub(super) fn number_of(thread: u32) -> u32 {
    if thread == 0 { output::process() } else { thread }
}

fn of(thread: u32) -> Option<&'static Name> {
    ALL.iter().find(|name| name.thread.load(Ordering::Acquire) == thread)
}

/// Names the calling thread; only the first 15 bytes count.
#[cold]
pub fn set_name(bytes: &[u8]) {
    let me = thread::id();
    let name = of(me).unwrap_or_else(|| {
        let next = GIVEN.fetch_add(1, Ordering::Relaxed);
        // The rest is less than the length.
        &ALL[next % NAMES]
    });
    let mut text = [0; BYTES];
    for (slot, &byte) in text.iter_mut().take(BYTES - 1).zip(bytes) {
        *slot = byte;
    }
    let text = u128::from_le_bytes(text);
    name.text[0].store((text as u64).to_le(), Ordering::Relaxed);
    name.text[1].store(((text >> 64) as u64).to_le(), Ordering::Relaxed);
    name.thread.store(me, Ordering::Release);
}

/// A thread's name, empty if it has none. It may change while it is read, but there is always a zero behind it.
#[cold]
pub fn name_of(thread: u32) -> *const c_char {
    of(thread).map_or(c"".as_ptr(), |name| name.text.as_ptr().cast())
}

/// The calling thread's name.
pub fn own_name() -> *const c_char {
    name_of(thread::id())
}

/// A copy of a thread's name.
pub(super) fn copy_of(thread: u32) -> [u8; BYTES] {
    let word = |word: &AtomicU64| u128::from(u64::from_le(word.load(Ordering::Relaxed)));
    of(thread).map_or(0, |name| word(&name.text[0]) | word(&name.text[1]) << 64).to_le_bytes()
}

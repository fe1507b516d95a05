//! The kernel: futex words on which threads really sleep, so that a lost wake-up is a deadlock,
//! which the checker sees.

/// Why the kernel refuses a call, which it never does here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno;

impl Errno {
    /// Something else is mapped there.
    pub const EEXIST: Errno = Errno;
}

/// Sleep while a word has a value, wake sleepers.
pub mod futex {
    use crate::models::world::process;
    use crate::sync::{AtomicU32, Ordering};
    use loom::sync::{Condvar, Mutex};
    use std::collections::HashMap;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::Arc;

    loom::lazy_static! {
        /// The kernel's table of sleepers, by the word's address.
        static ref SLEEPERS: Mutex<HashMap<usize, Arc<Condvar>>> = Mutex::new(HashMap::new());
    }

    fn key(word: &AtomicU32) -> usize {
        core::ptr::from_ref(word) as usize
    }

    /// Sleeps while the word is `expected`.
    pub fn wait(word: &AtomicU32, expected: u32) {
        assert!(!process::is_child(), "the child waits for a thread that does not exist in it");
        let mut sleepers = SLEEPERS.lock().unwrap();
        // A thread that a fork left behind ends here, and must not hold the table then.
        let sleeps = || word.load(Ordering::Acquire) == expected;
        match catch_unwind(AssertUnwindSafe(sleeps)) {
            Ok(true) => {
                let queue =
                    sleepers.entry(key(word)).or_insert_with(|| Arc::new(Condvar::new())).clone();
                drop(queue.wait(sleepers).unwrap());
                process::passed(());
            }
            Ok(false) => {}
            Err(frozen) => {
                drop(sleepers);
                resume_unwind(frozen);
            }
        }
    }

    /// Wakes all sleepers of all words.
    pub fn wake_all() {
        SLEEPERS.lock().unwrap().values().for_each(|queue| queue.notify_all());
    }

    /// Wakes one sleeper of the word, or all. In a fork's child none exists.
    pub fn wake(word: &AtomicU32, sleepers: usize) {
        if process::is_child() {
            return;
        }
        if let Some(queue) = SLEEPERS.lock().unwrap().get(&key(word)) {
            match sleepers {
                1 => queue.notify_one(),
                _ => queue.notify_all(),
            }
        }
    }
}

/// What the kernel passed to the process at its start.
pub mod auxv {
    /// The usual page size.
    pub fn page_size() -> usize {
        4096
    }
}

/// Barriers.
pub mod barrier {
    /// The handshake has fences instead.
    pub fn all_threads() -> bool {
        true
    }
}

/// Processors.
pub mod cpu {
    use super::thread;
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeMap;

    std::thread_local! {
        static COUNT: Cell<u32> = const { Cell::new(1) };
        /// Where threads run that do not run on the first processor.
        static ELSEWHERE: RefCell<BTreeMap<usize, usize>> = const { RefCell::new(BTreeMap::new()) };
    }

    /// The number of processors.
    pub fn count() -> u32 {
        COUNT.get()
    }

    /// The processor on which the calling thread runs.
    pub fn number() -> Option<usize> {
        Some(ELSEWHERE.with_borrow(|map| map.get(&thread::pointer()).copied().unwrap_or(0)))
    }

    /// Moves the calling thread there.
    #[cfg(test)]
    pub fn run_on(number: usize) {
        ELSEWHERE.with_borrow_mut(|map| map.insert(thread::pointer(), number));
    }

    /// There is one node.
    pub fn node() -> usize {
        0
    }

    /// Sets that number; with none, the process is oversubscribed.
    #[cfg(test)]
    pub fn set_count(n: u32) {
        COUNT.set(n);
    }
}

/// Threads.
pub mod thread {
    use std::hash::{DefaultHasher, Hash, Hasher};

    /// A number that no other thread has.
    pub fn pointer() -> usize {
        let mut hasher = DefaultHasher::new();
        loom::thread::current().id().hash(&mut hasher);
        hasher.finish() as usize | 1
    }

    /// The same, as the kernel's id.
    pub fn id() -> u32 {
        pointer() as u32
    }
}

/// The C library.
pub mod host {
    use core::ffi::c_void;

    /// There is only one key.
    pub fn key_create(_: unsafe extern "C" fn(*mut c_void)) -> Option<u32> {
        Some(0)
    }

    /// Destructors run once.
    pub fn key_set(_: u32, _: *mut c_void) -> bool {
        false
    }

    /// Copies bytes from one block to another.
    ///
    /// # Safety
    /// As for the production function.
    pub unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: passed on.
        unsafe { core::ptr::copy(from, to, bytes) };
    }
}

/// Memory mappings.
pub mod mem {
    use crate::region;
    use std::cell::Cell;

    std::thread_local! {
        static REFUSED: Cell<bool> = const { Cell::new(false) };
    }

    /// Makes the kernel refuse to discard anything, or ends that.
    #[cfg(test)]
    pub fn refuse(refuse: bool) {
        REFUSED.set(refuse);
    }

    /// Never called.
    ///
    /// # Safety
    /// None is needed.
    pub unsafe fn map_over(_: usize, _: usize) -> Result<(), ()> {
        unreachable!()
    }

    /// Never called.
    pub fn forbid_huge(_: usize, _: usize) {
        unreachable!()
    }

    /// The memory is always there.
    pub fn populate(_: usize, _: usize) {}

    /// Makes the memory read as zeroes; no live block may be in it.
    ///
    /// # Safety
    /// The range must be part of the world's spans.
    pub unsafe fn discard(at: usize, len: usize) -> bool {
        assert_eq!(region::live_blocks(at..at + len), 0, "live blocks are discarded");
        if REFUSED.get() {
            return false;
        }
        // SAFETY: as the caller says.
        unsafe { (at as *mut u8).write_bytes(0, len) };
        true
    }

    /// A range of pages.
    #[derive(Clone, Copy)]
    pub struct Pages {
        pub at: usize,
        pub len: usize,
    }

    /// Never called.
    ///
    /// # Safety
    /// None.
    pub unsafe fn discard_together(_: &[Pages]) -> Result<usize, super::Errno> {
        unreachable!()
    }

    /// The same, and zeroes a range that is refused.
    ///
    /// # Safety
    /// As above.
    pub unsafe fn empty(at: usize, len: usize) -> usize {
        // SAFETY: passed on.
        if unsafe { discard(at, len) } {
            return len;
        }
        // SAFETY: passed on.
        unsafe { (at as *mut u8).write_bytes(0, len) };
        0
    }
}

/// The process is not read from outside.
pub mod ptracer {
    pub fn allow_any() {}
}

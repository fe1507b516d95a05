//! The kernel: futex words that threads really sleep on, so that a lost wake-up is a deadlock, which
//! the checker sees.

/// Sleep while a word has a value, wake sleepers.
pub mod futex {
    use crate::sync::{AtomicU32, Ordering};
    use loom::sync::{Condvar, Mutex};
    use std::collections::HashMap;
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
        let mut sleepers = SLEEPERS.lock().unwrap();
        if word.load(Ordering::Acquire) == expected {
            let queue =
                sleepers.entry(key(word)).or_insert_with(|| Arc::new(Condvar::new())).clone();
            drop(queue.wait(sleepers).unwrap());
        }
    }

    /// Wakes one sleeper of the word.
    pub fn wake(word: &AtomicU32) {
        if let Some(queue) = SLEEPERS.lock().unwrap().get(&key(word)) {
            queue.notify_one();
        }
    }
}

/// What the kernel told the process at its start.
pub mod auxv {
    /// The usual page size.
    pub fn page_size() -> usize {
        4096
    }
}

/// Memory mappings.
pub mod mem {
    use crate::region;

    /// The memory is there.
    pub fn populate(_: usize, _: usize) {}

    /// The memory reads as zeroes afterwards; no live block may be in it.
    ///
    /// # Safety
    /// The range is part of the world's slabs.
    pub unsafe fn discard(at: usize, len: usize) -> bool {
        assert_eq!(region::live_blocks(at..at + len), 0, "live blocks are discarded");
        // SAFETY: as the caller says.
        unsafe { (at as *mut u8).write_bytes(0, len) };
        true
    }
}

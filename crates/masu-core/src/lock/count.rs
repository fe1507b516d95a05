//! How often a lock is taken, and by which threads: for experiments, under `--cfg masu_count_locks`. `masu-lab locks`
//! makes a table of it.
//!
//! ```sh
//! RUSTFLAGS='--cfg masu_count_locks' cargo build --release -p libmasu --target-dir target/counted
//! MASU_SHOW_STATS=1 LD_PRELOAD=$PWD/target/counted/release/libmasu.so program
//! ```
//!
//! The statistics then end with a line for each kind of lock.

use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::sys::thread;
use crate::text::{Text, decimal};

/// The counts of one lock.
pub struct Counts {
    /// Times that it was taken.
    taken: AtomicU64,
    /// Times by another thread than the last time.
    handed_over: AtomicU64,
    /// Times that it was not free; of a brief lock, each look at it.
    waited: AtomicU64,
    /// Times that a thread slept for it.
    slept: AtomicU64,
    /// The thread that had it last.
    last: AtomicUsize,
}

impl Counts {
    /// All zero.
    pub const fn new() -> Self {
        Counts {
            taken: AtomicU64::new(0),
            handed_over: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            slept: AtomicU64::new(0),
            last: AtomicUsize::new(0),
        }
    }

    /// Counts that the calling thread has taken it.
    pub fn take(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
        let own = thread::pointer();
        if self.last.swap(own, Ordering::Relaxed) != own {
            self.handed_over.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts that it was not free.
    pub fn wait(&self) {
        self.waited.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts that the calling thread goes to sleep.
    pub fn sleep(&self) {
        self.slept.fetch_add(1, Ordering::Relaxed);
    }
}

impl super::Lock {
    /// Its counts.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

impl super::brief::BriefLock {
    /// Its counts.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

/// Writes a line with the sums of some locks.
pub fn row<'a>(name: &str, counts: impl Iterator<Item = &'a Counts>, text: &mut Text) {
    let mut sums = [0; 4];
    for c in counts {
        for (sum, n) in sums.iter_mut().zip([&c.taken, &c.handed_over, &c.waited, &c.slept]) {
            *sum += n.load(Ordering::Relaxed);
        }
    }
    text.str("masu: lock ").str(name).tab(28);
    for (n, what) in sums.into_iter().zip([" taken", " handed over", " waited for", " slept for"]) {
        text.right(decimal(n).as_str(), 12).str(what);
    }
    text.line();
}

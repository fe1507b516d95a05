//! How the pages of a chunk came: one by one, or as one huge page.

// No protocol depends on it, so the model checker need not know of it.
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};

/// How the pages of a chunk came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Came {
    /// One by one.
    Small,
    /// As one huge page, of which nothing has gone back since.
    Whole,
    /// As one huge page, of which something has: the kernel has split it.
    Split,
}

/// Chunks whose huge page is split.
pub static SPLIT: AtomicUsize = AtomicUsize::new(0);

/// That of one chunk. Zero bytes are [`Came::Small`]. Needs no lock.
pub struct Pages(AtomicU8);

impl Pages {
    /// How they came.
    pub fn came(&self) -> Came {
        match self.0.load(Relaxed) {
            1 => Came::Whole,
            2 => Came::Split,
            _ => Came::Small,
        }
    }

    /// Notes how they came.
    #[cold]
    #[inline(never)]
    pub fn set(&self, came: Came) {
        let was_split = self.0.swap(came as u8, Relaxed) == Came::Split as u8;
        if was_split != (came == Came::Split) {
            SPLIT.fetch_add(if was_split { usize::MAX } else { 1 }, Relaxed);
        }
    }

    /// Notes that some of them go back.
    pub fn split(&self) {
        if self.came() == Came::Whole {
            self.set(Came::Split);
        }
    }
}

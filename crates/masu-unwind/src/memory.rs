//! Reading what may not be there.
//!
//! The page that the stack pointer is on is there. Each further page is asked for once a walk, and read
//! only then. Nobody else unmaps the stack of a thread that runs on it.

use crate::past::Seen;
use crate::sys;

/// No kernel here has smaller pages. On one with larger ones a page is asked for more than once.
const PAGE: usize = 4096;

/// The part of the stack that is known to be there.
pub struct Stack {
    first: usize,
    end: usize,
    /// What was read of it.
    pub seen: Seen,
}

impl Stack {
    /// The page of the stack pointer.
    pub fn at(sp: usize) -> Self {
        let first = sp & !(PAGE - 1);
        Stack { first, end: first + PAGE, seen: Seen::new() }
    }

    /// The word at an address, if it is one of the stack or of another place that can be read; it is noted.
    #[inline(never)]
    pub fn word(&mut self, address: usize) -> Option<usize> {
        let word = self.read(address)?;
        self.seen.note(address, word);
        Some(word)
    }

    /// The same, and it is not noted.
    #[inline]
    pub fn read(&mut self, address: usize) -> Option<usize> {
        if !address.is_multiple_of(8) || !self.has(address) && !self.reach(address) {
            return None;
        }
        // SAFETY: on a page that can be read, and a multiple of eight: it lies on that page wholly.
        Some(unsafe { (address as *const usize).read_volatile() })
    }

    #[inline(always)]
    fn has(&self, address: usize) -> bool {
        address.wrapping_sub(self.first) < self.end - self.first
    }

    /// Whether another address can be read.
    #[cold]
    fn reach(&mut self, address: usize) -> bool {
        let is_there = sys::can_be_read(address);
        if is_there && address & !(PAGE - 1) == self.end {
            self.end += PAGE;
        }
        is_there
    }
}

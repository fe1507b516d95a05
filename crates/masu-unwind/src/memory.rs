//! Reads memory that may be unmapped.
//!
//! The page of the stack pointer is mapped. Each further page is checked once per walk before it is
//! read. No other thread unmaps the stack of a running thread.

use crate::past::Seen;
use crate::sys;

/// No supported kernel has smaller pages. With larger ones a page is checked more than once.
pub const PAGE: usize = 4096;

/// The part of the stack that is known to be readable.
pub struct Stack {
    first: usize,
    end: usize,
    /// The words read so far.
    pub seen: Seen,
}

impl Stack {
    /// Begins with the page of the stack pointer.
    pub fn at(sp: usize) -> Self {
        let first = sp & !(PAGE - 1);
        Stack { first, end: first + PAGE, seen: Seen::new() }
    }

    /// Returns the word at an address, if it is on the stack or elsewhere in readable memory, and notes it.
    #[inline(never)]
    pub fn word(&mut self, address: usize) -> Option<usize> {
        let word = self.read(address)?;
        self.seen.note(address, word);
        Some(word)
    }

    /// The same without noting it.
    #[inline]
    pub fn read(&mut self, address: usize) -> Option<usize> {
        if !address.is_multiple_of(8) || !self.has(address) && !self.reach(address) {
            return None;
        }
        // SAFETY: on a readable page and at a multiple of eight, so wholly on that page.
        Some(unsafe { (address as *const usize).read_volatile() })
    }

    /// Whether the stack of which `sp` is the end in use surely goes on up to another address. A C library puts a thread's
    /// own words at the upper end of its stack; what lies behind them may be another thread's, which may unmap it at any
    /// moment.
    #[cold]
    pub fn goes_on(&mut self, sp: usize, to: usize) -> bool {
        let end = sys::thread_pointer();
        let is_beyond = sp < end && end <= to;
        let mut pages = (sp & !(PAGE - 1)..=to).step_by(PAGE);
        !is_beyond && pages.all(|page| self.has(page) || self.reach(page))
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

//! Reads memory that may be unmapped.
//!
//! The page of the stack pointer is mapped, and on the first stack so is all that lies above it. Each further page is
//! checked once per walk before it is read. No other thread unmaps the stack of a running thread.

use crate::sys;

/// No supported kernel has smaller pages. With larger ones a page is checked more than once.
pub const PAGE: usize = 4096;

/// So near to the top of the first stack there is nothing else: by default the kernel leaves 128 MiB to it.
const FIRST_STACK: usize = 8 << 20;

/// The part of the stack that is known to be readable.
pub struct Stack {
    first: usize,
    length: usize,
}

impl Stack {
    /// Begins with the page of the stack pointer.
    pub fn at(sp: usize) -> Self {
        let first = sp & !(PAGE - 1);
        let top = sys::first_stack();
        let known = if sp < top && top - sp < FIRST_STACK { top & !(PAGE - 1) } else { first };
        Stack { first, length: known + PAGE - first }
    }

    /// Returns the word at an address, if it is on the stack or elsewhere in readable memory.
    #[inline(never)]
    pub fn word(&mut self, address: usize) -> Option<usize> {
        self.read(address)
    }

    /// The same in line.
    #[inline(always)]
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
        address.wrapping_sub(self.first) < self.length
    }

    /// Whether another address can be read.
    #[cold]
    #[inline(never)]
    fn reach(&mut self, address: usize) -> bool {
        let is_there = sys::can_be_read(address);
        if is_there && address & !(PAGE - 1) == self.first + self.length {
            self.length += PAGE;
        }
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So nothing that lies between a stack pointer and the top is unmapped.
    #[test]
    fn nothing_else_lies_on_the_first_stack() {
        let top = sys::first_stack();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let range = |line: &str| {
            let (start, end) = line.split(' ').next()?.split_once('-')?;
            let number = |text| usize::from_str_radix(text, 16).ok();
            Some((number(start)?, number(end)?))
        };
        let all: Vec<_> = maps.lines().filter_map(range).collect();
        let (start, _) = *all.iter().find(|&&(start, end)| start <= top && top < end).unwrap();
        let far = top - FIRST_STACK;
        assert!(
            start > far && all.iter().all(|&(from, end)| end <= far || from >= start),
            "{maps}"
        );
    }
}

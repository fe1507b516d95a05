//! An intrusive, doubly linked list of slabs by number, with its length.
//!
//! Invariant: the list is a ring through `prev` (the first slab's `prev` is the last one) that
//! ends through `next` (the last one's `next` is `NIL`). Whoever owns the list owns the links of
//! its slabs.

use super::record::record;
use crate::region::NIL;

/// The list's head.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct List {
    head: u32,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        Self::new()
    }
}

impl List {
    /// An empty list.
    pub const fn new() -> Self {
        List { head: NIL, len: 0 }
    }

    /// Number of slabs.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// The first slab.
    #[inline]
    pub fn front(&self) -> Option<u32> {
        (self.head != NIL).then_some(self.head)
    }

    /// The last slab.
    #[inline]
    pub fn back(&self) -> Option<u32> {
        // SAFETY: a non-empty list's head is a slab of the list, whose links we own.
        self.front().map(|head| unsafe { (*record(head)).prev })
    }

    /// The slab after `slab`, which is in the list.
    ///
    /// # Safety
    /// `slab` is in this list, and the caller owns the list.
    #[inline]
    pub unsafe fn after(&self, slab: u32) -> Option<u32> {
        // SAFETY: passed on.
        let next = unsafe { (*record(slab)).next };
        (next != NIL).then_some(next)
    }

    /// Puts a slab first.
    ///
    /// # Safety
    /// The caller owns the list and the slab, which is in no list.
    pub unsafe fn push_front(&mut self, slab: u32) {
        let s = record(slab);
        // SAFETY: the links of `slab` and of the list's members are the caller's.
        unsafe {
            (*s).next = self.head;
            (*s).prev = match self.front() {
                None => slab,
                Some(first) => core::mem::replace(&mut (*record(first)).prev, slab),
            };
        }
        self.head = slab;
        self.len += 1;
    }

    /// Puts a slab last.
    ///
    /// # Safety
    /// The caller owns the list and the slab, which is in no list.
    pub unsafe fn push_back(&mut self, slab: u32) {
        let s = record(slab);
        // SAFETY: the links of `slab` and of the list's members are the caller's.
        unsafe {
            (*s).next = NIL;
            match self.front() {
                None => {
                    (*s).prev = slab;
                    self.head = slab;
                }
                Some(first) => {
                    let last = (*record(first)).prev;
                    (*record(last)).next = slab;
                    (*s).prev = last;
                    (*record(first)).prev = slab;
                }
            }
        }
        self.len += 1;
    }

    /// Takes a slab out.
    ///
    /// # Safety
    /// The caller owns the list, and `slab` is in it.
    pub unsafe fn remove(&mut self, slab: u32) {
        let s = record(slab);
        // SAFETY: the links of all members are the caller's.
        unsafe {
            let (next, prev) = ((*s).next, (*s).prev);
            if self.head == slab {
                self.head = next;
            } else {
                (*record(prev)).next = next;
            }
            if next != NIL {
                (*record(next)).prev = prev;
            } else if self.head != NIL {
                // It was the last: the head's `prev` names the last one.
                (*record(self.head)).prev = prev;
            }
            (*s).next = NIL;
            (*s).prev = NIL;
        }
        self.len -= 1;
    }

    /// Takes the first slab out.
    ///
    /// # Safety
    /// The caller owns the list.
    pub unsafe fn pop_front(&mut self) -> Option<u32> {
        let slab = self.front()?;
        // SAFETY: it is in the list.
        unsafe { self.remove(slab) };
        Some(slab)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

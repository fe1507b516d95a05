//! An intrusive, doubly linked list of spans by number, with its length.
//!
//! Invariants:
//! 1. the list is a ring through `prev` (the first span's `prev` is the last one) that ends through `next`
//!    (the last one's `next` is `NIL`).
//! 2. the owner of the list owns the links of its spans.

use super::record::record;
use crate::region::NIL;
use core::cell::Cell;

/// The list's head. Cells, so that the list's owner may change it through a shared reference.
#[repr(C)]
pub struct List {
    head: Cell<u32>,
    len: Cell<u32>,
}

impl Default for List {
    fn default() -> Self {
        Self::new()
    }
}

impl List {
    /// An empty list.
    pub const fn new() -> Self {
        List { head: Cell::new(NIL), len: Cell::new(0) }
    }

    /// Forgets its spans; their links then mean nothing.
    pub fn clear(&self) {
        self.head.set(NIL);
        self.len.set(0);
    }

    /// Number of spans.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len.get()
    }

    /// The first span.
    #[inline]
    pub fn front(&self) -> Option<u32> {
        let head = self.head.get();
        (head != NIL).then_some(head)
    }

    /// The last span.
    #[inline]
    pub fn back(&self) -> Option<u32> {
        // SAFETY: invariants 1 and 2: a non-empty list's head is one of its spans.
        self.front().map(|head| unsafe { (*record(head)).prev })
    }

    /// The span after `span`, which is in the list.
    ///
    /// # Safety
    /// `span` must be in this list, and the caller must own the list.
    #[inline]
    pub unsafe fn after(&self, span: u32) -> Option<u32> {
        // SAFETY: passed on.
        let next = unsafe { (*record(span)).next };
        (next != NIL).then_some(next)
    }

    /// Puts a span first.
    ///
    /// # Safety
    /// The caller must own the list and the span, which must be in no list.
    pub unsafe fn push_front(&self, span: u32) {
        let s = record(span);
        // SAFETY: invariant 2; the links of `span`, which is in no list, are the caller's too.
        unsafe {
            (*s).next = self.head.get();
            (*s).prev = match self.front() {
                None => span,
                Some(first) => core::mem::replace(&mut (*record(first)).prev, span),
            };
        }
        self.head.set(span);
        self.len.set(self.len.get() + 1);
    }

    /// Puts a span last.
    ///
    /// # Safety
    /// The caller must own the list and the span, which must be in no list.
    pub unsafe fn push_back(&self, span: u32) {
        let s = record(span);
        // SAFETY: invariant 2; the links of `span`, which is in no list, are the caller's too.
        unsafe {
            (*s).next = NIL;
            match self.front() {
                None => {
                    (*s).prev = span;
                    self.head.set(span);
                }
                Some(first) => {
                    let last = (*record(first)).prev;
                    (*record(last)).next = span;
                    (*s).prev = last;
                    (*record(first)).prev = span;
                }
            }
        }
        self.len.set(self.len.get() + 1);
    }

    /// Takes a span out.
    ///
    /// # Safety
    /// The caller must own the list, and `span` must be in it.
    pub unsafe fn remove(&self, span: u32) {
        let s = record(span);
        // SAFETY: invariant 2.
        unsafe {
            let (next, prev) = ((*s).next, (*s).prev);
            if self.head.get() == span {
                self.head.set(next);
            } else {
                (*record(prev)).next = next;
            }
            if next != NIL {
                (*record(next)).prev = prev;
            } else if self.head.get() != NIL {
                // It was the last: the head's `prev` names the last one.
                (*record(self.head.get())).prev = prev;
            }
            (*s).next = NIL;
            (*s).prev = NIL;
        }
        self.len.set(self.len.get() - 1);
    }

    /// Takes the first span out.
    ///
    /// # Safety
    /// The caller must own the list.
    pub unsafe fn pop_front(&self) -> Option<u32> {
        let span = self.front()?;
        // SAFETY: invariant 1: it is in the list.
        unsafe { self.remove(span) };
        Some(span)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

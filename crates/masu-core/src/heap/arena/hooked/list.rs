//! Lists of chunks. Each list has links of its own in a chunk, so a chunk may be in several lists at a time, but by
//! the same links in one at most. What else a chunk has does not matter here: `T` is its type.

use crate::lock::change;
use crate::sync::{AtomicUsize, Ordering};
use core::cell::Cell;
use core::mem::offset_of;

/// A place in a list.
pub struct Links<T: 'static> {
    next: Cell<Option<&'static T>>,
    prev: Cell<Option<&'static T>>,
    listed: Cell<bool>,
}

/// A list of chunks through one of their [`Links`].
pub struct List<T: 'static> {
    front: Cell<Option<&'static T>>,
    back: Cell<Option<&'static T>>,
    /// Read outside the gate too.
    len: AtomicUsize,
    links: fn(&T) -> &Links<T>,
}

impl<T> Links<T> {
    /// Where the next member is, for `outside`.
    pub const NEXT: usize = offset_of!(Self, next);
}

impl<T> List<T> {
    /// Where the first member is, for `outside`.
    pub const FRONT: usize = offset_of!(Self, front);

    /// An empty list.
    pub const fn new(links: fn(&T) -> &Links<T>) -> Self {
        List { front: Cell::new(None), back: Cell::new(None), len: AtomicUsize::new(0), links }
    }

    /// The first member.
    pub fn front(&self) -> Option<&'static T> {
        self.front.get()
    }

    /// The member behind another.
    pub fn next(&self, chunk: &T) -> Option<&'static T> {
        (self.links)(chunk).next.get()
    }

    /// The number of members at this moment.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Puts a chunk at the end, if it is in no list by these links.
    pub fn push_back(&self, chunk: &'static T) {
        self.insert(chunk, self.back.get(), None);
    }

    /// Puts a chunk at the front, if it is in no list by these links.
    pub fn push_front(&self, chunk: &'static T) {
        self.insert(chunk, None, self.front.get());
    }

    /// Puts a chunk between two neighbours, or at an end.
    #[cold]
    #[inline(never)]
    fn insert(&self, chunk: &'static T, prev: Option<&'static T>, next: Option<&'static T>) {
        if (self.links)(chunk).listed.replace(true) {
            return;
        }
        self.join(prev, Some(chunk));
        self.join(Some(chunk), next);
        change(&self.len, 1);
    }

    /// Makes two members neighbours; `None` is the list's end.
    fn join(&self, prev: Option<&'static T>, next: Option<&'static T>) {
        match prev {
            Some(prev) => (self.links)(prev).next.set(next),
            None => self.front.set(next),
        }
        match next {
            Some(next) => (self.links)(next).prev.set(prev),
            None => self.back.set(prev),
        }
    }

    /// Takes a member out; does nothing to one that is in no list by these links.
    #[cold]
    #[inline(never)]
    pub fn remove(&self, chunk: &T) {
        let links = (self.links)(chunk);
        if !links.listed.replace(false) {
            return;
        }
        self.join(links.prev.take(), links.next.take());
        change(&self.len, 1usize.wrapping_neg());
    }
}

//! An array of slots that many threads share and that grows without moving.
//!
//! Page 0 has [`FIRST`] slots; page `i > 0` has as many as all before it. A page's address is
//! published by a compare-and-swap (release) and found by an acquire load; pages are freed only with the array.
//! `claim` hands each index out once. No lock is held while a page is allocated: a soft limit's callback, which then runs,
//! may use the same array.
//!
//! Invariants:
//!
//! 1. A page that is published was allocated with the layout of its number, all of its slots are valid,
//!    and it is neither replaced nor freed before the array is.
//! 2. When `claim` returns an index, its page is published.

use super::memory;
use super::sync::{AtomicPtr, AtomicU32, Ordering};
use alloc::alloc::Layout;
use core::ptr::{NonNull, null_mut};

/// Slots of the first page.
const FIRST: u32 = if cfg!(loom) { 1 } else { 32 };
const PAGES: usize = if cfg!(loom) { 3 } else { 25 };
/// Indices end here, at about five hundred million.
const END: u32 = FIRST << (PAGES - 1);

/// The contents of a slot.
///
/// # Safety
/// Zeroed memory must be a valid slot, equal to the default one. (The model checker's atomics
/// cannot be made that way, and are made one by one.)
pub(crate) unsafe trait Slot: Default {}

pub(crate) struct SharedPages<S> {
    pages: [AtomicPtr<S>; PAGES],
    /// The lowest index that was never handed out.
    fresh: AtomicU32,
}

impl<S: Slot> SharedPages<S> {
    pub fn new() -> Self {
        SharedPages {
            pages: core::array::from_fn(|_| AtomicPtr::new(null_mut())),
            fresh: AtomicU32::new(0),
        }
    }

    /// Returns the page of an index, and its place on the page.
    #[inline]
    fn place(index: u32) -> (usize, usize) {
        if index < FIRST {
            return (0, index as usize);
        }
        let page = (index / FIRST).ilog2() + 1;
        (page as usize, (index - (FIRST << (page - 1))) as usize)
    }

    /// Returns the slot of an index, or `None` if the index was never handed out.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&S> {
        let (page, place) = Self::place(index);
        let slots = self.pages.get(page)?.load(Ordering::Acquire);
        // SAFETY: invariant 1: a published page has that place, and stays as long as the array, which is borrowed.
        (!slots.is_null()).then(|| unsafe { &*slots.add(place) })
    }

    /// Returns the slot of an index that was handed out.
    ///
    /// # Safety
    /// `index` must come from [`SharedPages::claim`].
    #[inline]
    pub unsafe fn get_unchecked(&self, index: u32) -> &S {
        // SAFETY: as the caller says, claimed; invariant 2: then its page is published.
        unsafe { self.get(index).unwrap_unchecked() }
    }

    /// Returns an index that was never handed out, with its slot.
    pub fn claim(&self) -> (u32, &S) {
        let more = |fresh| (fresh < END).then(|| fresh + 1);
        let Ok(index) = self.fresh.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) else {
            panic!("capacity overflow")
        };
        let (page, _) = Self::place(index);
        if self.pages[page].load(Ordering::Acquire).is_null() {
            self.grow(page);
        }
        // SAFETY: invariant 2: just claimed, and its page is published.
        (index, unsafe { self.get_unchecked(index) })
    }

    #[cold]
    #[inline(never)]
    fn grow(&self, page: usize) {
        let slots = memory::allocate_zeroed(Self::layout(page)).cast::<S>();
        if cfg!(loom) {
            for place in 0..Self::slots_of(page) {
                // SAFETY: invariant 1: the page is as long as its layout, so it has that place.
                unsafe { slots.add(place).write(S::default()) }
            }
        }
        let (success, failure) = (Ordering::Release, Ordering::Relaxed);
        let published =
            self.pages[page].compare_exchange(null_mut(), slots.as_ptr(), success, failure);
        if published.is_err() {
            // Another thread was faster.
            // SAFETY: invariant 1: not published, so no other thread knows the page just made.
            unsafe { Self::free(page, slots) }
        }
    }

    /// Returns the number of indices handed out.
    pub fn claimed(&self) -> u32 {
        self.fresh.load(Ordering::Relaxed)
    }
}

impl<S> SharedPages<S> {
    const fn slots_of(page: usize) -> usize {
        (FIRST << page.saturating_sub(1)) as usize
    }

    fn layout(page: usize) -> Layout {
        match Layout::array::<S>(Self::slots_of(page)) {
            Ok(layout) => layout,
            Err(_) => panic!("capacity overflow"),
        }
    }

    /// # Safety
    /// `slots` must be that page, made by [`grow`](Self::grow) and not used any more.
    unsafe fn free(page: usize, slots: NonNull<S>) {
        if cfg!(loom) {
            for place in 0..Self::slots_of(page) {
                // SAFETY: as the caller says, a page made by `grow`; invariant 1: its slots are valid.
                unsafe { slots.add(place).drop_in_place() }
            }
        }
        // SAFETY: as the caller says, a page made by `grow`, with this layout.
        unsafe { memory::release(slots.cast(), || Self::layout(page)) }
    }
}

impl<S> Drop for SharedPages<S> {
    /// Frees the memory; the owner must first drop the slots' contents.
    fn drop(&mut self) {
        for (page, slots) in self.pages.iter().enumerate() {
            if let Some(slots) = NonNull::new(slots.load(Ordering::Relaxed)) {
                // SAFETY: invariant 1: published once, and forgotten with the array.
                unsafe { Self::free(page, slots) }
            }
        }
    }
}

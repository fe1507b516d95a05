//! The space under its lock: ranges of a length that is wanted, from free ones or by growth.

use super::map::{JUDGED, provide};
use super::ranges::Ranges;
use super::record::record;
use super::window::{UNIT_BYTES, Window};
use crate::lock::{Guard, Lock};
use crate::region::LOCK;
use crate::sys::mem;
use core::cell::UnsafeCell;
use core::ops::Deref;

struct State(UnsafeCell<Ranges>);

// SAFETY: invariant 5 of `space`.
unsafe impl Sync for State {}

static RANGES: State = State(UnsafeCell::new(Ranges::new()));

/// The space and its free ranges, whose lock the holder of this has.
pub struct Locked {
    _guard: Guard<'static>,
}

impl Locked {
    /// For a thread that holds an outer lock.
    pub fn lock() -> Self {
        Locked { _guard: LOCK.lock() }
    }

    /// `None` if a fork stands still.
    pub fn enter() -> Option<Self> {
        LOCK.enter().map(|guard| Locked { _guard: guard })
    }

    /// A clean range of `n` units that starts at a multiple of `align` units, marked live. The program has
    /// `had` of them elsewhere, which the range is about to replace.
    pub fn take_fresh(&self, n: usize, align: usize, had: usize) -> Option<u32> {
        let asked = n.saturating_sub(had);
        if let Some(unit) = self.take_clean(Window::Blocks, n, align) {
            if provide(unit, n, asked) {
                return Some(unit);
            }
            self.give(unit);
        }
        // Free units at the end count; alignment may need some units more. Addresses are aligned
        // like unit numbers only up to the window's own alignment, so look at the worst case.
        self.grow(Window::Blocks, n + align - 1, asked)?;
        let unit = self.take_clean(Window::Blocks, n, align)?;
        // It is bare if the free range before it was.
        if !record(unit).bare.get() || provide(unit, n, asked) {
            return Some(unit);
        }
        self.give(unit);
        None
    }

    /// Adds at least `n` units to a window, as [`Window::grow`], and to its lists.
    #[inline(never)]
    pub(super) fn grow(&self, window: Window, n: usize, asked: usize) -> Option<()> {
        let fresh = window.grow(n, asked)?;
        self.insert_clean(fresh, record(fresh).units.get());
        Some(())
    }

    /// A kept range that is `n` units long together with the free units behind it, marked live: its pages
    /// serve where they are.
    pub fn take_extended(&self, n: usize, align: usize) -> Option<u32> {
        if n >= JUDGED && !mem::judge(n * UNIT_BYTES) {
            return None;
        }
        let unit = self.take_to_extend(n, align, Window::Blocks.end())?;
        if self.extend(unit, n) {
            return Some(unit);
        }
        self.give(unit);
        None
    }

    /// Makes the live range at `unit` `n` units long by taking free units behind it.
    pub fn extend(&self, unit: u32, n: usize) -> bool {
        let had = record(unit).units.get();
        if self.absorb(unit, n) {
            return true;
        }
        // At the end of the window it can be made longer.
        let end = unit as usize + record(unit).units.get() + self.free_behind(unit);
        end == Window::Blocks.end()
            && self.grow(Window::Blocks, n - had, n - had).is_some()
            && self.absorb(unit, n)
    }
}

impl Deref for Locked {
    type Target = Ranges;

    fn deref(&self) -> &Ranges {
        // SAFETY: invariant 5 of `space`; `Ranges` is made of cells.
        unsafe { &*RANGES.0.get() }
    }
}

/// The lock, for fork.
pub fn lock_for_fork() -> &'static Lock {
    &LOCK
}

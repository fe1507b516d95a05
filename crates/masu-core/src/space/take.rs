//! Ranges that are taken: fresh ones, kept ones that become longer, and live ones that do.

use super::map::{self, JUDGED};
use super::{Locked, UNIT_BYTES, Window, record};
use crate::sys::mem;

impl Locked {
    /// A clean range of `n` units that starts at a multiple of `align` units, marked live. The program has
    /// `had` of them elsewhere, which the range is about to replace.
    pub fn take_fresh(&self, n: usize, align: usize, had: usize) -> Option<u32> {
        let asked = n.saturating_sub(had);
        if let Some(unit) = self.take_clean(Window::Blocks, n, align) {
            if map::provide(unit, n, asked) {
                return Some(unit);
            }
            self.give(unit);
        }
        // What is free at the end counts; alignment may need some units more. Addresses are aligned
        // like unit numbers only up to the window's own alignment, so look at the worst case.
        self.grow(Window::Blocks, n + align - 1, asked)?;
        let unit = self.take_clean(Window::Blocks, n, align)?;
        // It is bare if what is free before it was.
        if !record(unit).bare.get() || map::provide(unit, n, asked) {
            return Some(unit);
        }
        self.give(unit);
        None
    }

    /// Has a window have at least `n` more units, as [`Window::grow`], in its lists.
    pub(super) fn grow(&self, window: Window, n: usize, asked: usize) -> Option<()> {
        let fresh = window.grow(n, asked)?;
        self.insert_clean(fresh, record(fresh).units.get());
        Some(())
    }

    /// A kept range that is `n` units long with what lies free behind it, marked live: its pages serve where
    /// they are.
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

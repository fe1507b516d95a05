//! The windows' mappings: how they grow, which ranges are bare, and chunks that are mapped granule by
//! granule.

use super::record::{FIRST, record};
use super::window::{UNIT_BYTES, Window, address};
use crate::region::{
    self, CHUNK, FIRST_STEP, GRANULE, MAX_SKIP, MAX_STEP, Table, UNIT_STRIDE, UNITS_BELOW,
};
use crate::sync::{AtomicUsize, Ordering};
use crate::sys::{Errno, mem};
use crate::tuning;

/// The records of each window's units.
static RECORDS: [Table; 2] = [const { Table::new(UNITS_BELOW, UNIT_STRIDE) }; 2];
/// Bytes that are mapped in each.
pub static MAPPED: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Most units of blocks mapped ahead: 1 GiB of address space.
const MOST_AHEAD: usize = 512;

impl Window {
    /// Bytes mapped.
    fn mapped(self) -> &'static AtomicUsize {
        &MAPPED[self as usize]
    }

    /// Where the window must end.
    fn most(self) -> usize {
        match self {
            Window::Chunks => region::first_block(),
            Window::Blocks => region::first_block() + region::most_block_units(),
        }
    }

    /// Units to map at least, so that it grows in few steps.
    fn ahead(self) -> usize {
        let eighth = (self.end() - self.first()) / 8;
        match self {
            Window::Chunks => eighth.clamp(FIRST_STEP / CHUNK, MAX_STEP / CHUNK),
            Window::Blocks => eighth.min(MOST_AHEAD),
        }
    }

    /// Makes the window, and its tables, reach to the end of a range that begins at or behind its
    /// end.
    #[inline(never)]
    fn reach(self, unit: usize, n: usize, bare: bool) -> Result<u32, Errno> {
        let (first, end) = (self.first(), unit + n);
        if self == Window::Chunks {
            region::ensure_tables(end)?;
        }
        if end > FIRST {
            RECORDS[self as usize].ensure(region::base() + first * UNIT_STRIDE, end - first)?;
        }
        self.set_end(end);
        let r = record(unit as u32);
        r.dirty.set(0);
        r.bare.set(bare);
        r.units.set(n);
        Ok(unit as u32)
    }

    /// Maps `n` units at its end, or behind what other code has there.
    #[inline(never)]
    fn map_behind(self, n: usize, asked: usize) -> Result<u32, Errno> {
        let (mut at, mut skip) = (self.end(), 1);
        while at + n <= self.most() {
            match map_units(at as u32, n, asked) {
                Ok(()) => {
                    return self.reach(at, n, false).inspect_err(|_| {
                        unmap_units(at as u32, n);
                    });
                }
                // Further each time.
                Err(Errno::EEXIST) => {
                    at += skip;
                    skip = (skip * 2).min(MAX_SKIP / UNIT_BYTES);
                }
                Err(e) => return Err(e),
            }
        }
        Err(Errno::ENOMEM)
    }

    /// Adds at least `n` units in a row to the window, `asked` of which are more than the program has, and
    /// more if that costs little address space. They are in no list; if addresses are scarce, a chunk is
    /// bare.
    pub fn grow(self, n: usize, asked: usize) -> Option<u32> {
        region::place().ok()?;
        if self == Window::Chunks {
            let first = region::first_mapped();
            if self.end() == 0 && first != 0 {
                self.mapped().store(first, Ordering::Relaxed);
                return self.reach(0, first / UNIT_BYTES, false).ok();
            }
            if region::is_scarce() {
                return self.grow_bare();
            }
        }
        [n.max(self.ahead()), n]
            .into_iter()
            .find_map(|n| self.map_behind(n, asked).ok())
            .or_else(|| if self == Window::Chunks { self.grow_bare() } else { None })
    }

    /// Adds a chunk, but not its memory.
    fn grow_bare(self) -> Option<u32> {
        region::set_scarce();
        let end = self.end();
        if end < self.most() { self.reach(end, 1, true).ok() } else { None }
    }
}

/// Units requested at once from which on the kernel decides whether the program may have them.
pub const JUDGED: usize = if cfg!(test) { 6 } else { tuning::JUDGED / UNIT_BYTES };

/// Maps `n` units, the last `asked` of which the kernel judges if they are many.
fn map_units(unit: u32, n: usize, asked: usize) -> Result<(), Errno> {
    let (at, len) = (address(unit), n * UNIT_BYTES);
    let had = if asked < JUDGED { len } else { (n - asked) * UNIT_BYTES };
    if had != len {
        mem::map_judged_at(at + had, len - had)?;
    }
    if had != 0 {
        mem::map_at(at, had).inspect_err(|_| {
            if had != len {
                mem::unmap(at + had, len - had);
            }
        })?;
    }
    let window = Window::of(unit);
    if window == Window::Chunks {
        mem::forbid_huge(at, len);
    }
    window.mapped().fetch_add(len, Ordering::Relaxed);
    Ok(())
}

/// Unmaps `n` unused units. Returns `false` if the kernel refused and they stay mapped.
#[inline(never)]
fn unmap_units(unit: u32, n: usize) -> bool {
    let done = mem::try_unmap(address(unit), n * UNIT_BYTES);
    if done {
        Window::of(unit).mapped().fetch_sub(n * UNIT_BYTES, Ordering::Relaxed);
    }
    done
}

/// Makes a clean range of `n` units bare; it must not have mappings of its own. Returns `false` if the kernel refused
/// and it stays mapped.
pub fn strip(unit: u32, n: usize) -> bool {
    let done = unmap_units(unit, n);
    record(unit).bare.set(done);
    done
}

/// Maps the clean range at `unit`, of `n` units and in no list, if it is bare. If `asked` of them, which
/// are more than the program has, are many, the kernel judges whether it may have them.
pub fn provide(unit: u32, n: usize, asked: usize) -> bool {
    let r = record(unit);
    if !r.bare.get() && (asked < JUDGED || !strip(unit, n)) {
        return true;
    }
    let done = map_units(unit, n, asked).is_ok();
    r.bare.set(!done);
    done
}

/// Replaces the mapping of a free range by a fresh one, which the kernel merges with its neighbours'
/// again.
pub fn renew(unit: u32, n: usize) -> bool {
    let (at, len) = (address(unit), n * UNIT_BYTES);
    // SAFETY: units of a range that the caller took out (invariant 6 of `space`), or of a live one that holds
    // nothing there.
    let done = unsafe { mem::map_over(at, len) }.is_ok();
    if done {
        // The kernel fills fresh mappings of a program that locks all memory to come (`MCL_FUTURE`).
        // SAFETY: as above.
        unsafe { mem::discard(at, len) };
        if Window::of(unit) == Window::Chunks {
            mem::forbid_huge(at, len);
        }
    }
    done
}

/// Gives a dirty range's pages back and makes it clean. The caller has taken the range out of the
/// lists. Returns `false` if the kernel refused.
pub fn clean(unit: u32) -> bool {
    let r = record(unit);
    let all = r.units.get() * UNIT_BYTES;
    // Whole units: the kernel may have made huge pages unasked.
    let dirty = r.dirty.get().next_multiple_of(UNIT_BYTES);
    // SAFETY: invariant 6 of `space`: the caller took it out of the lists.
    let discard = |bytes| unsafe { mem::discard(address(unit), bytes) };
    // A fresh mapping may be refused, for example beyond a limit that was lowered.
    let done = r.apart.get() == 0 && discard(dirty) || renew(unit, r.units.get()) || discard(all);
    if done {
        r.dirty.set(0);
        r.set_apart(0);
    }
    done
}

fn granules(chunk: u32, first: usize, n: usize) -> (usize, usize) {
    (address(chunk) + first * GRANULE, n * GRANULE)
}

/// Maps `n` granules of a chunk from its `first` on, which are not mapped.
///
/// # Errors
/// `EEXIST` if something else is there now, or the kernel's reason.
pub fn map_granules(chunk: u32, first: usize, n: usize) -> Result<(), Errno> {
    let (at, len) = granules(chunk, first, n);
    mem::map_at(at, len)?;
    mem::forbid_huge(at, len);
    Window::Chunks.mapped().fetch_add(len, Ordering::Relaxed);
    Ok(())
}

/// Unmaps `n` unused granules of a chunk from its `first` on. Returns `false` if the kernel refused and they stay
/// mapped.
pub fn unmap_granules(chunk: u32, first: usize, n: usize) -> bool {
    let (at, len) = granules(chunk, first, n);
    let done = mem::try_unmap(at, len);
    if done {
        Window::Chunks.mapped().fetch_sub(len, Ordering::Relaxed);
    }
    done
}

/// Bytes mapped of a window.
pub fn mapped_bytes(window: Window) -> usize {
    window.mapped().load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests;

//! Memory that the program has locked (`mlock`, `mlockall`): there, pages are resident before anything uses them.

use masu_watch::process::{memory_id, status};
use procfs_core::process::VmFlags;

use crate::error::Error;
use crate::find;
use crate::memory::{Memory, Pages};
use crate::ranges::Ranges;

/// The locked mappings of a process.
#[derive(Debug, Default)]
pub struct Locked {
    all: Ranges,
    /// Those without huge pages.
    plain: Ranges,
}

/// Resident bytes that no block has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unused {
    /// Those that are in pages of 2 MiB,
    pub huge: u64,
    /// and others that are locked.
    pub locked: u64,
}

impl Unused {
    /// Returns the sum.
    pub fn bytes(self) -> u64 {
        self.huge + self.locked
    }
}

impl Locked {
    /// Finds them. Few processes have any, and the kernel says so without looking at their pages.
    ///
    /// # Errors
    /// If the process cannot be read.
    pub fn of(memory: &Memory) -> Result<Locked, Error> {
        let status = match memory.core() {
            Some(_) => None,
            None => status(memory_id(memory.process)),
        };
        if status.is_none_or(|status| status.vmlck.unwrap_or(0) == 0) {
            return Ok(Locked::default());
        }
        let mut locked = Locked::default();
        for map in find::mappings(memory.process)?.0 {
            let (start, end) = map.address;
            if map.extension.vm_flags.contains(VmFlags::LO) {
                locked.all.push(start, end);
                if map.extension.map.get("AnonHugePages").is_none_or(|&bytes| bytes == 0) {
                    locked.plain.push(start, end);
                }
            }
        }
        Ok(locked)
    }

    /// Returns the resident bytes of a range of which no block has used anything. A page that is neither in a huge page
    /// nor locked was part of a block a moment ago.
    pub fn unused(&self, pages: &Pages, start: u64, end: u64) -> Unused {
        let within = |ranges: &Ranges, of: &Ranges| -> u64 {
            ranges.within(start, end).map(|(start, end)| of.bytes(start, end)).sum()
        };
        // Where the kernel does not tell huge pages from others, locked memory looks like huge pages.
        let looks = within(&self.plain, &pages.huge);
        Unused {
            huge: pages.huge.bytes(start, end) - looks,
            locked: within(&self.all, &pages.resident) + looks - within(&self.all, &pages.huge),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn unused_pages_are_huge_or_locked_or_neither() {
        let of = |ranges: &[(u64, u64)]| Ranges::of(ranges.to_vec());
        let pages = Pages {
            resident: of(&[(0, 3 * MIB), (4 * MIB, 8 * MIB)]),
            huge: of(&[(0, 2 * MIB), (4 * MIB, 8 * MIB)]),
            ..Pages::default()
        };
        let unused = |locked: &Locked| {
            let Unused { huge, locked } = locked.unused(&pages, MIB, 7 * MIB);
            (huge / MIB, locked / MIB)
        };
        assert_eq!(unused(&Locked::default()), (4, 0));
        let all = of(&[(0, 6 * MIB)]);
        assert_eq!(unused(&Locked { all: all.clone(), plain: Ranges::default() }), (4, 1));
        assert_eq!(unused(&Locked { all, plain: of(&[(4 * MIB, 6 * MIB)]) }), (2, 3));
    }
}

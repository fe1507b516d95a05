//! Memory that the program has locked (`mlock`, `mlockall`): there, pages are resident before anything uses them.

use procfs::process::VmFlags;

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
            Some(_) => Vec::new(),
            None => std::fs::read(format!("/proc/{}/status", memory.process)).unwrap_or_default(),
        };
        if !has_locked(&String::from_utf8_lossy(&status)) {
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

/// Whether the text of a process's `status` says that it has locked memory.
fn has_locked(status: &str) -> bool {
    let mut found = status.lines().filter_map(|line| line.strip_prefix("VmLck:"));
    found.any(|kib| kib.split_whitespace().next() != Some("0"))
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

    #[test]
    fn a_status_says_whether_memory_is_locked() {
        assert!(has_locked("Name:\tx\nVmLck:\t    8 kB\n"));
        assert!(!has_locked("Name:\tVmLck: 8\nVmLck:\t       0 kB\n") && !has_locked(""));
    }
}

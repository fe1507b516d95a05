//! Resident memory of a process, as the kernel counts it.

use std::fmt;
use std::ops::AddAssign;

use procfs::process::{Process, SmapsRollup};

/// Number of bytes in a KiB.
pub const KIB: u64 = 1 << 10;
/// Number of bytes in a MiB.
pub const MIB: u64 = 1 << 20;

/// Resident memory in bytes, by kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Pages that belong to no file. Includes those the kernel may take back later (`MADV_FREE`).
    pub anon: u64,
    /// Pages of programs, libraries and other files.
    pub file: u64,
    /// Pages that nobody shares, anonymous or not.
    pub private: u64,
    /// Anonymous memory in huge pages.
    pub huge: u64,
}

impl Memory {
    /// Of a running process.
    pub fn of(pid: i32) -> Self {
        let rollup = Process::new(pid).and_then(|p| p.smaps_rollup());
        Self::from_rollup(&rollup.unwrap_or_else(|e| panic!("memory of {pid}: {e}")))
    }

    fn from_rollup(rollup: &SmapsRollup) -> Self {
        let map = &rollup.memory_map_rollup.0[0].extension.map;
        let field = |name: &str| *map.get(name).unwrap_or_else(|| panic!("no {name} in smaps"));
        let anon = field("Anonymous");
        Self {
            anon,
            file: field("Rss") - anon,
            private: field("Private_Clean") + field("Private_Dirty"),
            huge: field("AnonHugePages"),
        }
    }

    /// Both kinds together.
    pub fn total(self) -> u64 {
        self.anon + self.file
    }
}

impl AddAssign for Memory {
    fn add_assign(&mut self, other: Self) {
        self.anon += other.anon;
        self.file += other.file;
        self.private += other.private;
        self.huge += other.huge;
    }
}

/// A number of bytes, shown in the unit that fits.
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < MIB {
            write!(f, "{:.0}KiB", self.0 as f64 / KIB as f64)
        } else {
            write!(f, "{:.1}MiB", self.0 as f64 / MIB as f64)
        }
    }
}

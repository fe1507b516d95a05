//! The machine a race ran on, as far as it explains figures.

use std::{fmt, fs};

use procfs_core::{CpuInfo, FromRead as _, LoadAverage, Meminfo};
use serde::{Deserialize, Serialize};

/// The machine that a race ran on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Processors this process may use.
    pub processors: usize,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The distribution.
    pub system: String,
    /// The mode of transparent huge pages.
    pub huge_pages: String,
    /// The load average of the last minute when the race began.
    pub load: String,
}

impl Machine {
    /// This machine, now.
    pub fn here() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let processor = CpuInfo::from_file("/proc/cpuinfo").ok();
        let processor = processor.as_ref().and_then(|processor| processor.model_name(0));
        let load = LoadAverage::from_file("/proc/loadavg").ok();
        Machine {
            processor: processor.unwrap_or("unknown").into(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: memory().map_or(0, |memory| memory.mem_total) >> 20,
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            system: pretty_name(&read("/etc/os-release")),
            huge_pages: bracketed(&read("/sys/kernel/mm/transparent_hugepage/enabled")),
            load: load.map(|load| format!("{:.2}", load.one)).unwrap_or_default(),
        }
    }

    /// Memory that is free for use now, in KiB.
    pub fn available_kib() -> u64 {
        let available = memory().and_then(|memory| memory.mem_available);
        available.unwrap_or(0) / 1024
    }
}

fn memory() -> Option<Meminfo> {
    Meminfo::from_file("/proc/meminfo").ok()
}

/// What a report says of it.
impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let gib = (self.memory_mib + 512) / 1024;
        let Machine { processor, processors, kernel, system, huge_pages, load, .. } = self;
        write!(f, "{processor}, {processors} processors, {gib} GiB, Linux {kernel}, {system}, ")?;
        write!(f, "huge pages: {huge_pages}, load before: {load}")
    }
}

/// The name of the system that a file `os-release` describes.
fn pretty_name(text: &str) -> String {
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or("unknown".into(), |name| name.replace('"', ""))
}

/// The chosen word of a list like `always [madvise] never`.
fn bracketed(text: &str) -> String {
    let inside = text.split('[').nth(1).and_then(|rest| rest.split(']').next());
    inside.unwrap_or("unknown").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_files_are_read_by_key() {
        assert_eq!(pretty_name("ID=x\nPRETTY_NAME=\"X 5\"\n"), "X 5");
        assert_eq!(pretty_name(""), "unknown");
        assert_eq!(bracketed("always [madvise] never\n"), "madvise");
        let here = Machine::here();
        assert!(here.memory_mib > 100 && Machine::available_kib() > 1000, "{here}");
        assert!(here.load.parse::<f64>().is_ok(), "{here}");
    }
}

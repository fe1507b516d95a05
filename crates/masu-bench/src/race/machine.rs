//! The machine a race ran on, as far as it explains figures.

use std::{fmt, fs};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is recorded beside results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
        Machine {
            processor: after(&read("/proc/cpuinfo"), "model name", ':'),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: kib(&read("/proc/meminfo"), "MemTotal") / 1024,
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            system: after(&read("/etc/os-release"), "PRETTY_NAME", '=').replace('"', ""),
            huge_pages: bracketed(&read("/sys/kernel/mm/transparent_hugepage/enabled")),
            load: read("/proc/loadavg").split(' ').next().unwrap_or_default().to_string(),
        }
    }

    /// Memory that is free for use now, in KiB.
    pub fn available_kib() -> u64 {
        kib(&fs::read_to_string("/proc/meminfo").unwrap_or_default(), "MemAvailable")
    }
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

/// The value after `key` and `separator` on the first line that starts with the key.
fn after(text: &str, key: &str, separator: char) -> String {
    let line = text.lines().find(|line| line.starts_with(key));
    let value = line.and_then(|line| line.split_once(separator));
    value.map_or("unknown".into(), |(_, value)| value.trim().to_string())
}

fn kib(text: &str, key: &str) -> u64 {
    after(text, key, ':').split(' ').next().and_then(|value| value.parse().ok()).unwrap_or(0)
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
        assert_eq!(after("a: 1\nmodel name\t: X 5\n", "model name", ':'), "X 5");
        assert_eq!(kib("MemTotal:       24684012 kB\n", "MemTotal"), 24_684_012);
        assert_eq!(bracketed("always [madvise] never\n"), "madvise");
        assert_eq!(after("", "model name", ':'), "unknown");
    }
}

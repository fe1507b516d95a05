//! The memory of this process as the kernel counts it, read without allocating.

use std::fs::File;
use std::io::Read;

/// Resident memory in KiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// The most that was ever resident.
    pub peak_kib: u64,
    /// What is resident now.
    pub resident_kib: u64,
    /// The part of it that no file backs.
    pub anonymous_kib: u64,
}

impl Memory {
    /// Reads `/proc/self/status`.
    pub fn now() -> Self {
        let mut buffer = [0; 4096];
        let length = File::open("/proc/self/status")
            .and_then(|mut file| file.read(&mut buffer))
            .expect("the kernel shows a process its own status");
        Self::parse(std::str::from_utf8(&buffer[..length]).unwrap_or_default())
    }

    fn parse(status: &str) -> Self {
        let field = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
        };
        Memory {
            peak_kib: field("VmHWM:"),
            resident_kib: field("VmRSS:"),
            anonymous_kib: field("RssAnon:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name() {
        let status = "VmPeak:\t  900 kB\nVmHWM:\t  300 kB\nVmRSS:\t  200 kB\nRssAnon:\t  100 kB\n";
        let expected = Memory { peak_kib: 300, resident_kib: 200, anonymous_kib: 100 };
        assert_eq!(Memory::parse(status), expected);
    }

    #[test]
    fn this_process_has_memory() {
        let memory = Memory::now();
        assert!(memory.peak_kib >= memory.resident_kib && memory.resident_kib > 0, "{memory:?}");
    }
}

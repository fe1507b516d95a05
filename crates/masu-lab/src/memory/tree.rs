//! The memory of a process and all that descend from it, as the kernel counts it.
//!
//! Of one process, resident memory is its `Rss`. Where several share pages, each page counts once: by
//! the processes' proportional shares (`Pss`). Both come from `smaps_rollup`, with anonymous memory,
//! which is what an allocator answers for, apart from pages of files.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::race::watch::family;

/// Memory, in KiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Resident: `Rss` of a single process, the sum of `Pss` of several.
    pub resident: u64,
    /// Anonymous pages, shared ones by their shares.
    pub anonymous: u64,
    /// Pages of files and of shared memory, by their shares.
    pub file: u64,
    /// Anonymous pages that the kernel may take (`MADV_FREE`) and has not.
    pub lazily_freed: u64,
    /// In huge pages.
    pub huge: u64,
}

/// A look at a tree of processes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Look {
    /// Its memory.
    pub memory: Memory,
    /// How many processes it has.
    pub processes: usize,
    /// Processor time of all that live, in seconds.
    pub processor: f64,
    /// Page faults so far, of children that have ended too.
    pub faults: u64,
}

/// Looks at the process `root` and its descendants; nothing if none has memory.
pub fn look(root: u32) -> Option<Look> {
    let mut sum = Look::default();
    let mut single = 0;
    for process in family(root) {
        let Ok(text) = fs::read_to_string(format!("/proc/{process}/smaps_rollup")) else {
            continue;
        };
        let kib = |key: &str| field(&text, key);
        single = kib("Rss:");
        if single == 0 {
            continue;
        }
        sum.processes += 1;
        sum.memory.resident += kib("Pss:");
        sum.memory.anonymous += kib("Pss_Anon:");
        sum.memory.file += kib("Pss_File:") + kib("Pss_Shmem:");
        sum.memory.lazily_freed += kib("LazyFree:");
        sum.memory.huge += kib("AnonHugePages:");
        let (processor, faults) = spent(process).unwrap_or_default();
        sum.processor += processor;
        sum.faults += faults;
    }
    if sum.processes == 1 {
        sum.memory.resident = single;
        sum.memory.file = single - sum.memory.anonymous.min(single);
    }
    (sum.processes > 0).then_some(sum)
}

fn field(text: &str, key: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.trim().split(' ').next());
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// User and system time of all threads of a process, in seconds, and the pages that it faulted in with
/// those of its children that it has waited for.
fn spent(process: u32) -> Option<(f64, u64)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let after = &stat[stat.rfind(')')? + 2..];
    // From the third field on: state is 0, minflt 7, cminflt 8, utime 11, stime 12 (proc(5)).
    let fields: Vec<u64> =
        after.split(' ').map(|field| field.trim().parse().unwrap_or(0)).collect();
    let ticks = fields.get(11)? + fields.get(12)?;
    let seconds = ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    Some((seconds, fields[7] + fields[8]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_single_process_has_its_rss_and_a_family_its_shares() {
        let me = look(std::process::id()).unwrap();
        assert!(me.memory.resident > 1000 && me.memory.anonymous > 100, "{me:?}");
        let shell = "sleep 60 & sleep 60 & echo; wait";
        let mut child =
            Command::new("sh").args(["-c", shell]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        let tree = look(child.id()).unwrap();
        for one in family(child.id()).into_iter().rev() {
            let pid = rustix::process::Pid::from_raw(one as i32).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        child.wait().unwrap();
        assert_eq!(tree.processes, 3);
        assert!(tree.memory.resident >= tree.memory.anonymous + tree.memory.file);
        assert_eq!(look(child.id()), None);
    }

    #[test]
    fn fields_and_times_are_found() {
        assert_eq!(field("Rss:     120 kB\nPss:  7 kB\n", "Pss:"), 7);
        assert_eq!(field("Rss:     120 kB\n", "Pss:"), 0);
        let before = spent(std::process::id()).unwrap().1;
        let block = vec![1u8; 8 << 20];
        assert!(spent(std::process::id()).unwrap().1 > before + 1000, "{}", block.len());
        assert_eq!(spent(u32::MAX), None);
    }
}

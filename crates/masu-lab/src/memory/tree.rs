//! The memory of a process and all that descend from it, as the kernel counts it.
//!
//! Of one process, resident memory is its `Rss`. Where several share pages, each page counts once: by
//! the processes' proportional shares (`Pss`). Both come from `smaps_rollup`, with anonymous memory,
//! which is what an allocator answers for, apart from pages of files.

use masu_watch::process::{self, family};
use serde::{Deserialize, Serialize};

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
    /// Processor time so far, in seconds, of children that have ended too.
    pub processor: f64,
    /// Page faults so far, of children that have ended too.
    pub faults: u64,
}

/// Looks at the process `root` and its descendants; nothing if none has memory.
pub fn look(root: u32) -> Option<Look> {
    let mut sum = Look::default();
    let mut single = 0;
    for process in family(root) {
        // A zombie has no memory, but time that its parent takes over only when it waits for it.
        let (processor, faults) = spent(process).unwrap_or_default();
        sum.processor += processor;
        sum.faults += faults;
        let Some(memory) = process::Memory::of(process) else { continue };
        let resident = memory.kib("Rss");
        if resident == 0 {
            continue;
        }
        single = resident;
        sum.processes += 1;
        sum.memory.resident += memory.kib("Pss");
        sum.memory.anonymous += memory.kib("Pss_Anon");
        sum.memory.file += memory.kib("Pss_File") + memory.kib("Pss_Shmem");
        sum.memory.lazily_freed += memory.kib("LazyFree");
        sum.memory.huge += memory.kib("AnonHugePages");
    }
    if sum.processes == 1 {
        sum.memory.resident = single;
        sum.memory.file = single - sum.memory.anonymous.min(single);
    }
    (sum.processes > 0).then_some(sum)
}

/// User and system time of all threads of a process, in seconds, and the pages that it faulted in, both with those of
/// its children that it has waited for.
fn spent(process: u32) -> Option<(f64, u64)> {
    let stat = process::stat(process)?;
    // Signed, as the kernel has them.
    let children = (stat.cutime + stat.cstime).max(0) as u64;
    let ticks = stat.utime + stat.stime + children;
    let seconds = ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    Some((seconds, stat.minflt + stat.cminflt))
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

    /// Or a server whose workers end under load would have had less time after it than before.
    #[test]
    fn what_a_child_spent_that_has_ended_is_not_lost() {
        let work = "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done";
        let shell = format!("({work}); echo; sleep 60 & wait");
        let mut child =
            Command::new("sh").args(["-c", &shell]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        let spent = look(child.id()).unwrap().processor;
        for one in family(child.id()).into_iter().rev() {
            let pid = rustix::process::Pid::from_raw(one as i32).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        child.wait().unwrap();
        assert!(spent >= 0.05, "{spent}");
    }

    #[test]
    fn what_was_spent_is_known() {
        let before = spent(std::process::id()).unwrap().1;
        let block = vec![1u8; 8 << 20];
        assert!(spent(std::process::id()).unwrap().1 > before + 1000, "{}", block.len());
        assert_eq!(spent(u32::MAX), None);
    }
}

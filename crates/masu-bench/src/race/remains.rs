//! What a child leaves behind when it ends: processes that would disturb the next run.
//!
//! Most are in the child's process group. Those that left it (daemons) become children of this
//! process, which makes itself the reaper of orphans, and are known by a mark in the environment
//! that they inherited.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use masu_watch::process;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};

/// Not any name: of most that begin with its own, masu warns at the start of every run.
const VARIABLE: &str = "MASU_LAB_RUN";

/// The mark of one run.
pub struct Mark(String);

impl Mark {
    /// Marks what `command` will start.
    pub fn set(command: &mut Command) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // Where the kernel refuses, daemons go to another reaper and are not found.
        let _ = rustix::process::set_child_subreaper(Some(Pid::INIT));
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}.{count}", std::process::id());
        command.env(VARIABLE, &mark);
        Mark(format!("{VARIABLE}={mark}"))
    }

    /// Ends everything that is left of the run that `leader` led. Must come before the leader is
    /// waited for: until then nobody else can have its number.
    pub fn end_group(leader: Pid) {
        // Mostly there is nobody left.
        let _ = kill_process_group(leader, Signal::KILL);
    }

    /// Ends the orphans of the run; to be called when its leader is gone.
    pub fn end_orphans(&self) {
        // Each one that goes may leave orphans of its own.
        for _ in 0..16 {
            let orphans: Vec<Pid> = adopted()
                .filter(|&process| self.is_on(process))
                .filter_map(|process| Pid::from_raw(process as i32))
                .collect();
            if orphans.is_empty() {
                return;
            }
            for orphan in orphans {
                let _ = kill_process(orphan, Signal::KILL);
                let _ = waitpid(Some(orphan), WaitOptions::empty());
            }
        }
    }

    fn is_on(&self, process: u32) -> bool {
        // In the middle of an exec, a process shows no environment for a moment.
        for _ in 0..LOOKS {
            let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
            if !environment.is_empty() {
                return environment
                    .split(|&byte| byte == 0)
                    .any(|entry| entry == self.0.as_bytes());
            }
            if has_ended(process) {
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
        false
    }
}

/// Looks at a process that shows no environment: some never have one, and on a busy machine the middle
/// of an exec may last.
const LOOKS: u32 = 500;

/// The children of this process, which orphans are. The kernel's list of a thread's children leaves
/// some out when others end meanwhile, so every process is asked for its parent.
fn adopted() -> impl Iterator<Item = u32> {
    let me = std::process::id();
    process::all().filter(move |&one| {
        process::stat(one).is_some_and(|stat| u32::try_from(stat.ppid) == Ok(me))
    })
}

fn has_ended(process: u32) -> bool {
    process::stat(process).is_none_or(|stat| stat.state == 'Z')
}

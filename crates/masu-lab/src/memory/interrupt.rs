//! When somebody ends the suite in the middle: what it started must end too, and its directories go.
//!
//! Programs and servers are in process groups of their own, so that a terminal's Ctrl-C does not reach
//! them. A thread waits for the signal, ends every group that is under way, and lets the suite fail:
//! whatever waits for a program sees that it is gone, and everything is put away as after any failure.
//! A second signal ends the suite at once.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

static ENDED: AtomicBool = AtomicBool::new(false);

/// The process groups under way. Who starts one holds the lock from before the start until it is in
/// here, so that none is missed.
static GROUPS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Waits for signals from now on.
pub fn listen() -> Result<()> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot listen to signals")?;
    thread::spawn(move || {
        for signal in signals.forever() {
            if ENDED.load(Ordering::Relaxed) {
                std::process::exit(128 + signal);
            }
            eprintln!("masu-lab: ending what runs");
            end_all();
        }
    });
    Ok(())
}

/// Ends every group under way, and lets none start.
fn end_all() {
    let groups = GROUPS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    ENDED.store(true, Ordering::Relaxed);
    for group in groups.iter().filter_map(|id| Pid::from_raw(*id as i32)) {
        let _ = kill_process_group(group, Signal::INT);
    }
}

/// Fails if somebody has ended the suite.
pub fn check() -> Result<()> {
    ensure!(!ENDED.load(Ordering::Relaxed), "ended by a signal");
    Ok(())
}

/// Starts the leader of a process group, unless all is over.
pub fn start(command: &mut Command) -> Result<Child> {
    let mut groups = GROUPS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    check()?;
    let child =
        command.process_group(0).spawn().with_context(|| format!("cannot start {command:?}"))?;
    groups.insert(child.id());
    Ok(child)
}

/// To be called once the leader has ended, after which its number may become another's.
pub fn forget(leader: u32) {
    GROUPS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(&leader);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    /// One test, as it ends all children of its process.
    #[test]
    fn a_signal_ends_what_runs_and_lets_nothing_start() {
        const WHO: &str = "MASU_LAB_INTERRUPTED";
        if std::env::var_os(WHO).is_some() {
            listen().unwrap();
            // No shell: one that gets the signal as it starts a program waits for that first.
            let mut child = start(Command::new("sleep").arg("600")).unwrap();
            let me = rustix::process::getpid();
            rustix::process::kill_process(me, Signal::TERM).unwrap();
            let status = child.wait().unwrap();
            assert_eq!(status.signal(), Some(2));
            forget(child.id());
            assert!(check().is_err());
            assert!(start(&mut Command::new("true")).is_err());
            return;
        }
        // The state belongs to the process, so this needs a separate one.
        let mut alone = Command::new(std::env::current_exe().unwrap());
        alone.args([
            "--exact",
            "memory::interrupt::tests::a_signal_ends_what_runs_and_lets_nothing_start",
        ]);
        let output = alone.env(WHO, "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

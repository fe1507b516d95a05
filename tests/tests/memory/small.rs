//! Small programs stay small.

use std::os::unix::process::CommandExt;
use std::process::Command;

use masu_tests::{library, tool};
use nix::sys::ptrace;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::figures::{Bytes, KIB, Memory};
use crate::probe::{On, Probe};

/// Resident memory of a program at the moment it exits.
///
/// The kernel's own high-water mark (`ru_maxrss`) is no use here: it counts the moment before
/// `exec` too, when the child was still a copy of this test.
#[expect(clippy::zombie_processes, reason = "reaped by waitpid, which tells of the stops too")]
fn memory_at_exit(on: On, program: &str) -> Memory {
    let mut command = Command::new(tool(program));
    command.env_remove("LD_PRELOAD");
    if let (On::Library, Some(library)) = (on, library()) {
        command.env("LD_PRELOAD", library);
    }
    // SAFETY: between fork and exec only a system call is made.
    unsafe { command.pre_exec(|| ptrace::traceme().map_err(Into::into)) };
    let child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let pid = Pid::from_raw(child.id() as i32);
    assert!(matches!(waitpid(pid, None), Ok(WaitStatus::Stopped(..))), "stopped by exec");
    ptrace::setoptions(pid, ptrace::Options::PTRACE_O_TRACEEXIT).expect("a stopped tracee");
    let mut memory = None;
    loop {
        ptrace::cont(pid, None).expect("a stopped tracee");
        match waitpid(pid, None).expect("our own child") {
            WaitStatus::PtraceEvent(..) => memory = Some(Memory::of(pid.as_raw())),
            WaitStatus::Exited(_, 0) => return memory.expect("stopped at its exit"),
            other => panic!("{program}: {other:?}"),
        }
    }
}

/// The number of runs of a whole program, of which a figure is the median.
///
/// The number of file pages that the kernel maps around a fault depends on where the file was
/// mapped, so that single runs differ by a tenth.
const RUNS: usize = 101;

/// The run whose resident memory is the median one.
fn median_run(runs: impl Iterator<Item = Memory>) -> Memory {
    let mut runs: Vec<Memory> = runs.collect();
    runs.sort_by_key(|run| run.total());
    runs[runs.len() / 2]
}

/// `/bin/true` does nothing, so its growth is the allocator's: pages mapped, relocated, touched.
#[test]
fn true_costs_little_more() {
    let median = |on| median_run((0..RUNS).map(|_| memory_at_exit(on, "true")));
    let (ours, system) = (median(On::Library), median(On::System));
    println!(
        "true: rss_anon={} rss_file={} glibc_anon={} glibc_file={} extra={}",
        Bytes(ours.anon),
        Bytes(ours.file),
        Bytes(system.anon),
        Bytes(system.file),
        Bytes(ours.total().saturating_sub(system.total())),
    );
    assert!(ours.total() <= system.total() + 200 * KIB);
}

/// The whole of a program that holds this many KiB, code included, against the same on the system's
/// malloc.
#[track_caller]
fn whole_program_at_most(kib: u64, percent: u64) {
    let program = env!("CARGO_BIN_EXE_memory_small");
    // No statistics are requested: the code that writes them would be resident, too.
    let run = |on| {
        let mut probe = Probe::program(program, on, &kib.to_string(), &[]);
        probe.at("ready");
        let memory = probe.memory();
        probe.finish();
        memory
    };
    let median = |on| median_run((0..RUNS).map(|_| run(on))).total();
    let (ours, system) = (median(On::Library), median(On::System));
    println!("small-{kib}KiB: whole={}KiB glibc_whole={}KiB", ours / KIB, system / KIB);
    assert!(ours <= system + system * percent / 100, "{} over {}", Bytes(ours), Bytes(system));
}

#[test]
fn a_program_that_holds_little_costs_little() {
    whole_program_at_most(64, 15);
}

#[test]
fn a_two_megabyte_program() {
    whole_program_at_most(2 << 10, 15);
}

#[test]
fn a_twenty_megabyte_program() {
    // A third of this program's bytes are in blocks of 8 to 20 KiB, the largest being whole pages.
    whole_program_at_most(20 << 10, 16);
}

//! Small programs stay small.

use std::os::unix::process::CommandExt;
use std::process::Command;

use masu_tests::{library, tool};
use nix::sys::ptrace;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::compare::{Comparison, Moment, compare_program};
use crate::figures::{Bytes, KIB, Memory};
use crate::probe::On;

/// Resident memory of a program at the moment it exits.
///
/// The kernel's own high-water mark (`ru_maxrss`) is no use here: it counts the moment before
/// `exec` too, when the child still was a copy of this test.
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

/// `/bin/true` does nothing, so what it grows by is the allocator: pages mapped, relocated, touched.
#[test]
fn true_costs_little_more() {
    // How many pages of a file the kernel maps around a fault varies from run to run.
    let least = |on| {
        let runs = (0..40).map(|_| memory_at_exit(on, "true"));
        runs.min_by_key(|m| m.total()).expect("forty runs")
    };
    let (ours, system) = (least(On::Library), least(On::System));
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

/// The whole of a program, its code included, against the same on the system's malloc.
#[track_caller]
fn whole_program_at_most(run: &Comparison, percent: u64) {
    let (ours, system) = (run.ours.total(), run.system.total());
    println!("{} whole={} glibc_whole={}", run.line, Bytes(ours), Bytes(system));
    assert!(ours <= system + system * percent / 100, "{} over {}", Bytes(ours), Bytes(system));
}

/// The least of several runs, since how many pages of a file the kernel maps around a fault varies.
fn small(name: &str, kib: u64) -> Comparison {
    let program = env!("CARGO_BIN_EXE_memory_small");
    let once = || {
        compare_program(program, name, &kib.to_string(), &[], |probe| Moment::at(probe, "ready"))
    };
    let mut least = once();
    for _ in 0..29 {
        let next = once();
        if next.system.total() < least.system.total() {
            least.system = next.system;
        }
        if next.ours.total() < least.ours.total() {
            least.ours = next.ours;
        }
    }
    least
}

#[test]
fn a_program_that_holds_little_costs_little() {
    whole_program_at_most(&small("small-64KiB", 64), 18);
}

#[test]
fn a_two_megabyte_program() {
    // 12 to 15 here, where 15 is the aim: how many file pages the kernel maps differs by the machine.
    whole_program_at_most(&small("small-2MiB", 2048), 18);
}

#[test]
fn a_twenty_megabyte_program() {
    // A third of this program's bytes are in blocks of 8 to 20 KiB, which are whole pages here.
    whole_program_at_most(&small("small-20MiB", 20 << 10), 16);
}

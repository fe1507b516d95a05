//! Starts somebody else's program, waits for it and hands the kernel's account of it on.
//!
//! Why not the runner itself? The kernel counts the memory of the process that starts a program as
//! the program's own peak, for good. This process has next to none; and its clock stops when the
//! program ends, not when the runner wakes up.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::Instant;
use std::{fs, io};

/// What the report holds, in this order, separated by spaces: the status as `wait` gives it, wall,
/// user and system time in nanoseconds, peak memory in KiB, minor faults, voluntary and involuntary
/// context switches.
pub type Report = [i64; 8];

/// Runs `program` with `preload` loaded into it, and writes the report.
pub(crate) fn launch(
    report: &OsStr,
    preload: &OsStr,
    program: &OsStr,
    arguments: &[OsString],
) -> ExitCode {
    die_with_parent();
    match run(preload, program, arguments) {
        Ok(account) => {
            let text = account.map(|figure| figure.to_string()).join(" ");
            match fs::write(report, text) {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            }
        }
        Err(error) => {
            eprintln!("{}: {error}", program.display());
            ExitCode::FAILURE
        }
    }
}

fn run(preload: &OsStr, program: &OsStr, arguments: &[OsString]) -> io::Result<Report> {
    let preloading = |mut command: Command| {
        if !preload.is_empty() {
            command.env("LD_PRELOAD", preload);
        }
        command
    };
    let mut command = preloading(Command::new(program));
    if let Some((name, rest)) = arguments.split_first() {
        command.arg0(name).args(rest);
    }
    let mut start = Instant::now();
    let child = match command.spawn() {
        // A script without a #! line: execvp(3) and every shell run it with sh.
        Err(error) if error.raw_os_error() == Some(libc::ENOEXEC) => {
            let mut shell = preloading(Command::new("/bin/sh"));
            shell.arg(program).args(arguments.iter().skip(1));
            start = Instant::now();
            shell.spawn()
        }
        spawned => spawned,
    }?;
    let mut status = 0;
    // SAFETY: rusage is plain data for which zero is valid; both places are writable, and nobody
    // else waits for the child.
    let (usage, waited) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let waited = libc::wait4(child.id() as i32, &mut status, 0, &mut usage);
        (usage, waited)
    };
    let wall = start.elapsed().as_nanos() as i64;
    if waited < 0 {
        return Err(io::Error::last_os_error());
    }
    let time = |value: libc::timeval| value.tv_sec * 1_000_000_000 + value.tv_usec * 1_000;
    let times = (time(usage.ru_utime), time(usage.ru_stime));
    let switches = (usage.ru_nvcsw, usage.ru_nivcsw);
    let (peak, faults) = (usage.ru_maxrss, usage.ru_minflt);
    Ok([i64::from(status), wall, times.0, times.1, peak, faults, switches.0, switches.1])
}

/// However the runner ends, no measured program stays behind.
pub(crate) fn die_with_parent() {
    // SAFETY: sets a property of this process; there is no pointer among the arguments.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

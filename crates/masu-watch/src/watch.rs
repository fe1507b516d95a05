//! Starts a program and measures its memory until it ends.
//!
//! A measurement reads `smaps_rollup` of the program and of all its descendants. That is exact, and takes the kernel
//! about a millisecond for a program of a few hundred MiB. For a single process it is the resident set; for several
//! that share pages, each page counts once, by their proportional shares.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::curve::Curve;
use crate::process::{mapped, resident};

/// The results of a program's run.
#[derive(Debug, Clone)]
pub struct Run {
    /// Its memory.
    pub curve: Curve,
    /// User and system time in seconds, including all children that it waited for.
    pub processor: f64,
    /// What it wrote to standard output.
    pub output: String,
    /// Whether it succeeded.
    pub succeeded: bool,
    /// Whether every measurement was accepted.
    pub served: bool,
}

/// A measurement of a program.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Seconds since its start.
    pub second: f64,
    /// Its memory in KiB.
    pub kib: u64,
    process: u32,
}

impl Look {
    /// Whether it has a file mapped, such as a library. A process that is ending has no mappings and passes.
    pub fn has_mapped(&self, file: &Path) -> bool {
        let files = mapped(self.process);
        // The kernel names a file by its path without links.
        files.is_empty() || file.canonicalize().is_ok_and(|file| files.contains(&file))
    }
}

/// Runs a program without input, and measures it at intervals of `between`; `accept` receives each measurement.
///
/// # Errors
/// If it cannot be started or waited for.
pub fn run(
    command: &mut Command,
    between: Duration,
    mut accept: impl FnMut(Look) -> bool,
) -> std::io::Result<Run> {
    let start = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut pipe = child.stdout.take();
    let reader = thread::spawn(move || {
        let mut output = String::new();
        // Output that is not text counts as none.
        pipe.as_mut().map(|pipe| pipe.read_to_string(&mut output)).transpose().ok();
        output
    });
    let (mut curve, mut served) = (Curve::default(), true);
    let end = loop {
        if let Some(end) = ended(&child)? {
            break end;
        }
        if let Some(kib) = resident(child.id()) {
            let second = start.elapsed().as_secs_f64();
            curve.0.push((second, kib));
            served &= accept(Look { second, kib, process: child.id() });
        }
        thread::sleep(between);
    };
    let output = reader.join().unwrap_or_default();
    Ok(Run { curve, processor: end.processor, output, succeeded: end.status.success(), served })
}

/// How a child has ended.
#[derive(Debug, Clone, Copy)]
pub struct End {
    /// Its status.
    pub status: ExitStatus,
    /// User and system time, of all children that it waited for too, in seconds.
    pub processor: f64,
    /// The most that it had resident in its life, or one of the children that it waited for, in KiB. What was in its
    /// place before it executed its program counts too.
    pub peak: u64,
}

/// How the child has ended, if it has.
///
/// # Errors
/// It cannot be waited for.
pub fn ended(child: &Child) -> std::io::Result<Option<End>> {
    let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
    // SAFETY: both outlive the call, and zeroes are a valid `rusage`.
    let (id, usage) = unsafe {
        let id = libc::wait4(child.id() as i32, &raw mut status, libc::WNOHANG, usage.as_mut_ptr());
        (id, usage.assume_init())
    };
    match id {
        0 => Ok(None),
        -1 => Err(std::io::Error::last_os_error()),
        _ => {
            let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
            let processor = seconds(usage.ru_utime) + seconds(usage.ru_stime);
            let peak = u64::try_from(usage.ru_maxrss).unwrap_or(0);
            Ok(Some(End { status: ExitStatus::from_raw(status), processor, peak }))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn a_program_is_watched_to_its_end() {
        let mut looks = 0;
        let mut shell = Command::new("sh");
        // It waits until it has been seen often enough, however long that takes.
        let file = std::env::temp_dir().join(format!("masu-watch-{}", std::process::id()));
        let name = CString::new(file.as_os_str().as_bytes()).unwrap();
        // SAFETY: the name ends in a null byte.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        shell.args(["-c", "read line < \"$1\"; echo done", "sh"]).arg(&file);
        let mut is_told = false;
        let run = run(&mut shell, Duration::from_millis(5), |look| {
            looks += 1;
            if !is_told && looks > 3 && look.second > 0.2 {
                is_told = true;
                fs::write(&file, "\n").unwrap();
            }
            true
        });
        fs::remove_file(&file).unwrap();
        let run = run.unwrap();
        assert!(run.succeeded && run.output == "done\n", "{run:?}");
        assert!(looks > 3 && looks == run.curve.0.len() && run.curve.peak() > 100, "{run:?}");
        assert!(run.curve.end() > 0.1 && run.processor < 0.2, "{run:?}");
    }

    #[test]
    fn a_mapped_file_is_known_by_a_link_to_it() {
        let link = std::env::temp_dir().join(format!("masu-watch-link-{}", std::process::id()));
        std::os::unix::fs::symlink(std::env::current_exe().unwrap(), &link).unwrap();
        let look = Look { second: 0.0, kib: 0, process: std::process::id() };
        let has = [link.as_path(), Path::new("/no/such")].map(|file| look.has_mapped(file));
        fs::remove_file(&link).unwrap();
        assert_eq!(has, [true, false]);
    }

    #[test]
    fn a_failure_is_seen() {
        let run = run(&mut Command::new("false"), Duration::from_millis(1), |_| true).unwrap();
        assert!(!run.succeeded);
        let none = super::run(&mut Command::new("/no/such"), Duration::ZERO, |_| true);
        assert!(none.is_err());
    }
}

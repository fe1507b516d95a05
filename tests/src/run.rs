//! Runs a program, with the library under test preloaded, within a time limit.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Program, library, patience, tool};

/// A run about to start: preloaded, and killed after a minute, unless configured otherwise. Each
/// limit is multiplied by [`patience`].
pub struct Run {
    executable: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
    preload: bool,
    timeout: Duration,
    /// Keeps the directory of a built program alive.
    _program: Option<Program>,
}

/// What a program left behind.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended. A program that ran out of time was killed by `SIGKILL`.
    pub status: ExitStatus,
    /// Everything it wrote to standard output.
    pub stdout: String,
    /// Everything it wrote to standard error.
    pub stderr: String,
    /// Wall-clock time from start to end.
    pub elapsed: Duration,
    /// Whether the time limit ended it.
    pub timed_out: bool,
    /// CPU time in user mode, waited-for children included.
    pub user: Duration,
    /// CPU time in the kernel, waited-for children included.
    pub system: Duration,
    /// Page faults served without reading from a disk.
    pub minor_faults: u64,
    /// Largest resident set in KiB. The kernel counts the moment before `exec` too, so this is
    /// never below the tests' own few MiB: let a small program measure itself.
    pub max_rss_kib: u64,
    executable: PathBuf,
    preload: bool,
    saw_library: bool,
}

impl Run {
    /// Run a program from `PATH`, or by absolute path.
    pub fn new(executable: impl AsRef<Path>) -> Self {
        Self {
            executable: tool(&executable.as_ref().to_string_lossy()),
            arguments: Vec::new(),
            environment: Vec::new(),
            directory: None,
            preload: true,
            timeout: Duration::from_secs(60),
            _program: None,
        }
    }

    /// Run a program that [`Compile`](crate::Compile) built.
    pub fn program(program: &Program) -> Self {
        Self { _program: Some(program.clone()), ..Self::new(program.path()) }
    }

    /// Add one argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().into());
        self
    }

    /// Add several arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|a| a.as_ref().into()));
        self
    }

    /// Run through another program, such as a shell that sets a limit first. It gets these
    /// arguments, then the path of the program, then the program's own arguments so far.
    pub fn through(mut self, wrapper: &str, arguments: &[&str]) -> Self {
        let inner = std::mem::replace(&mut self.executable, tool(wrapper));
        let own = std::mem::take(&mut self.arguments);
        self.arguments.extend(arguments.iter().map(OsString::from));
        self.arguments.push(inner.into());
        self.arguments.extend(own);
        self
    }

    /// Set one environment variable.
    pub fn env(mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((key.as_ref().into(), value.as_ref().into()));
        self
    }

    /// Run in this directory.
    pub fn directory(mut self, directory: impl AsRef<Path>) -> Self {
        self.directory = Some(directory.as_ref().into());
        self
    }

    /// Do not preload: for a program that is linked with the library, a tracer, or a control run.
    pub fn bare(mut self) -> Self {
        self.preload = false;
        self
    }

    /// Kill the program's whole process group after this long.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Run to the end.
    #[expect(clippy::zombie_processes, reason = "reaped by wait4, which reports the usage too")]
    pub fn run(self) -> Outcome {
        let mut command = Command::new(&self.executable);
        command
            .args(&self.arguments)
            .env_remove("LD_PRELOAD")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let library = if self.preload { library() } else { None };
        if let Some(path) = library {
            command.env("LD_PRELOAD", path);
        }
        command.envs(self.environment);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }

        let start = Instant::now();
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let stdout = drain(child.stdout.take().expect("piped"));
        let stderr = drain(child.stderr.take().expect("piped"));
        let mut watch = Watch::new(&child, library, start + self.timeout * patience());
        let (status, usage) = watch.until_exit();
        let elapsed = start.elapsed();
        // A process that the program left running would keep the pipes open for ever.
        watch.kill_group();

        Outcome {
            status,
            stdout: stdout.join().expect("reader"),
            stderr: stderr.join().expect("reader"),
            elapsed,
            timed_out: watch.timed_out,
            user: duration(usage.ru_utime),
            system: duration(usage.ru_stime),
            minor_faults: usage.ru_minflt as u64,
            max_rss_kib: usage.ru_maxrss as u64,
            executable: self.executable,
            preload: library.is_some(),
            saw_library: watch.saw_library,
        }
    }
}

impl Outcome {
    /// Assert exit code 0 and, where the library was preloaded, that it was really mapped.
    #[track_caller]
    pub fn success(self) -> Self {
        assert!(self.status.success(), "{}", self.describe());
        self.used_library()
    }

    /// Assert death by this signal, and not by the time limit.
    #[track_caller]
    pub fn killed_by(self, signal: i32) -> Self {
        assert!(
            self.status.signal() == Some(signal) && !self.timed_out,
            "expected death by signal {signal}: {}",
            self.describe()
        );
        self
    }

    /// Assert that `/proc/PID/maps` showed the library while the program ran; for a program too
    /// short to be observed, ask the dynamic loader. Nothing to assert in a bare run.
    #[track_caller]
    pub fn used_library(self) -> Self {
        if self.preload && !self.saw_library {
            let path = library().expect("preloaded").to_string_lossy();
            let mut ldd = Command::new(tool("ldd"));
            ldd.arg(&self.executable).env("LD_PRELOAD", &*path);
            let listing = ldd.output().expect("ldd runs").stdout;
            let listing = String::from_utf8_lossy(&listing);
            assert!(listing.contains(&*path), "{path} was not mapped: {}", self.describe());
        }
        self
    }

    /// Everything about the run, for a failure message.
    pub fn describe(&self) -> String {
        let limit = if self.timed_out { ", out of time" } else { "" };
        format!(
            "{}: {}{limit} after {:?}\n--- stdout\n{}\n--- stderr\n{}",
            self.executable.display(),
            self.status,
            self.elapsed,
            self.stdout,
            self.stderr
        )
    }
}

/// Watches over one child: its maps, its clock, its end.
struct Watch {
    pid: i32,
    library: Option<&'static Path>,
    deadline: Instant,
    saw_library: bool,
    timed_out: bool,
}

impl Watch {
    fn new(child: &Child, library: Option<&'static Path>, deadline: Instant) -> Self {
        let pid = child.id() as i32;
        Self { pid, library, deadline, saw_library: false, timed_out: false }
    }

    /// Wait for the end. Starts with short naps, to see the maps of short-lived programs.
    fn until_exit(&mut self) -> (ExitStatus, libc::rusage) {
        let mut nap = Duration::from_micros(100);
        loop {
            self.look_at_maps();
            if let Some(end) = self.reap(libc::WNOHANG) {
                return end;
            }
            if Instant::now() >= self.deadline {
                self.timed_out = true;
                self.kill_group();
                return self.reap(0).expect("a killed child ends");
            }
            thread::sleep(nap);
            nap = (nap * 5 / 4).min(Duration::from_millis(5));
        }
    }

    fn look_at_maps(&mut self) {
        if let (false, Some(library)) = (self.saw_library, self.library) {
            let maps = std::fs::read(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
            self.saw_library = String::from_utf8_lossy(&maps).contains(&*library.to_string_lossy());
        }
    }

    fn reap(&self, options: i32) -> Option<(ExitStatus, libc::rusage)> {
        let mut status = 0;
        // SAFETY: rusage is plain data, for which all zeroes is a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to live locals; the child is ours and not yet reaped.
        let pid = unsafe { libc::wait4(self.pid, &mut status, options, &mut usage) };
        (pid == self.pid).then(|| (ExitStatus::from_raw(status), usage))
    }

    fn kill_group(&self) {
        // SAFETY: the child leads its own process group, so no other process is killed.
        unsafe { libc::kill(-self.pid, libc::SIGKILL) };
    }
}

fn drain(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
}

//! Runs a command with a profile that each of its processes writes when it ends.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{self, Child, Command, ExitStatus};

use super::Prof;
use super::timeline::Timeline;
use crate::failure::{Failure, NOT_EXECUTABLE, NOT_FOUND, REFUSED};
use crate::{conf, library, preload, program, run};
use masu_profile::{Moment, Profile};

/// A directory that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, Failure> {
        let path = env::temp_dir().join(format!("masu-prof-{}", process::id()));
        fs::create_dir(&path).map_err(|error| {
            Failure::new(REFUSED, format!("`{}` cannot be made: {error}", path.display()))
                .remedy("TMPDIR names a directory to write to")
        })?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running command.
pub struct Started {
    /// Its process.
    pub child: Child,
    /// Its file.
    pub path: PathBuf,
}

/// Starts the command with a profile, which each of its processes writes to a file of that name when it ends.
pub fn start(order: &Prof, file: Option<OsString>) -> Result<Started, Failure> {
    let rate = conf::rate(order.rate.as_deref())?;
    let library = library::find(order.lib.as_deref())?;
    // clap requires the command, so there is a first word.
    let path = program::find(&order.command[0])?;
    run::check(&program::interpreter(&path)?, &library)?;
    let existing = env::var_os("LD_PRELOAD");
    let mut command = Command::new(&path);
    command
        .arg0(&order.command[0])
        .args(&order.command[1..])
        .env("LD_PRELOAD", preload::in_front(&library.path, existing.as_deref()))
        .env("MASU_PROF", "1")
        .envs(file.map(|file| ("MASU_PROF_FILE", file)))
        .envs(rate);
    let child = command.spawn().map_err(|error| {
        let missing = error.kind() == std::io::ErrorKind::NotFound;
        let code = if missing { NOT_FOUND } else { NOT_EXECUTABLE };
        Failure::new(code, format!("`{}` cannot be executed: {error}", path.display()))
    })?;
    // The terminal's signals are for the program: when it ends, there is a profile to show.
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: nothing in this process depends on them.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    Ok(Started { child, path })
}

/// Returns the exit code for how a program ended.
pub fn code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(1)
}

/// Runs the command; returns its profile, its memory over time, and the exit code for how it ended.
pub fn record(order: &Prof) -> Result<(String, Vec<Moment>, u8), Failure> {
    let scratch = Scratch::new()?;
    let mut file = OsString::from(&scratch.0);
    file.push("/%p");
    let Started { mut child, path } = start(order, Some(file))?;
    let pid = child.id();
    let timeline = Timeline::of(pid);
    let status = child.wait().map_err(|error| Failure::new(REFUSED, error.to_string()))?;
    let timeline = timeline.end();
    let text = choose(&scratch, pid).ok_or_else(|| {
        let how = match status.signal() {
            Some(signal) => format!("it was ended by signal {signal}"),
            None => "it ended by _exit or execve, or closed all its files".into(),
        };
        Failure::new(REFUSED, format!("`{}` left no profile: {how}", path.display()))
            .remedy("a profile is written when a process ends by exit or returns from main")
    })?;
    Ok((text, timeline, code(status)))
}

/// Returns the profile of the process with the highest peak, and mentions the others.
fn choose(scratch: &Scratch, pid: u32) -> Option<String> {
    let files =
        fs::read_dir(&scratch.0).ok()?.filter_map(|entry| fs::read(entry.ok()?.path()).ok());
    let texts = files.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let peak = |text: &String| {
        let profile = Profile::parse(text).ok()?;
        Some((profile.places.iter().map(|place| place.peak.bytes).sum::<f64>(), profile.pid))
    };
    let mut found: Vec<(f64, u32, String)> = texts
        .filter_map(|text| peak(&text).map(|(bytes, process)| (bytes, process, text)))
        .collect();
    // Among equals, the process that was started.
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| (a.1 != pid).cmp(&(b.1 != pid))));
    if found.len() > 1 {
        eprintln!(
            "masu: {} processes wrote profiles; this is the one with most in use, {}. For the others: MASU_PROF_FILE=DIR/%p",
            found.len(),
            found[0].1
        );
    }
    found.into_iter().next().map(|(_, _, text)| text)
}

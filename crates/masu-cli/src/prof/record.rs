//! Runs a command with a profile that each of its processes writes as it ends. That of the command itself is read from
//! outside if it ends without writing one, and so are those of its descendants, some time before they do.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{self, Command, ExitStatus};
use std::time::Duration;

use super::Prof;
use super::descendants::Descendants;
use super::follow::{self, Event, Follow};
use super::look::Subject;
use super::seize::{self, Seized};
use super::timeline::Timeline;
use crate::failure::{Failure, NOT_EXECUTABLE, NOT_FOUND, REFUSED, say, warn};
use crate::hold::Hold;
use crate::{conf, library, preload, privilege, program, run};
use masu_inspect::Engine;
use masu_profile::Profile;

/// Maximum number of directories that others have left.
const MOST: u32 = 1000;

/// A directory that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn below(directory: &Path) -> Result<Self, Failure> {
        let mut number = 0;
        loop {
            let path = directory.join(format!("masu-prof-{}-{number}", process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Scratch(path)),
                // A process that was killed leaves its own, and containers give all processes the same few numbers.
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < MOST => {
                    number += 1;
                }
                Err(error) => {
                    let problem = format!("`{}` cannot be made: {error}", path.display());
                    return Err(Failure::new(REFUSED, problem)
                        .remedy("set TMPDIR to a directory that is writable"));
                }
            }
        }
    }

    /// Makes sure that a small profile fits in.
    fn fits(&self) -> io::Result<()> {
        const SMALL: usize = 64 << 10;
        let probe = self.0.join("probe");
        let done = fs::write(&probe, [b' '; SMALL]);
        let _ = fs::remove_file(probe);
        done
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
    pub process: u32,
    /// Who waits for it.
    pub follow: Follow,
    /// Its file.
    pub path: PathBuf,
}

/// Starts the command with a profile, which each of its processes writes to a file of that name when it ends.
pub fn start(order: &Prof, file: Option<OsString>) -> Result<Started, Failure> {
    let rate = conf::rate(order.rate.as_deref())?;
    let library = library::find(order.lib.as_deref())?;
    // clap requires the command, so there is a first word.
    let path = program::find(&order.command[0])?;
    let binary = program::interpreter(&path)?;
    run::check(&binary, &library)?;
    let existing = env::var_os("LD_PRELOAD");
    let mut variables: Vec<(OsString, OsString)> = vec![("MASU_PROF".into(), "1".into())];
    variables.extend(file.map(|file| ("MASU_PROF_FILE".into(), file)));
    variables.extend(rate);
    let mut command = Command::new(&path);
    command
        .arg0(&order.command[0])
        .args(&order.command[1..])
        .env("LD_PRELOAD", preload::in_front(&library.path, existing.as_deref()))
        .envs(conf::told(&variables))
        .envs(variables);
    let hold = Hold::back(&follow::SHARED);
    // Started by a tracer, a program gains no rights.
    let started = match privilege::gained_by(&binary) {
        None => seize::start(&hold, &mut command),
        Some(_) => hold.start(&mut command).map(|child| Seized { child, mask: None }),
    };
    let seized = started.map_err(|error| {
        let missing = error.kind() == ErrorKind::NotFound;
        let code = if missing { NOT_FOUND } else { NOT_EXECUTABLE };
        Failure::new(code, format!("`{}` cannot be executed: {error}", path.display()))
    })?;
    Ok(Started { process: seized.child.id(), follow: Follow::of(&seized)?, path })
}

/// Returns the exit code for how a program ended.
pub fn code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(1)
}

/// Runs the command; its profile, if it left one, and the exit code that says how it ended.
pub fn record(order: &Prof) -> Result<(Option<Profile>, u8), Failure> {
    let scratch = Scratch::below(&env::temp_dir())?;
    let mut file = OsString::from(&scratch.0);
    file.push("/%p");
    // Each process would warn of an option that nobody has set.
    let file = scratch.fits().map(|()| file).map_err(|error| {
        let directory = env::temp_dir();
        warn(&format!(
            "`{}` takes no profiles: {error}; those of child processes may be missing; TMPDIR names another directory",
            directory.display()
        ));
    });
    let Started { process, mut follow, path } = start(order, file.ok())?;
    let timeline = Timeline::of(process);
    let (mut read, mut descendants) = (None, Descendants::of(process));
    let mut is_partial = false;
    let status = loop {
        match follow
            .next(Some(descendants.pause()))
            .map_err(|error| Failure::new(REFUSED, error.to_string()))?
        {
            Event::Ended(status) => break status,
            Event::Ending => {
                // After this they are no descendants any more.
                descendants.look();
                let file = scratch.0.join(process.to_string());
                let subject = Subject::of(process, false);
                // A Rust program's own masu and the preloaded one write the same file, the later over the earlier.
                let is_shared = subject.as_ref().is_ok_and(|subject| subject.engines.len() > 1);
                is_partial =
                    subject.as_ref().is_ok_and(|it| !it.engines.iter().all(Engine::has_profile));
                if is_shared || written(&file).is_none() {
                    read = subject.and_then(|mut subject| subject.look()).ok();
                }
                if is_shared && read.as_ref().is_some_and(Option::is_some) {
                    let _ = fs::remove_file(file);
                }
            }
            Event::Runs => descendants.look(),
        }
    };
    let timeline = timeline.end();
    if is_partial {
        warn(
            "the program's own masu is built without the heap profile, so its blocks are not in this one: enable the \
             feature prof of the crate masu",
        );
    }
    let profile = choose(&scratch, process, read.flatten(), descendants);
    if profile.is_none() {
        let how = match status.signal() {
            Some(signal) => format!("signal {signal} ended it"),
            None => "it ended by _exit or execve, or closed all its files".into(),
        };
        let failure = Failure::new(REFUSED, format!("`{}` left no profile: {how}", path.display()));
        failure
            .remedy("`masu run -- COMMAND` starts it, and `masu prof -p PID` takes its profile while it runs")
            .tell();
    }
    Ok((profile.map(|profile| Profile { timeline, ..profile }), code(status)))
}

/// A profile that was written as a whole.
fn written(file: &Path) -> Option<Profile> {
    Profile::parse(&String::from_utf8_lossy(&fs::read(file).ok()?)).ok()
}

/// The profile of the process with most in use at its peak, and a note on the others.
fn choose(
    scratch: &Scratch,
    process: u32,
    read: Option<Profile>,
    descendants: Descendants,
) -> Option<Profile> {
    let files = fs::read_dir(&scratch.0).into_iter().flatten().flatten();
    let mut whole: Vec<Profile> = files.filter_map(|file| written(&file.path())).collect();
    // A process whose main thread ends first was read then, and writes its profile later.
    whole.extend(read.filter(|read| whole.iter().all(|it| it.pid != read.pid)));
    let mut found: Vec<(Profile, Option<Duration>)> =
        whole.into_iter().map(|it| (it, None)).collect();
    let is_new =
        |it: &(Profile, Option<Duration>)| found.iter().all(|(old, _)| old.pid != it.0.pid);
    let partial: Vec<_> =
        descendants.last().map(|(it, age)| (it, Some(age))).filter(is_new).collect();
    found.extend(partial);
    let peak = |profile: &Profile| profile.places.iter().map(|it| it.peak.bytes).sum::<f64>();
    // Among equals the one that was started.
    found.sort_by(|(a, _), (b, _)| {
        let order = peak(b).total_cmp(&peak(a));
        order.then_with(|| (a.pid != process).cmp(&(b.pid != process)))
    });
    let count = found.len();
    let (profile, age) = found.into_iter().next()?;
    if count > 1 {
        say(&format!(
            "masu: {count} processes of the command ran on masu; this is the profile of the one with most in use, {}\n  \
             all profiles: MASU_PROF_FILE=DIR/%p masu run -- COMMAND",
            named(&profile)
        ));
    }
    if let Some(age) = age {
        say_when(&profile, age);
    }
    Some(profile)
}

/// Says when a profile was read that is not of the process's end.
pub fn say_when(profile: &Profile, age: Duration) {
    say(&format!(
        "masu: process {} wrote no profile: this was read from it {:.1} s before the command ended\n  \
         `masu prof -- PROGRAM`, without a shell, reads the profile at the program's end",
        named(profile),
        age.as_secs_f64()
    ));
}

/// A process's number and the name of its program.
fn named(profile: &Profile) -> String {
    // The program lies below its libraries.
    let program = profile.mappings.first().and_then(|mapping| mapping.path.file_name());
    let program = program.map(|name| format!(" ({})", name.to_string_lossy()));
    format!("{}{}", profile.pid, program.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use masu_profile::{Amount, Place};

    #[test]
    fn what_others_have_left_is_in_nobodys_way() {
        let place = tempfile::tempdir().unwrap();
        let [one, other] = [(); 2].map(|()| Scratch::below(place.path()).unwrap());
        assert_ne!(one.0, other.0);
        assert!(one.fits().is_ok() && fs::read_dir(&one.0).unwrap().count() == 0);
        fs::remove_dir(&other.0).unwrap();
        assert!(other.fits().is_err());
        drop((one, other));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        assert!(Scratch::below(&place.path().join("none")).is_err());
    }

    #[test]
    fn a_process_that_was_read_and_then_wrote_its_profile_is_one() {
        let place = tempfile::tempdir().unwrap();
        let scratch = Scratch::below(place.path()).unwrap();
        let profile = |milliseconds, bytes| {
            let peak = Amount { objects: 1.0, bytes };
            let places = vec![Place { size: 16, peak, ..Place::default() }];
            Profile { rate: 1, pid: 7, milliseconds, places, ..Profile::default() }
        };
        fs::write(scratch.0.join("7"), profile(2, 16.0).text()).unwrap();
        let chosen = choose(&scratch, 7, Some(profile(1, 32.0)), Descendants::of(7)).unwrap();
        assert_eq!(chosen.milliseconds, 2);
        // Without a file there is only that.
        fs::remove_file(scratch.0.join("7")).unwrap();
        let chosen = choose(&scratch, 7, Some(profile(1, 32.0)), Descendants::of(7)).unwrap();
        assert_eq!(chosen.milliseconds, 1);
    }
}

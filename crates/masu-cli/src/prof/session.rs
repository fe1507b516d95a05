//! A process that samples as long as it is read from outside.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use masu_inspect::memory::Memory;
use masu_inspect::profile::Claim;
use masu_inspect::{Engine, Error};
use masu_profile::Profile;

use super::look::Subject;

/// Maximum time between two readings, of which the last one counts.
const BETWEEN: Duration = Duration::from_millis(500);

/// Why nothing can be read.
#[derive(Debug)]
pub enum Trouble {
    /// The process does not exist, has no masu, or may not be read.
    Unreadable(Error),
    /// Its masu was built without the profile.
    Absent(u32),
    /// Another command is profiling it.
    Taken(u32),
    /// It takes a profile itself, with a sample every given number of bytes, and another rate was
    /// requested.
    Rate(u32, u64),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Unreadable(error)
    }
}

impl Trouble {
    /// Returns what can be done about it.
    pub fn remedy(&self) -> String {
        match self {
            Trouble::Unreadable(error) => error.remedy(),
            Trouble::Absent(_) => {
                "build the program with the feature prof of the crate masu enabled".into()
            }
            Trouble::Taken(_) => {
                "wait until that has ended: only one command at a time can profile a process".into()
            }
            Trouble::Rate(..) => "without --rate, its own samples are shown".into(),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Trouble::Unreadable(error) => error.fmt(f),
            Trouble::Absent(process) => {
                write!(f, "the masu in process {process} is built without the heap profile")
            }
            Trouble::Taken(process) => {
                write!(
                    f,
                    "process {process} is being profiled by another `masu prof` or `masu export`"
                )
            }
            Trouble::Rate(process, rate) => {
                write!(
                    f,
                    "process {process} is already taking a profile, with a sample in {rate} bytes"
                )
            }
        }
    }
}

/// A process that samples: on its own, or switched on until this is dropped.
pub struct Session {
    memory: Memory,
    /// The copies of masu in it that must be switched off again.
    ours: Vec<Engine>,
    /// No other command may switch it meanwhile.
    claim: Option<Claim>,
}

impl Session {
    /// Switches sampling on where the program has not done so itself: at `rate`, or at `usual`.
    pub fn on(process: u32, rate: Option<u64>, usual: u64) -> Result<Session, Trouble> {
        let (memory, mut engines) = masu_inspect::engines(process)?;
        engines.retain(Engine::has_profile);
        if engines.is_empty() {
            return Err(Trouble::Absent(process));
        }
        let claim = Claim::of(process)?;
        let mut session = Session { memory, ours: Vec::new(), claim };
        let mut off = Vec::new();
        for engine in engines {
            let state = engine.profile_state(&session.memory)?;
            // Sampling left on by a killed command is taken over.
            match state.rate != 0 && state.guest == 0 {
                true if rate.is_some_and(|rate| rate != state.rate) => {
                    return Err(Trouble::Rate(process, state.rate));
                }
                true => {}
                false => off.push(engine),
            }
        }
        if !off.is_empty() && session.claim.is_none() {
            return Err(Trouble::Taken(process));
        }
        for engine in off {
            engine.start_profile(&session.memory, rate.unwrap_or(usual))?;
            session.ours.push(engine);
        }
        Ok(session)
    }

    /// Whether the program itself has switched it on, in every copy of masu.
    pub fn is_programs(&self) -> bool {
        self.ours.is_empty()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for engine in &self.ours {
            // The process may have ended.
            let _ = engine.stop_profile(&self.memory);
        }
    }
}

/// The result of an observation.
pub struct Observed {
    /// The last profile that could be read. `None` if the process has not noticed it.
    pub profile: Option<Profile>,
    /// Why there is nothing more to read, if the process has ended meanwhile or has executed another program.
    pub end: Option<Error>,
}

/// Reads repeatedly, for `span` or until `stop` is set.
pub fn observe(
    subject: &mut Subject,
    span: Duration,
    stop: &AtomicBool,
) -> Result<Observed, Error> {
    observe_until(subject, span, || stop.load(Ordering::Relaxed))
}

/// Looks again and again, for `span` or until it is to `stop`.
pub fn observe_until(
    subject: &mut Subject,
    span: Duration,
    stop: impl Fn() -> bool,
) -> Result<Observed, Error> {
    let (start, mut last) = (Instant::now(), None);
    loop {
        let left = span.saturating_sub(start.elapsed());
        let step = (span / 20).clamp(Duration::from_millis(1), BETWEEN);
        let pause = Instant::now();
        while pause.elapsed() < step.min(left) && !stop() {
            thread::sleep(Duration::from_millis(20).min(step.min(left)));
        }
        let look = subject.look();
        if let Some(end) = subject.memory.end() {
            return Ok(Observed { profile: last, end: Some(end) });
        }
        match look {
            Ok(Some(profile)) => last = Some(profile),
            Ok(None) => {}
            Err(end @ (Error::Ended(_) | Error::NoProcess(_))) => {
                return Ok(Observed { profile: last, end: Some(end) });
            }
            // Something moved during the reading: the next one will succeed.
            Err(Error::Damaged(_)) if last.is_some() => {}
            Err(error) => return Err(error),
        }
        if start.elapsed() >= span || stop() {
            return Ok(Observed { profile: last, end: None });
        }
    }
}

//! Heap profiles of single processes, for collectors that request them.
//!
//! A process samples while at least one request reads it. Overlapping requests share that: the first switches sampling
//! on, the last one off. Each waits in its connection's thread; at most [`MOST`] do, so that connections are left for
//! metrics.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use masu_inspect::Error;
use masu_profile::{Profile, View, pprof};

use super::http::Answer;
use super::server::Gone;
use crate::names;
use crate::prof::look::{self, Subject};
use crate::prof::session::{Observed, Session, Trouble, observe_until};
use crate::worker::{Late, Worker};

/// How long a process is observed by default: less than collectors wait.
const USUAL: Duration = Duration::from_secs(5);
/// The maximum.
const LONGEST: Duration = Duration::from_secs(600);
/// Maximum number of simultaneous requests, and of those for one process, which may never let them end.
const MOST: usize = 16;
const MOST_OF_ONE: usize = 4;
/// How long names are looked up: a file with them may be of any size, or on a file system that does not answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The kind of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Everything allocated since sampling began, and what is in use.
    Allocs,
    /// What is in use, and everything allocated since sampling began.
    Heap,
    /// Everything allocated since the request arrived, and what is in use.
    DeltaHeap,
}

impl What {
    /// Finds a kind by its name in a path.
    pub fn named(name: &str) -> Option<What> {
        match name {
            "allocs" => Some(What::Allocs),
            "heap" => Some(What::Heap),
            "delta_heap" => Some(What::DeltaHeap),
            _ => None,
        }
    }

    /// Returns the figure that a reader shows first.
    fn view(self) -> View {
        match self {
            What::Heap => View::Live,
            What::Allocs | What::DeltaHeap => View::Allocated,
        }
    }
}

/// Profiles of any process.
pub struct Profiles {
    /// Bytes between two samples.
    rate: u64,
    /// Set when the exporter must stop.
    stop: Arc<AtomicBool>,
    /// The processes that requests want. It is never locked for long: what a process may hold up is done under a lock
    /// of its own.
    wanted: Mutex<Wanted>,
    requests: AtomicUsize,
    /// Names are looked up for one profile at a time, because debugging information may be large.
    naming: Mutex<Naming>,
}

/// Looks names up.
#[derive(Default)]
struct Naming {
    worker: Worker,
    /// The processes for which that takes too long.
    late: HashMap<u32, Late>,
}

impl Naming {
    /// Returns a profile of a process for pprof, compressed.
    fn encode(&mut self, process: u32, profile: Profile, view: View) -> Result<Vec<u8>, Answer> {
        let too_long =
            || Answer::refusal(503, "looking up the names of its functions takes too long");
        self.late.retain(|_, late| !late.is_over());
        if self.late.contains_key(&process) {
            return Err(too_long());
        }
        let work = move || pprof::encode_for_collectors(&profile, &names::of(&profile), view);
        match self.worker.within(PATIENCE, work) {
            Ok((encoded, _)) => encoded.map_err(|error| {
                Answer::refusal(500, &format!("the profile cannot be compressed: {error}"))
            }),
            Err(late) => {
                self.late.insert(process, late);
                Err(too_long())
            }
        }
    }
}

/// Processes, and the number of requests that want each.
type Wanted = HashMap<u32, (Arc<Mutex<Sampled>>, usize)>;

/// A process that samples while requests read it.
#[derive(Default)]
struct Sampled {
    session: Option<Session>,
    readers: usize,
}

/// One request's entry in the list of processes that are wanted.
struct Entry<'a> {
    profiles: &'a Profiles,
    process: u32,
    sampled: Arc<Mutex<Sampled>>,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let mut wanted = lock(&self.profiles.wanted);
        let Some((_, requests)) = wanted.get_mut(&self.process) else { return };
        *requests -= 1;
        if *requests == 0 {
            wanted.remove(&self.process);
        }
    }
}

/// One request's share of a session. It ends before the entry does, so the next session of the process begins after it.
struct Share<'a>(Entry<'a>);

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let mut sampled = lock(&self.0.sampled);
        sampled.readers -= 1;
        if sampled.readers == 0 {
            sampled.session = None;
        }
    }
}

/// A place among the simultaneous requests.
struct Seat<'a>(&'a AtomicUsize);

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Profiles {
    /// Samples every `rate` bytes, until `stop` is set.
    pub fn new(rate: u64, stop: Arc<AtomicBool>) -> Profiles {
        Profiles {
            rate,
            stop,
            wanted: Mutex::default(),
            requests: AtomicUsize::new(0),
            naming: Mutex::default(),
        }
    }

    /// The profile of a process for pprof, compressed; or why there is none. `seconds` is how long to sample, if the
    /// reader says so; it ends once that is `gone`.
    pub fn of(
        &self,
        process: u32,
        what: What,
        seconds: Option<u64>,
        gone: &Gone<'_>,
    ) -> Result<Vec<u8>, Answer> {
        let span = span(seconds)?;
        let before = self.requests.fetch_add(1, Ordering::AcqRel);
        let _seat = Seat(&self.requests);
        if before >= MOST {
            return Err(Answer::refusal(503, "too many profiles at once; try again"));
        }
        let Some(entry) = self.entry(process) else {
            return Err(Answer::refusal(
                503,
                "too many profiles of this process at once; try again",
            ));
        };
        let profile = self.take(entry, what, span, gone).map_err(|trouble| refusal(&trouble))?;
        if gone() {
            return Err(Answer::refusal(503, "the client has disconnected"));
        }
        lock(&self.naming).encode(process, profile, what.view())
    }

    /// Whether there is a profile of a process, without taking it; or why not.
    pub fn is_there(&self, process: u32, seconds: Option<u64>) -> Result<(), Answer> {
        span(seconds)?;
        let found = masu_inspect::engines(process).map_err(Trouble::Unreadable);
        found.map(drop).map_err(|trouble| refusal(&trouble))
    }

    fn take(
        &self,
        entry: Entry<'_>,
        what: What,
        span: Option<Duration>,
        gone: &Gone<'_>,
    ) -> Result<Profile, Trouble> {
        let process = entry.process;
        let mut subject = Subject::of(process, false)?;
        let (_share, is_programs) = self.join(entry)?;
        let (since, is_delta) = (look::now(), what == What::DeltaHeap);
        subject.since = since;
        let base = if is_delta { subject.look()? } else { None };
        // The program's own samples exist already.
        let usual = if is_programs && !is_delta { Duration::ZERO } else { USUAL };
        let stop = || self.stop.load(Ordering::Relaxed) || gone();
        let Observed { profile, end } = observe_until(&mut subject, span.unwrap_or(usual), stop)?;
        let observed = look::now().saturating_sub(since);
        let mut profile = match (profile, end) {
            (Some(profile), _) => profile,
            (None, Some(end)) => return Err(end.into()),
            // It has not allocated anything: an empty profile.
            (None, None) => {
                let mut profile = Profile {
                    pid: process,
                    rate: self.rate,
                    milliseconds: observed,
                    outside: true,
                    ..Profile::default()
                };
                look::map(&mut profile)?;
                profile
            }
        };
        if is_delta {
            if let Some(base) = &base {
                profile.allocated_since(base);
            }
            profile.milliseconds = observed;
        }
        Ok(profile)
    }

    /// Makes the process sample; returns whether it does so itself.
    fn join<'a>(&self, entry: Entry<'a>) -> Result<(Share<'a>, bool), Trouble> {
        let mut sampled = lock(&entry.sampled);
        let session = match sampled.session.take() {
            Some(session) => session,
            None => Session::on(entry.process, None, self.rate)?,
        };
        let is_programs = session.is_programs();
        sampled.session = Some(session);
        sampled.readers += 1;
        drop(sampled);
        Ok((Share(entry), is_programs))
    }

    /// Notes that a request wants a process; `None` if too many do.
    fn entry(&self, process: u32) -> Option<Entry<'_>> {
        let mut wanted = lock(&self.wanted);
        let (sampled, requests) = wanted.entry(process).or_default();
        if *requests >= MOST_OF_ONE {
            return None;
        }
        *requests += 1;
        Some(Entry { profiles: self, process, sampled: sampled.clone() })
    }
}

/// Returns how long to sample.
fn span(seconds: Option<u64>) -> Result<Option<Duration>, Answer> {
    let span = seconds.map(Duration::from_secs);
    match span.is_some_and(|span| span > LONGEST) {
        true => Err(Answer::refusal(400, "seconds may be at most 600")),
        false => Ok(span),
    }
}

fn refusal(trouble: &Trouble) -> Answer {
    let status = match trouble {
        Trouble::Unreadable(Error::Refused(_) | Error::Guarded(_)) => 403,
        Trouble::Unreadable(Error::Damaged(_) | Error::Replaced(_)) => 503,
        Trouble::Unreadable(Error::Version { .. }) | Trouble::Absent(_) => 501,
        Trouble::Unreadable(_) => 404,
        Trouble::Taken(_) | Trouble::Rate(..) => 409,
    };
    Answer::refusal(status, &format!("{trouble}: {}", trouble.remedy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_wanted_as_long_as_a_request_wants_it() {
        let profiles = Profiles::new(1, Arc::default());
        let entry = |process| profiles.entry(process).expect("few requests");
        let (one, other) = (entry(7), entry(7));
        assert!(Arc::ptr_eq(&one.sampled, &other.sampled));
        // Whoever is held up by one process holds up no other.
        let held = lock(&one.sampled);
        drop(entry(8));
        drop(held);
        drop(one);
        assert_eq!(lock(&profiles.wanted).keys().collect::<Vec<_>>(), [&7]);
        drop(other);
        assert!(lock(&profiles.wanted).is_empty());
        // This process has no masu.
        assert!(profiles.join(entry(std::process::id())).is_err());
        assert!(lock(&profiles.wanted).is_empty());
    }

    #[test]
    fn one_process_does_not_take_the_places_of_all_requests() {
        let profiles = Profiles::new(1, Arc::default());
        let mut entries: Vec<_> = (0..MOST_OF_ONE).map(|_| profiles.entry(7)).collect();
        assert!(entries.iter().all(Option::is_some) && profiles.entry(7).is_none());
        assert!(profiles.entry(8).is_some());
        entries.pop();
        assert!(profiles.entry(7).is_some());
    }
}

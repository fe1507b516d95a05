//! Takes the profile of a process that runs already: switches it on, reads it from outside, and switches it off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use masu_inspect::memory::Memory;
use masu_inspect::profile::Claim;
use masu_inspect::{Engine, Error};
use masu_profile::{Profile, View};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::Prof;
use super::look::{Subject, now};
use crate::conf;
use crate::failure::{Failure, REFUSED, USAGE, warn};
use crate::see::failure;

/// How long, if nobody says.
const DEFAULT: Duration = Duration::from_secs(10);
/// Between two looks, of which the last one counts, at the longest.
const BETWEEN: Duration = Duration::from_millis(500);

/// The profile of a process.
pub fn attach(order: &Prof, process: u32) -> Result<Profile, Failure> {
    let rate = conf::rate_in_bytes(order.rate.as_deref())?;
    let said = |error| failure(&error);
    let (memory, engines) = masu_inspect::engines(process).map_err(said)?;
    let claim = Claim::of(process).map_err(said)?;
    let _claim = claim.ok_or_else(|| taken(process))?;
    let mut ours = Vec::new();
    for engine in &engines {
        let state = engine.profile_state(&memory).map_err(said)?;
        // What a command that was killed has left on is taken over.
        let is_programs = state.rate != 0 && state.guest == 0;
        if is_programs && order.rate.is_some() && rate != state.rate {
            return Err(Failure::new(
                USAGE,
                format!(
                    "process {process} takes a profile already, a sample in {} bytes",
                    state.rate
                ),
            )
            .remedy("without --rate its own samples are shown"));
        }
        ours.push(!is_programs);
    }
    let retained = super::view(order)? == View::Retained;
    let mut subject = Subject { memory, engines, since: now(), retained };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::new(REFUSED, error.to_string()))?;
    }
    let mut ended = false;
    let switched = |subject: &Subject, switch: fn(&Engine, &Memory, u64) -> Result<(), Error>| {
        let mut engines = subject.engines.iter().zip(&ours).filter(|(_, ours)| **ours);
        engines.try_for_each(|(engine, _)| switch(engine, &subject.memory, rate))
    };
    let observed = switched(&subject, Engine::start_profile)
        .map_err(said)
        .and_then(|()| observe(&mut subject, order.span.unwrap_or(DEFAULT), &stop, &mut ended));
    // The process may have ended.
    let _ = switched(&subject, |engine, memory, _| engine.stop_profile(memory));
    let profile = observed?;
    if ended {
        warn(&format!("process {process} has ended; this is what was read until then"));
    }
    profile.ok_or_else(|| nothing(process, ended))
}

/// Looks again and again; the last profile that could be read.
fn observe(
    subject: &mut Subject,
    span: Duration,
    stop: &AtomicBool,
    ended: &mut bool,
) -> Result<Option<Profile>, Failure> {
    let (start, mut last) = (Instant::now(), None);
    loop {
        let left = span.saturating_sub(start.elapsed());
        let step = (span / 20).clamp(Duration::from_millis(1), BETWEEN);
        let pause = Instant::now();
        while pause.elapsed() < step.min(left) && !stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(20).min(step.min(left)));
        }
        match subject.look() {
            Ok(Some(profile)) => last = Some(profile),
            Ok(None) => {}
            Err(Error::Ended(_) | Error::NoProcess(_)) => {
                *ended = true;
                return Ok(last);
            }
            // Something moved while it was read: the next look sees it at rest.
            Err(Error::Damaged(_)) if last.is_some() => {}
            Err(error) => return Err(failure(&error)),
        }
        if start.elapsed() >= span || stop.load(Ordering::Relaxed) {
            return Ok(last);
        }
    }
}

fn taken(process: u32) -> Failure {
    Failure::new(USAGE, format!("process {process} is just being profiled by another `masu prof`"))
        .remedy("wait until that has ended; one profile at a time is taken of a process")
}

fn nothing(process: u32, ended: bool) -> Failure {
    let (problem, remedy) = match ended {
        true => (
            format!("process {process} has ended before anything could be read"),
            "`masu prof -- COMMAND` follows a program from its start to its end",
        ),
        false => (
            format!("process {process} has not allocated meanwhile, or too little to be noticed"),
            "a longer --for observes it until it does",
        ),
    };
    Failure::new(REFUSED, problem).remedy(remedy)
}

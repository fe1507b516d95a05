//! Takes the profile of a running process: switches it on, reads it from outside, and switches it off.

use std::io::{IsTerminal, stderr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use masu_inspect::Error;
use masu_profile::{Profile, View};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::Prof;
use super::look::{Subject, now};
use super::session::{Observed, Session, Trouble, observe};
use super::timeline::Timeline;
use crate::conf;
use crate::failure::{Failure, REFUSED, USAGE, say, warn};
use crate::hold::heeded;
use crate::see::failure;

/// The default duration.
const DEFAULT: Duration = Duration::from_secs(10);

/// Returns the profile of a process.
pub fn attach(order: &Prof, process: u32) -> Result<Profile, Failure> {
    let usual = conf::rate_in_bytes(order.rate.as_deref())?;
    let rate = order.rate.is_some().then_some(usual);
    let retained = super::view(order) == View::Retained;
    let mut subject = Subject::of(process, retained).map_err(|error| failure(&error))?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in heeded(&[SIGINT, SIGTERM, SIGHUP]) {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::new(REFUSED, error.to_string()))?;
    }
    let session = Session::on(process, rate, usual).map_err(|trouble: Trouble| {
        Failure::new(USAGE, trouble.to_string()).remedy(trouble.remedy())
    })?;
    subject.since = now();
    let timeline = Timeline::of(process);
    let span = order.span.unwrap_or(DEFAULT);
    if stderr().is_terminal() {
        let seconds = span.as_secs_f64();
        say(&format!(
            "masu: process {process} is being sampled for {seconds} s; Ctrl-C ends that sooner"
        ));
    }
    let observed = observe(&mut subject, span, &stop);
    drop(session);
    let timeline = timeline.end();
    let Observed { profile, end } = observed.map_err(|error| failure(&error))?;
    if let (Some(end), true) = (&end, profile.is_some()) {
        warn(&format!("{end}; this is what was read before"));
    }
    let profile = profile.ok_or_else(|| nothing(process, end.as_ref()))?;
    Ok(Profile { timeline, ..profile })
}

fn nothing(process: u32, end: Option<&Error>) -> Failure {
    let (problem, remedy) = match end {
        Some(end) => (
            format!("{end} before anything could be read"),
            "`masu prof -- COMMAND` follows a program from its start to its end",
        ),
        None => (
            format!(
                "process {process} has allocated nothing in this time, or too little to be sampled"
            ),
            "give it more time with --for",
        ),
    };
    Failure::new(REFUSED, problem).remedy(remedy)
}

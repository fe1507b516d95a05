//! Runs a command and reads it and its descendants from outside, to catch the moment when one of these processes has
//! most free memory beside its blocks in use.

use std::time::Duration;

use masu_profile::Profile;
use masu_watch::process::family;

use super::Prof;
use super::follow::Event;
use super::look::Subject;
use super::record::{self, Started};
use super::timeline::Timeline;
use crate::failure::{Failure, REFUSED};

/// Time between two readings.
const BETWEEN: Duration = Duration::from_millis(100);

/// Runs the command; returns its profile, if there is one, and the exit code for how it ended.
pub fn record(order: &Prof) -> Result<(Option<Profile>, u8), Failure> {
    let Started { process, mut follow, path } = record::start(order, None)?;
    let mut best: Option<Profile> = None;
    let timeline = Timeline::of(process);
    let free = |profile: &Profile| profile.free.map_or(0.0, |free| free.bytes);
    let status = loop {
        let event = follow.next(Some(BETWEEN));
        let event = event.map_err(|error| Failure::new(REFUSED, error.to_string()))?;
        if let Event::Ended(status) = event {
            break status;
        }
        for process in family(process) {
            // In its first moments it may be something else yet.
            if let Ok(mut subject) = Subject::of(process, true)
                && let Ok(Some(profile)) = subject.look()
                && best.as_ref().is_none_or(|best| free(best) <= free(&profile))
            {
                best = Some(profile);
            }
        }
    };
    let timeline = timeline.end();
    if best.is_none() {
        Failure::new(REFUSED, format!("`{}` ended before it could be read", path.display()))
            .remedy("--retained needs a program that runs for at least half a second")
            .tell();
    }
    Ok((best.map(|profile| Profile { timeline, ..profile }), record::code(status)))
}

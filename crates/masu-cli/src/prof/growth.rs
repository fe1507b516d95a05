//! Runs a command and reads it and its descendants from outside: what they have in use at the end that they allocated
//! after a moment of the run. By default that moment is the middle, which is known only at the end: each sample has the
//! time at which it was taken.

use std::time::Instant;

use masu_profile::{Profile, View};
use masu_watch::process::family;

use super::Prof;
use super::descendants::Descendants;
use super::follow::Event;
use super::look::now;
use super::record::{self, Started};
use super::timeline::Timeline;
use crate::failure::{Failure, REFUSED, say};

/// Runs the command; returns the profile of the process that has grown most, if there is one, and the exit code for how
/// the command ended.
pub fn record(order: &Prof) -> Result<(Option<Profile>, u8), Failure> {
    let Started { process, mut follow, path } = record::start(order, None)?;
    let (begin, start) = (Instant::now(), now());
    let timeline = Timeline::of(process);
    let after = || order.after.unwrap_or(begin.elapsed() / 2);
    let (mut processes, mut is_read_at_its_end) = (Descendants::of(process), false);
    let status = loop {
        let event = follow.next(Some(processes.pause()));
        match event.map_err(|error| Failure::new(REFUSED, error.to_string()))? {
            Event::Ended(status) => break status,
            Event::Ending => is_read_at_its_end = true,
            Event::Runs => {}
        }
        let since = start.saturating_add(after().as_millis().try_into().unwrap_or(u64::MAX));
        processes.look_at(family(process), Some(since));
    };
    let (timeline, ran, after) = (timeline.end(), begin.elapsed(), after());
    let grown = |it: &Profile| it.places.iter().map(|it| View::Later.of(it).bytes).sum::<f64>();
    let most = processes.last().max_by(|(a, _), (b, _)| {
        // Among equals the one that was started.
        grown(a).total_cmp(&grown(b)).then_with(|| (a.pid == process).cmp(&(b.pid == process)))
    });
    let code = record::code(status);
    let Some((profile, age)) = most.filter(|_| ran >= after) else {
        let (problem, remedy) = match ran < after {
            true => ("ended before --after", "a shorter time, or none for half of its run"),
            false => ("ended before it could be read", "`masu prof --leaks` needs less time"),
        };
        Failure::new(
            REFUSED,
            format!("`{}` {problem}: {:.1} s", path.display(), ran.as_secs_f64()),
        )
        .remedy(remedy)
        .tell();
        return Ok((None, code));
    };
    if order.after.is_none() {
        let (after, ran) = (after.as_secs_f64(), ran.as_secs_f64());
        say(&format!(
            "masu: growth counts from the middle of the run, after {after:.1} s of {ran:.1} s\n  --after T counts from \
             another moment"
        ));
    }
    if profile.pid != process || !is_read_at_its_end {
        record::say_when(&profile, age);
    }
    Ok((Some(Profile { timeline, ..profile }), code))
}

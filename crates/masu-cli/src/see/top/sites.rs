//! Where the selected process allocates: a profile of ten seconds, taken while the list keeps
//! running.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use masu_profile::View;

use crate::conf;
use crate::names;
use crate::prof::look::Subject;
use crate::prof::session::{Session, Trouble, observe};
use crate::prof::text;

/// How long it takes.
const SPAN: Duration = Duration::from_secs(10);

/// A profile being taken.
pub struct Sites {
    process: u32,
    begun: Instant,
    stop: Arc<AtomicBool>,
    taker: Option<JoinHandle<Result<String, String>>>,
}

impl Sites {
    /// Begins to take one.
    pub fn of(process: u32) -> Sites {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let taker = thread::spawn(move || {
            take(process, &stopped).map_err(|trouble| format!("{trouble}: {}", trouble.remedy()))
        });
        Sites { process, begun: Instant::now(), stop, taker: Some(taker) }
    }

    /// Returns the message shown meanwhile.
    pub fn progress(&self) -> String {
        let left = SPAN.saturating_sub(self.begun.elapsed()).as_secs() + 1;
        format!("process {} is being sampled, {left} s more   Esc ends that", self.process)
    }

    /// Ends it early: the profile so far is shown.
    pub fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether [`told`](Self::told) will not wait.
    pub fn is_done(&self) -> bool {
        self.taker.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Returns the report, or why there is none.
    pub fn told(mut self) -> Result<String, String> {
        let taker = self.taker.take().map(JoinHandle::join);
        taker.and_then(Result::ok).unwrap_or_else(|| Err("the profile was lost".into()))
    }
}

impl Drop for Sites {
    /// The process must not keep sampling.
    fn drop(&mut self) {
        self.end();
        if let Some(taker) = self.taker.take() {
            let _ = taker.join();
        }
    }
}

/// Takes a profile: everything allocated, and the part still in use.
fn take(process: u32, stop: &AtomicBool) -> Result<String, Trouble> {
    let mut subject = Subject::of(process, false)?;
    let session = Session::on(process, None, conf::usual_rate())?;
    let observed = observe(&mut subject, SPAN, stop)?;
    drop(session);
    let Some(profile) = observed.profile else {
        return Ok(format!(
            "process {process} has allocated nothing in this time, or too little to be sampled\n"
        ));
    };
    let symbols = names::of(&profile);
    let [grown, all] =
        [View::Grown, View::Allocated].map(|view| text::report(&profile, &symbols, view));
    Ok(format!("{grown}\n{all}"))
}

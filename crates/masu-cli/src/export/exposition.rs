//! The metrics as text, cached for a while and shared by all clients.
//!
//! Clients get figures that are at most a second old, or older if measuring is slow: the exporter rests ninety-nine
//! times as long as it has measured, so it takes at most a hundredth of a processor however often it is asked.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use super::families::Figures;
use super::fleet::{Fleet, Process};
use super::groups::{self, Groups};
use super::older;
use crate::worker::processor_time;

/// Measuring takes one part in this many of a processor's time.
const SHARE: u32 = 100;
/// Older than the exporter: a century. A longer time might not fit into an [`Instant`].
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The format of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// OpenMetrics 1.0.
    Open {
        /// Whether it is compressed.
        gzip: bool,
    },
    /// The older text format, 0.0.4.
    Text {
        /// Whether it is compressed.
        gzip: bool,
    },
}

/// The metrics of all processes.
pub struct Exposition {
    max_age: Duration,
    state: Mutex<State>,
}

/// What is shown.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    /// Processes at most, or groups.
    pub most: usize,
    /// Whether processes are summed by name.
    pub is_summed: bool,
    /// Whether there are counters of groups: those of a single look would fall.
    pub counters: bool,
}

struct State {
    fleet: Fleet,
    groups: Option<Groups>,
    counters: bool,
    looks: u64,
    failures: u64,
    /// Until when the pages are fresh.
    until: Option<Instant>,
    /// Processor time spent on them so far.
    took: Duration,
    since: Instant,
    processes: Vec<Process>,
    pages: [Option<Arc<[u8]>>; 4],
}

impl Exposition {
    /// Limits what is shown, and the age of figures when measuring is quick.
    pub fn new(shown: Shown, max_age: Duration) -> Exposition {
        let Shown { most, is_summed, counters } = shown;
        let state = State {
            // All of them belong to groups.
            fleet: Fleet::new(if is_summed { usize::MAX } else { most }),
            groups: is_summed.then(|| Groups::new(most)),
            counters: counters || !is_summed,
            looks: 0,
            failures: 0,
            until: None,
            took: Duration::ZERO,
            since: Instant::now(),
            processes: Vec::new(),
            pages: [None, None, None, None],
        };
        Exposition { max_age: max_age.min(FOREVER), state: Mutex::new(state) }
    }

    /// Returns the page.
    pub fn page(&self, form: Form) -> Arc<[u8]> {
        self.with(|state| state.page(form, self.max_age))
    }

    /// Returns the processes, by process ID.
    pub fn processes(&self) -> Vec<Process> {
        self.with(|state| state.processes.clone())
    }

    fn with<T>(&self, ask: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.until.is_none_or(|until| until <= Instant::now()) {
            state.look(self.max_age);
        }
        ask(&mut state)
    }
}

impl State {
    fn look(&mut self, max_age: Duration) {
        self.since = Instant::now();
        let start = processor_time();
        let seen = self.fleet.look();
        // This thread's time is added below.
        self.took = seen.took;
        let took = processor_time().saturating_sub(start) + seen.took;
        self.looks += 1;
        self.failures += seen.failed as u64;
        self.processes.clone_from(&seen.processes);
        let sum = |groups: &mut Groups| groups.sum(&seen.processes, groups::is_there);
        let figures = Figures {
            groups: self.groups.as_mut().map(sum),
            counters: self.counters,
            seen,
            took: took.as_secs_f64(),
            looks: self.looks,
            failures: self.failures,
        };
        let mut registry = Registry::with_prefix("masu");
        registry.register_collector(Box::new(figures));
        let mut page = String::new();
        // Writing to a string cannot fail.
        let _ = text::encode(&mut page, &registry);
        self.pages = [None, None, None, None];
        self.pages[place(Form::Open { gzip: false })] = Some(page.into_bytes().into());
        self.spent(start, max_age);
    }

    /// Sets how long the pages live, from the time spent on them, including that since `start`.
    fn spent(&mut self, start: Duration, max_age: Duration) {
        self.took += processor_time().saturating_sub(start);
        self.until = Some(self.since + max_age.max(self.took * SHARE));
    }

    fn page(&mut self, form: Form, max_age: Duration) -> Arc<[u8]> {
        if let Some(page) = &self.pages[place(form)] {
            return page.clone();
        }
        let start = processor_time();
        let made: Vec<u8> = match form {
            Form::Open { gzip: false } => Vec::new(),
            Form::Text { gzip: false } => {
                let open = self.page(Form::Open { gzip: false }, max_age);
                older::from(&String::from_utf8_lossy(&open)).into_bytes()
            }
            Form::Open { gzip: true } => packed(&self.page(Form::Open { gzip: false }, max_age)),
            Form::Text { gzip: true } => packed(&self.page(Form::Text { gzip: false }, max_age)),
        };
        let made: Arc<[u8]> = made.into();
        self.pages[place(form)] = Some(made.clone());
        self.spent(start, max_age);
        made
    }
}

fn place(form: Form) -> usize {
    match form {
        Form::Open { gzip } => usize::from(gzip),
        Form::Text { gzip } => 2 + usize::from(gzip),
    }
}

fn packed(page: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to a vector cannot fail.
    let _ = packer.write_all(page);
    packer.finish().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn ten() -> Shown {
        Shown { most: 10, is_summed: false, counters: true }
    }

    #[test]
    fn a_page_is_kept_until_it_is_old() {
        // On a busy machine two requests may be far apart.
        const LONG: Duration = Duration::from_secs(3600);
        let exposition = Exposition::new(ten(), LONG);
        let first = exposition.page(Form::Open { gzip: false });
        assert!(Arc::ptr_eq(&first, &exposition.page(Form::Open { gzip: false })));
        let text = String::from_utf8(first.to_vec()).unwrap();
        assert!(
            text.contains("\nmasu_export_collections_total 1\n") && text.ends_with("# EOF\n"),
            "{text}"
        );
        let mut state = exposition.state.lock().unwrap();
        assert_eq!(state.until, Some(state.since + LONG.max(state.took * SHARE)));
        state.until = Some(Instant::now());
        drop(state);
        let second = exposition.page(Form::Text { gzip: false });
        let text = String::from_utf8(second.to_vec()).unwrap();
        assert!(
            text.contains("\nmasu_export_collections_total 2\n") && !text.contains("# EOF"),
            "{text}"
        );
        let mut unpacked = String::new();
        let packed = exposition.page(Form::Text { gzip: true });
        flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut unpacked).unwrap();
        assert_eq!(unpacked, text);
    }

    #[test]
    fn a_page_may_be_of_any_age() {
        let exposition = Exposition::new(ten(), Duration::MAX);
        let first = exposition.page(Form::Open { gzip: false });
        assert!(Arc::ptr_eq(&first, &exposition.page(Form::Open { gzip: false })));
    }

    #[test]
    fn looking_takes_a_hundredth_of_a_processor() {
        let exposition = Exposition::new(ten(), Duration::ZERO);
        exposition.page(Form::Text { gzip: true });
        let state = exposition.state.lock().unwrap();
        assert!(state.took > Duration::ZERO);
        assert_eq!(state.until, Some(state.since + state.took * SHARE));
    }
}

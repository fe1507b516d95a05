//! How long single operations take, where a workload has operations that somebody waits for.
//!
//! A thread asks its [`Input`](crate::Input) for a [`Recorder`] and lets it time each operation.
//! Unless the runner asked for latencies, by naming a file in [`VARIABLE`], a recorder does
//! nothing: reading a clock twice costs more than a `malloc`, so the runs that are timed as a
//! whole are other ones than those whose operations are. At the end the histograms of all
//! threads are added and written to the file as [`text`], which any program can write: this
//! way it hands its own latencies to the runner.

use std::fmt::Write;
use std::sync::{Mutex, OnceLock};
use std::time::Instant;
use std::{env, fs, io};

use hdrhistogram::{Counter, Histogram};

/// The environment variable that names the file to write. Values are nanoseconds. (masu takes variables
/// that begin with `MASU_LAB_` for the tools', and other ones it does not know for mistakes.)
pub const VARIABLE: &str = "MASU_LAB_LATENCY";

/// Longer ones count as this long: one minute.
const LONGEST: u64 = 60_000_000_000;
/// Two decimal digits: a percentile is right to one per cent, and a histogram takes 15 KiB.
const DIGITS: u8 = 2;

static ALL: Mutex<Option<Histogram<u32>>> = Mutex::new(None);

/// Times the operations of one thread; when it is dropped, they count.
pub struct Recorder(Option<Histogram<u32>>);

impl Recorder {
    /// One that does something if the environment asks for latencies.
    pub(crate) fn new() -> Self {
        static WANTED: OnceLock<bool> = OnceLock::new();
        Recorder(WANTED.get_or_init(|| env::var_os(VARIABLE).is_some()).then(empty))
    }

    /// Does `operation`.
    #[inline]
    pub fn time<T>(&mut self, operation: impl FnOnce() -> T) -> T {
        match &mut self.0 {
            None => operation(),
            Some(histogram) => {
                let start = Instant::now();
                let result = operation();
                histogram.saturating_record(start.elapsed().as_nanos() as u64);
                result
            }
        }
    }
}

impl Recorder {
    /// Waits for `operation`.
    pub async fn time_async<T>(&mut self, operation: impl Future<Output = T>) -> T {
        let start = self.0.as_ref().map(|_| Instant::now());
        let result = operation.await;
        if let (Some(histogram), Some(start)) = (&mut self.0, start) {
            histogram.saturating_record(start.elapsed().as_nanos() as u64);
        }
        result
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Some(mine) = self.0.take() {
            let mut all = ALL.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            all.get_or_insert_with(empty).add(mine).expect("both have the same bounds");
        }
    }
}

/// A histogram of nanoseconds. All have the same bounds, so they can be added.
pub fn empty<C: Counter>() -> Histogram<C> {
    Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("the bounds are fixed and good")
}

/// A line `NANOSECONDS COUNT` for each value that was recorded.
pub fn text(histogram: &Histogram<u32>) -> String {
    let mut text = String::new();
    for value in histogram.iter_recorded() {
        let _ = writeln!(text, "{} {}", value.value_iterated_to(), value.count_at_value());
    }
    text
}

/// Writes what was recorded to the file that the environment names, if it names one and there
/// is anything to write.
pub fn hand_over() -> io::Result<()> {
    let (Some(path), Some(all)) = (env::var_os(VARIABLE), ALL.lock().unwrap().take()) else {
        return Ok(());
    };
    fs::write(path, text(&all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_threads_recorded_is_added_when_they_end() {
        std::thread::scope(|scope| {
            for length in [10u64, 1000] {
                scope.spawn(move || {
                    let mut recorder = Recorder(Some(empty()));
                    recorder.0.as_mut().unwrap().record_n(length, 5).unwrap();
                    recorder.time(|| ());
                });
            }
        });
        let all = ALL.lock().unwrap().take().unwrap();
        assert_eq!(all.len(), 12);
        assert!(all.max() >= 1000 && all.value_at_quantile(0.5) >= 10);
    }

    #[test]
    fn without_a_request_nothing_is_recorded() {
        let mut recorder = Recorder(None);
        assert_eq!(recorder.time(|| 7), 7);
    }
}

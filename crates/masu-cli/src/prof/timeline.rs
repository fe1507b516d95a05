//! The memory of a process over time, while it is profiled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use masu_profile::{Moment, Profile};

use crate::see::page;
use crate::see::sampler::{Peak, Sample, Sampler};

/// Time between two measurements.
const BETWEEN: Duration = Duration::from_millis(50);
/// Maximum number of moments that a profile keeps.
const MOST: usize = 1000;

/// A thread that measures a process and all its descendants.
pub struct Timeline {
    stop: Arc<AtomicBool>,
    looks: Option<JoinHandle<Vec<Sample>>>,
}

impl Timeline {
    /// Begins to measure.
    pub fn of(process: u32) -> Timeline {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let looks = thread::Builder::new().spawn(move || {
            let (mut sampler, begin) = (Sampler::new(process), Instant::now());
            while sampler.look(begin.elapsed().as_secs_f64()) && !stopped.load(Ordering::Relaxed) {
                thread::park_timeout(BETWEEN.max(sampler.pause()));
            }
            sampler.samples
        });
        Timeline { stop, looks: looks.ok() }
    }

    /// Ends it and returns the measurements.
    pub fn end(mut self) -> Vec<Moment> {
        self.stop.store(true, Ordering::Relaxed);
        let samples = self.looks.take().and_then(|looks| {
            looks.thread().unpark();
            looks.join().ok()
        });
        moments(&samples.unwrap_or_default())
    }
}

/// Reduces many measurements, each to the highest of its neighbours.
fn moments(samples: &[Sample]) -> Vec<Moment> {
    let part = samples.len().div_ceil(MOST).max(1);
    let moment = |part: &[Sample]| Moment {
        milliseconds: (part[0].second * 1000.0) as u64,
        resident: part.iter().map(|sample| sample.resident).max().unwrap_or(0),
        free: part.iter().map(|sample| sample.free).max().unwrap_or(0),
        back: part.iter().map(|sample| sample.back).max().unwrap_or(0),
    };
    samples.chunks(part).map(moment).collect()
}

/// Returns the picture of it, for a page; empty if the measurement was too short.
pub fn chart(profile: &Profile) -> String {
    let sample = |moment: &Moment| Sample {
        second: moment.milliseconds as f64 / 1000.0,
        resident: moment.resident,
        free: moment.free,
        back: moment.back,
    };
    let samples: Vec<Sample> = profile.timeline.iter().map(sample).collect();
    match samples.len() {
        0 | 1 => String::new(),
        _ => {
            let kib = samples.iter().map(|sample| sample.resident).max().unwrap_or(0);
            page::svg(&format!("process {}", profile.pid), &samples, Peak { kib, is_all: false })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_moments_stand_for_many_looks() {
        let sample = |i: u32| Sample {
            second: f64::from(i),
            resident: u64::from(i % 7),
            free: 1,
            back: i.into(),
        };
        let samples: Vec<Sample> = (0..2500).map(sample).collect();
        let moments = moments(&samples);
        assert_eq!(moments.len(), 834);
        assert_eq!((moments[1].milliseconds, moments[1].resident, moments[1].back), (3000, 5, 5));
        let profile = Profile { timeline: moments, ..Profile::default() };
        assert!(chart(&profile).starts_with("<svg "));
        assert_eq!(chart(&Profile::default()), "");
    }
}

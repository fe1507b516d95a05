//! Looks at a process and at all that descend from it, one after the other.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use masu_inspect::memory::Memory;
use masu_inspect::{Engine, engines};
use masu_watch::process::{family, resident};
use rustix::time::{ClockId, clock_gettime};

/// A look.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sample {
    /// Since the first one.
    pub second: f64,
    /// Resident, in KiB.
    pub resident: u64,
    /// Free in masu, and not gone back, in KiB.
    pub free: u64,
    /// Gone back so far, in KiB.
    pub back: u64,
}

/// Samples that are kept: then each two become one.
const MOST: usize = 16_384;
/// Between two looks for processes that are new.
const NEWS: Duration = Duration::from_secs(1);
/// The share of a processor that looking may take, one part in so many.
const SHARE: u32 = 20;

/// Who looks.
pub struct Sampler {
    root: u32,
    /// All looks so far.
    pub samples: Vec<Sample>,
    known: HashMap<u32, Process>,
    asked: Option<Instant>,
    back: u64,
    took: Duration,
}

struct Process {
    memory: Memory,
    engines: Vec<Engine>,
    purged: u64,
}

impl Sampler {
    /// Of a process and all that descend from it.
    pub fn new(root: u32) -> Sampler {
        Sampler {
            root,
            samples: Vec::new(),
            known: HashMap::new(),
            asked: None,
            back: 0,
            took: Duration::ZERO,
        }
    }

    /// How long to wait so that looking costs little.
    pub fn pause(&self) -> Duration {
        self.took * SHARE
    }

    /// Looks. `false`: nobody is left.
    pub fn look(&mut self, second: f64) -> bool {
        let (start, busy) = (Instant::now(), busy());
        let Some(resident) = resident(self.root) else { return false };
        // In its first moments a program may be something else yet.
        if self.asked.is_none_or(|asked| asked.elapsed() >= NEWS) || self.known.is_empty() {
            for process in family(self.root) {
                if let Ok((memory, engines)) = match self.known.get(&process) {
                    Some(_) => continue,
                    None => engines(process),
                } {
                    // What it gave back before the first look went at no time that is known.
                    let purged = purged(&engines);
                    self.known.insert(process, Process { memory, engines, purged });
                }
            }
            self.asked = Some(start);
        }
        let (mut free, mut back) = (0, 0);
        // Whoever has ended, or become another program, has no masu there any more.
        self.known.retain(|_, process| {
            let mut looks = process.engines.iter_mut().map(|engine| engine.look(&process.memory));
            if looks.any(|look| look.is_err()) {
                return false;
            }
            free += process.engines.iter().map(|engine| engine.figures.dirty).sum::<u64>();
            let now = purged(&process.engines);
            back += now.saturating_sub(process.purged);
            process.purged = now;
            true
        });
        self.back += back;
        let (free, back) = (free / 1024, self.back / 1024);
        self.samples.push(Sample { second, resident, free, back });
        if self.samples.len() >= MOST {
            self.halve();
        }
        self.took = self::busy().saturating_sub(busy);
        true
    }

    /// Makes one of each two: the highest of both.
    fn halve(&mut self) {
        let pairs = self.samples.chunks(2).map(|pair| Sample {
            second: pair[0].second,
            resident: pair.iter().map(|sample| sample.resident).max().unwrap_or(0),
            free: pair.iter().map(|sample| sample.free).max().unwrap_or(0),
            back: pair.iter().map(|sample| sample.back).max().unwrap_or(0),
        });
        self.samples = pairs.collect();
    }
}

/// What this thread has had of a processor.
fn busy() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(now).unwrap_or_default()
}

fn purged(engines: &[Engine]) -> u64 {
    engines.iter().map(|engine| engine.figures.purged).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_masu_is_watched_too() {
        let mut sampler = Sampler::new(std::process::id());
        assert!(sampler.look(0.0) && sampler.look(0.1));
        let [first, second] = sampler.samples[..] else { panic!("two looks") };
        assert!(first.resident > 500 && second.resident > 500);
        assert_eq!((first.free, second.back), (0, 0));
        assert!(!Sampler::new(u32::MAX / 2).look(0.0));
    }

    #[test]
    fn old_looks_lose_half_and_keep_their_peaks() {
        let sample = |second: f64, resident| Sample { second, resident, free: 1, back: resident };
        let mut sampler = Sampler::new(1);
        sampler.samples = vec![sample(0.0, 5), sample(1.0, 9), sample(2.0, 4)];
        sampler.halve();
        assert_eq!(sampler.samples, [Sample { second: 0.0, ..sample(0.0, 9) }, sample(2.0, 4)]);
    }
}

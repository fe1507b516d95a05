//! Measures a process and all its descendants, one after the other.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use masu_inspect::memory::Memory;
use masu_inspect::{Engine, engines};
use masu_watch::process::{self, children, family, resident};
use rustix::time::{ClockId, clock_gettime};

/// A measurement.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sample {
    /// Seconds since the first one.
    pub second: f64,
    /// Resident, in KiB.
    pub resident: u64,
    /// Free in masu and not given back, in KiB.
    pub free: u64,
    /// Given back so far, in KiB.
    pub back: u64,
}

/// The most that was resident.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Peak {
    /// In KiB.
    pub kib: u64,
    /// Whether it is known that there never was more, and not only that no look saw more.
    pub is_all: bool,
}

/// Samples that are kept: then each two become one.
const MOST: usize = 16_384;
/// Time between two checks for new processes.
const NEWS: Duration = Duration::from_secs(1);
/// Measuring may take one part in this many of a processor's time.
const SHARE: u32 = 20;

/// Measures processes and keeps the samples.
pub struct Sampler {
    root: u32,
    /// All measurements so far.
    pub samples: Vec<Sample>,
    known: HashMap<u32, Process>,
    asked: Option<Instant>,
    back: u64,
    took: Duration,
    /// What the kernel says of the only process, `None` once there were several.
    peak: Option<u64>,
    /// The page faults of the children that the process had waited for at the first look.
    faults: Option<u64>,
}

struct Process {
    memory: Memory,
    engines: Vec<Engine>,
    purged: u64,
}

impl Sampler {
    /// Measures a process and all its descendants.
    pub fn new(root: u32) -> Sampler {
        Sampler {
            root,
            samples: Vec::new(),
            known: HashMap::new(),
            asked: None,
            back: 0,
            took: Duration::ZERO,
            peak: Some(0),
            faults: None,
        }
    }

    /// Returns how long to wait so that measuring costs little.
    pub fn pause(&self) -> Duration {
        self.took * SHARE
    }

    /// The peak so far. A process that has ended may have had more since the last look, unless `end` is known to be its
    /// peak.
    pub fn peak(&self, is_there: bool, end: Option<u64>) -> Peak {
        let seen = self.samples.iter().map(|sample| sample.resident).max().unwrap_or(0);
        // Each of several processes reaches its peak at a different time.
        let known = self.peak.map(|peak| peak.max(end.unwrap_or(0)));
        let is_all = known.is_some_and(|peak| peak > 0) && (is_there || end.is_some());
        Peak { kib: seen.max(known.unwrap_or(0)), is_all }
    }

    /// Notes whether the process has had children since the first look that have come and gone between two looks: it is
    /// charged for their page faults once it has waited for them. This still shows when it has ended, until its parent
    /// waits for it.
    pub fn note_children(&mut self) {
        let faults = faults_of_children(self.root);
        if self.faults.is_some() && faults.is_some() && self.faults != faults {
            self.peak = None;
        }
    }

    /// Looks. `false`: nobody is left.
    pub fn look(&mut self, second: f64) -> bool {
        let (start, busy) = (Instant::now(), busy());
        let Some(resident) = resident(self.root) else { return false };
        self.peak = match children(self.root).is_empty() {
            true => self.peak.map(|last| process::peak(self.root).unwrap_or(last)),
            false => None,
        };
        self.faults = self.faults.or_else(|| faults_of_children(self.root));
        self.note_children();
        // In its first moments a program may be something else yet.
        if self.asked.is_none_or(|asked| asked.elapsed() >= NEWS) || self.known.is_empty() {
            for process in family(self.root) {
                if let Ok((memory, engines)) = match self.known.get(&process) {
                    Some(_) => continue,
                    None => engines(process),
                } {
                    // The time of purges before the first measurement is unknown.
                    let purged = purged(&engines);
                    self.known.insert(process, Process { memory, engines, purged });
                }
            }
            self.asked = Some(start);
        }
        let (mut free, mut back) = (0, 0);
        // A process that has ended, or executed another program, no longer has this masu.
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

    /// Merges each pair into one: the maximum of both.
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

/// Returns this thread's processor time.
fn busy() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(now).unwrap_or_default()
}

/// Returns the page faults of all children that a process has waited for. Every process has some.
fn faults_of_children(process: u32) -> Option<u64> {
    process::stat(process).map(|stat| stat.cminflt + stat.cmajflt)
}

fn purged(engines: &[Engine]) -> u64 {
    engines.iter().map(|engine| engine.figures.purged).sum()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};
    use std::thread::sleep;

    use masu_inspect::account;

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
    fn a_peak_is_one_process_that_is_known_to_its_end() {
        let mut sampler = Sampler::new(1);
        let sample = Sample { resident: 70, ..Sample::default() };
        (sampler.samples, sampler.peak) = (vec![sample], Some(80));
        assert_eq!(sampler.peak(true, None), Peak { kib: 80, is_all: true });
        assert_eq!(sampler.peak(false, Some(100)), Peak { kib: 100, is_all: true });
        assert_eq!(sampler.peak(false, None), Peak { kib: 80, is_all: false });
        sampler.peak = None;
        assert_eq!(sampler.peak(false, Some(100)), Peak { kib: 70, is_all: false });
    }

    #[test]
    fn a_child_between_two_looks_is_another_process() {
        let script = "read line; /bin/true; echo ended; read line";
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        // Until it is the shell, no longer this program.
        while account::name(shell.id()) != "sh" {
            sleep(Duration::from_millis(1));
        }
        let mut sampler = Sampler::new(shell.id());
        assert!(sampler.look(0.0) && sampler.look(0.1));
        assert!(sampler.peak(true, None).is_all);
        shell.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        shell.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
        assert!(children(shell.id()).is_empty() && sampler.look(0.2));
        assert!(!sampler.peak(true, None).is_all);
        shell.stdin = None;
        shell.wait().unwrap();
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

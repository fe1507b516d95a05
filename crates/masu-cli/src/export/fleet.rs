//! The processes with masu: what each holds and has done.
//!
//! The location of masu in a process is found once and remembered; a process without masu is checked less and less
//! often.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use masu_inspect::flow::Flow;
use masu_inspect::memory::Memory;
use masu_inspect::{Engine, Error, engines, statistics};
use masu_watch::process::{self, memory_id_of};
use procfs_core::process::{Stat, StatFlags};
use rustix::param::{clock_ticks_per_second, page_size};

use super::container::{self, Group, Limit};
use crate::printable::printable;
use crate::worker::{Late, Worker};

/// A process with masu.
#[derive(Debug, Clone, Default)]
pub struct Process {
    /// Its process ID.
    pub pid: u32,
    /// Its name.
    pub comm: String,
    /// The path of its control group.
    pub cgroup: String,
    /// The version of its masu.
    pub masu: String,
    /// When it started, in seconds since 1970.
    pub started: u64,
    /// When it started, in ticks since boot.
    pub born: u64,
    /// Whether it was forked and has executed no program: its counts began with those of its parent.
    pub is_fork: bool,
    /// Resident bytes of the whole process, as `ps` shows them.
    pub rss: u64,
    /// Bytes in blocks that the program holds.
    pub allocated: u64,
    /// Bytes in spans, runs and huge blocks in use.
    pub active: u64,
    /// Bytes of masu's memory that may be resident.
    pub resident: u64,
    /// Bytes mapped.
    pub mapped: u64,
    /// Bytes mapped and given back.
    pub retained: u64,
    /// Bytes of masu's tables.
    pub metadata: u64,
    /// The part of these for the heap profile.
    pub profile: u64,
    /// Free bytes not yet given back.
    pub dirty: u64,
    /// Bytes in threads' caches of medium blocks.
    pub cached: u64,
    /// Threads with a heap.
    pub threads: u64,
    /// How long free memory is kept, in milliseconds; `u64::MAX` means for ever.
    pub decay: u64,
    /// Bytes in use above which malloc fails.
    pub hard_limit: Option<u64>,
    /// Bytes in use above which free memory goes back at once.
    pub soft_limit: Option<u64>,
    /// Its control group's limit, and the memory in use.
    pub container: Option<(u64, u64)>,
    /// Bytes allocated since the exporter first saw it, if they are counted.
    pub alloc_bytes: Option<u64>,
    /// Bytes given back.
    pub purged: u64,
    /// Times that a thread's bin was refilled.
    pub refills: u64,
    /// Blocks freed by a thread other than their owner.
    pub remote_frees: u64,
    /// Medium blocks allocated.
    pub medium_allocs: u64,
    /// Huge blocks allocated.
    pub huge_allocs: u64,
    /// Passes that look for memory to give back.
    pub ticks: u64,
    /// Pointers freed that were not masu's.
    pub foreign_frees: u64,
}

/// The result of a pass over all of them.
#[derive(Debug, Default)]
pub struct Seen {
    /// The processes, by process ID.
    pub processes: Vec<Process>,
    /// How many more exist.
    pub left_out: usize,
    /// How many may not be read, so that nothing is known about them.
    pub refused: usize,
    /// How many take too long to read.
    pub late: usize,
    /// How many ended, or were inconsistent, while they were read.
    pub failed: usize,
    /// Processor time of the threads that read them.
    pub took: Duration,
}

/// How long the locations of masu and the control group of a process are trusted.
const BELIEVED: Duration = Duration::from_secs(30);
/// How long a process without masu is left alone, at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// How long one process may take to be read; how much of this a pass may lose to all of them; and how long one may take
/// when that is lost.
const PATIENCE: [Duration; 3] =
    [Duration::from_secs(5), Duration::from_secs(8), Duration::from_millis(100)];
/// How long one that took longer is left alone, unless it had less time than the first ones.
const LATE: Duration = Duration::from_secs(300);

/// All processes with masu.
pub struct Fleet {
    most: usize,
    known: HashMap<u32, Known>,
    others: HashMap<u32, Other>,
    worker: Worker,
    /// How much of its patience the pass has left.
    patience: Duration,
    boot: u64,
}

/// A process with masu.
struct Known {
    /// When it started, in ticks since boot: another process may reuse its ID.
    started: u64,
    stat: Stat,
    memory: Memory,
    engines: Vec<Engine>,
    group: Group,
    found: Instant,
    flow: Flow,
    allocated: u64,
}

/// A process without masu, or one that takes too long to read.
struct Other {
    until: Instant,
    pause: Duration,
    refused: bool,
    late: Option<Late>,
}

impl Other {
    /// Whether it is left alone: a thread that still reads it is not joined by another.
    fn rests(&self, now: Instant) -> bool {
        self.until > now || self.late.as_ref().is_some_and(|late| !late.is_over())
    }
}

/// When the system started, in seconds since 1970.
fn boot_time() -> Option<u64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

impl Fleet {
    /// Begins without any process; later there are at most `most`.
    pub fn new(most: usize) -> Fleet {
        Fleet {
            most,
            known: HashMap::new(),
            others: HashMap::new(),
            worker: Worker::default(),
            patience: Duration::ZERO,
            boot: boot_time().unwrap_or(0),
        }
    }

    /// Examines every process.
    pub fn look(&mut self) -> Seen {
        let now = Instant::now();
        let mut seen = Seen::default();
        self.patience = PATIENCE[1];
        let (mut before, mut others) =
            (std::mem::take(&mut self.known), std::mem::take(&mut self.others));
        for process in processes() {
            let (known, other) = (before.remove(&process), others.remove(&process));
            if known.is_none() && other.as_ref().is_some_and(|other| other.rests(now)) {
                self.others.extend(other.map(|other| (process, other)));
                continue;
            }
            let found = self.work(process, now, &mut seen, move || {
                let known = known.and_then(|known| known.still(now));
                known.map_or_else(|| Known::find(process, now), Ok)
            });
            match found {
                Some(Ok(known)) => {
                    self.known.insert(process, known);
                }
                Some(Err(error)) => {
                    let pause = other.map_or(AGAIN.0, |other| (other.pause * 2).min(AGAIN.1));
                    let (until, refused) = (now + pause, is_refused(&error));
                    self.others.insert(process, Other { until, pause, refused, late: None });
                }
                None => {}
            }
        }
        seen.refused = self.others.values().filter(|other| other.refused).count();
        let mut order: Vec<u32> = self.known.keys().copied().collect();
        order.sort_by_key(|pid| (Reverse(self.known[pid].stat.rss), *pid));
        seen.left_out = order.len().saturating_sub(self.most);
        order.truncate(self.most);
        order.sort_unstable();
        let (boot, mut groups) = (self.boot, HashMap::new());
        for pid in order {
            let Some(mut known) = self.known.remove(&pid) else { continue };
            let mut used = std::mem::take(&mut groups);
            let read = self.work(pid, now, &mut seen, move || {
                let process = known.read(boot, &mut used);
                (known, process, used)
            });
            let Some((known, process, used)) = read else { continue };
            groups = used;
            // One that was inconsistent may not be at the next pass; its counts go on then.
            self.known.insert(pid, known);
            match process {
                Ok(process) => seen.processes.push(process),
                Err(_) => seen.failed += 1,
            }
        }
        seen.late = self.others.values().filter(|other| other.late.is_some()).count();
        seen
    }

    /// Has something about a process done. `None` if it takes too long: then the process is left alone for a while.
    fn work<T: Send + 'static>(
        &mut self,
        process: u32,
        now: Instant,
        seen: &mut Seen,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let most = PATIENCE[0].min(self.patience).max(PATIENCE[2]);
        match self.worker.within(most, work) {
            Ok((done, took)) => {
                seen.took += took;
                Some(done)
            }
            Err(late) => {
                self.patience = self.patience.saturating_sub(most);
                let pause = if most < PATIENCE[0] { AGAIN.0 } else { LATE };
                let (until, late) = (now + pause, Some(late));
                self.others.insert(process, Other { until, pause: AGAIN.1, refused: false, late });
                None
            }
        }
    }
}

impl Known {
    fn find(process: u32, now: Instant) -> Result<Known, Error> {
        let (memory, engines) = engines(process)?;
        let stat = stat(process).ok_or(Error::Ended(process))?;
        let group = container::of(Path::new("/"), memory_id_of(process, &stat));
        let started = stat.starttime;
        Ok(Known {
            started,
            stat,
            memory,
            engines,
            group,
            found: now,
            flow: Flow::default(),
            allocated: 0,
        })
    }

    /// Returns it if it is still the same process with the same copies of masu.
    fn still(mut self, now: Instant) -> Option<Known> {
        let process = self.memory.process;
        let stat = stat(process).filter(|stat| stat.starttime == self.started)?;
        let is_same_program = stat.comm == self.stat.comm;
        let mut looks = self.engines.iter_mut().map(|engine| engine.look(&self.memory));
        let is_whole = looks.all(|look| look.is_ok());
        drop(looks);
        if is_same_program && is_whole && now - self.found < BELIEVED {
            return Some(Known { stat, ..self });
        }
        let (flow, allocated) = (self.flow, self.allocated);
        Known::find(process, now).ok().map(|known| Known { flow, allocated, ..known })
    }

    fn read(
        &mut self,
        boot: u64,
        groups: &mut HashMap<Limit, Option<u64>>,
    ) -> Result<Process, Error> {
        let (mut all, mut flow) = (Vec::new(), Some(Flow::default()));
        for engine in &mut self.engines {
            // The figures of the last look may be of before all other processes were looked at.
            engine.look(&self.memory)?;
            let (statistics, bytes) = statistics::of(&self.memory, engine)?;
            all.extend(statistics);
            flow = Flow::both(flow, bytes);
        }
        let alloc_bytes = flow.map(|flow| {
            self.allocated += flow.since(&self.flow);
            self.flow = flow;
            self.allocated
        });
        let of = |name| all.iter().filter(|(found, _)| *found == name).map(|(_, n)| n).sum();
        let figures = || self.engines.iter().map(|engine| engine.figures);
        let container = self.group.limit.as_ref().and_then(|limit| {
            let used = *groups.entry(limit.clone()).or_insert_with(|| limit.used());
            used.map(|used| (limit.bytes, used))
        });
        Ok(Process {
            pid: self.memory.process,
            comm: printable(&self.stat.comm),
            cgroup: self.group.name.clone(),
            masu: self.engines.first().map(|engine| engine.masu.clone()).unwrap_or_default(),
            started: boot + self.started / clock_ticks_per_second().max(1),
            born: self.started,
            is_fork: StatFlags::from_bits_truncate(self.stat.flags)
                .contains(StatFlags::PF_FORKNOEXEC),
            rss: self.stat.rss * page_size() as u64,
            allocated: of("allocated"),
            active: of("active"),
            resident: of("resident"),
            mapped: of("mapped"),
            retained: of("retained"),
            metadata: of("metadata"),
            profile: of("profile"),
            dirty: of("dirty"),
            cached: of("thread_cached"),
            threads: of("threads"),
            decay: figures().map(|figures| figures.decay).max().unwrap_or(0),
            hard_limit: figures().filter_map(|figures| figures.hard_limit).min(),
            soft_limit: figures().filter_map(|figures| figures.soft_limit).min(),
            container,
            alloc_bytes,
            purged: of("purged_bytes"),
            refills: of("refills"),
            remote_frees: of("remote_frees"),
            medium_allocs: of("medium_allocs"),
            huge_allocs: of("huge_allocs"),
            ticks: of("purge_ticks"),
            foreign_frees: of("foreign_frees"),
        })
    }
}

/// Whether a process may not be read, by its user's or the kernel's word.
fn is_refused(error: &Error) -> bool {
    matches!(error, Error::Refused(_) | Error::Guarded(_))
}

/// Returns its name, its start and its resident pages, which the kernel shows where it shows the memory.
fn stat(process: u32) -> Option<Stat> {
    let mut found = process::stat(process)?;
    let id = memory_id_of(process, &found);
    if id != process {
        found.rss = process::stat(id)?.rss;
    }
    Some(found)
}

/// Yields all processes.
fn processes() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_masu_is_asked_ever_more_rarely() {
        let mut fleet = Fleet::new(10);
        let me = std::process::id();
        fleet.look();
        assert_eq!(fleet.others[&me].pause, AGAIN.0);
        fleet.others.get_mut(&me).unwrap().until = Instant::now();
        assert!(fleet.look().processes.iter().all(|process| process.pid != me));
        assert_eq!(fleet.others[&me].pause, AGAIN.0 * 2);
    }

    #[test]
    fn a_process_that_had_little_time_is_soon_read_again() {
        let mut fleet = Fleet::new(10);
        let (now, mut seen) = (Instant::now(), Seen::default());
        assert_eq!(fleet.patience, Duration::ZERO);
        let (go, goes) = std::sync::mpsc::channel::<()>();
        assert!(fleet.work(7, now, &mut seen, move || goes.recv()).is_none());
        let other = &fleet.others[&7];
        assert!(other.rests(now + AGAIN.0), "a thread still reads it");
        drop(go);
        while other.late.as_ref().is_some_and(|late| !late.is_over()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!other.rests(now + AGAIN.0));
    }

    /// Yama keeps the user's own processes from each other.
    #[test]
    fn a_process_that_the_kernel_guards_is_refused() {
        assert!(is_refused(&Error::Guarded(7)) && is_refused(&Error::Refused(7)));
        assert!(!is_refused(&Error::NoMasu(7)) && !is_refused(&Error::Ended(7)));
    }
}

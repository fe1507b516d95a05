//! The processes with masu, and what each holds and does.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use masu_inspect::flow::Flow;
use masu_inspect::statistics;
use masu_inspect::{Error, account};
use serde::Serialize;

use crate::worker::{Late, Worker};

/// What the list can be sorted by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Column {
    /// Resident memory
    Resident,
    /// Memory in live blocks
    Live,
    /// Free memory beside live blocks
    Free,
    /// Free pages not yet returned
    Dirty,
    /// Rate of allocation
    Rate,
    /// Process ID
    Pid,
}

impl Column {
    /// Returns the next column.
    #[cfg_attr(not(feature = "screen"), allow(dead_code, reason = "a key's, of the screen"))]
    pub fn next(self) -> Column {
        let all = Column::value_variants();
        let place = all.iter().position(|&column| column == self).unwrap_or(0);
        all[(place + 1) % all.len()]
    }
}

/// A process.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Its ID.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Resident bytes.
    pub resident: u64,
    /// Bytes in blocks that the program holds.
    pub live: u64,
    /// Bytes of free memory beside these blocks: in their spans, and medium blocks that threads cache. At most what the
    /// resident bytes leave.
    pub free: u64,
    /// Bytes of free pages that are not yet returned.
    pub dirty: u64,
    /// Bytes given back so far.
    pub given_back: u64,
    /// Bytes that it allocates per second; null at the first measurement, and if nothing counts them.
    pub rate: Option<u64>,
    /// Resident bytes at the last measurements, oldest first.
    #[serde(skip)]
    pub trend: VecDeque<u64>,
    /// How much that has grown since the first of them.
    pub grown: i64,
}

/// Number of measurements that a trend keeps.
const TREND: usize = 40;
/// How long a process without masu is left alone.
const AGAIN: Duration = Duration::from_secs(5);
/// How long one process may take to be read, and at least, after others took longer; how long one that takes longer is
/// left alone.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_millis(100));
const LATE: Duration = Duration::from_secs(60);

/// All processes.
pub struct List {
    /// The processes, sorted.
    pub rows: Vec<Row>,
    /// The sort column.
    pub sort: Column,
    /// Number of processes that may not be read.
    pub refused: usize,
    /// Number of processes with a masu of an unknown version.
    pub unknown: usize,
    /// Number of processes that take too long to read.
    pub late: usize,
    worker: Worker,
    known: HashMap<u32, Known>,
    others: HashMap<u32, Other>,
}

struct Known {
    /// When it started, in ticks since boot: another process may reuse its ID.
    started: Option<u64>,
    row: Row,
    flow: Option<Flow>,
    at: Instant,
}

/// A process that is not shown.
struct Other {
    until: Instant,
    why: Why,
}

enum Why {
    Error(Error),
    Late(Late),
}

impl Other {
    /// Whether it is left alone: a thread that still reads it is not joined by another.
    fn rests(&self, now: Instant) -> bool {
        self.until > now || matches!(&self.why, Why::Late(late) if !late.is_over())
    }
}

impl List {
    /// Begins without any process.
    pub fn new(sort: Column) -> List {
        List {
            rows: Vec::new(),
            sort,
            refused: 0,
            unknown: 0,
            late: 0,
            worker: Worker::default(),
            known: HashMap::new(),
            others: HashMap::new(),
        }
    }

    /// Examines every process.
    pub fn look(&mut self) {
        let now = Instant::now();
        self.others.retain(|_, other| other.rests(now));
        let mut patience = PATIENCE.0;
        let mut before = std::mem::take(&mut self.known);
        for process in masu_watch::process::all() {
            if self.others.contains_key(&process) {
                continue;
            }
            let before = before.remove(&process);
            let other = match self.worker.within(patience, move || look(process, before)) {
                Ok((Ok(known), _)) => {
                    self.known.insert(process, known);
                    continue;
                }
                Ok((Err(error), _)) => Other { until: now + AGAIN, why: Why::Error(error) },
                Err(late) => {
                    let (until, next) = after_late(now, patience);
                    patience = next;
                    Other { until, why: Why::Late(late) }
                }
            };
            self.others.insert(process, other);
        }
        let count =
            |is: fn(&Why) -> bool| self.others.values().filter(|other| is(&other.why)).count();
        self.refused =
            count(|why| matches!(why, Why::Error(Error::Refused(_) | Error::Guarded(_))));
        self.unknown = count(|why| matches!(why, Why::Error(Error::Version { .. })));
        self.late = count(|why| matches!(why, Why::Late(_)));
        self.rows = self.known.values().map(|known| known.row.clone()).collect();
        self.arrange();
    }

    /// Sorts the rows.
    pub fn arrange(&mut self) {
        let key = |row: &Row| match self.sort {
            Column::Resident => Reverse(row.resident),
            Column::Live => Reverse(row.live),
            Column::Free => Reverse(row.free),
            Column::Dirty => Reverse(row.dirty),
            Column::Rate => Reverse(row.rate.unwrap_or(0)),
            Column::Pid => Reverse(u64::from(u32::MAX - row.pid)),
        };
        self.rows.sort_by_key(|row| (key(row), row.pid));
    }

    /// Returns the list as JSON, with a newline at its end.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(&self.rows).expect("plain data") + "\n"
    }
}

/// Returns until when a process is left alone that took longer than `patience`, and the patience with the next one.
fn after_late(now: Instant, patience: Duration) -> (Instant, Duration) {
    // One that had less time than others is read again as soon as no thread reads it any more.
    let until = if patience < PATIENCE.0 { now } else { now + LATE };
    (until, (patience / 2).max(PATIENCE.1))
}

/// Returns the free memory beside live blocks. What is `active` includes pages of free blocks that have gone back, so the
/// room that `resident` leaves is the bound.
fn free(resident: u64, live: u64, active: u64, dirty: u64) -> u64 {
    active.saturating_sub(live).min(resident.saturating_sub(live + dirty))
}

fn look(process: u32, before: Option<Known>) -> Result<Known, Error> {
    // Many processes come before this one, most of all at the first look.
    let at = Instant::now();
    let seen = statistics::read(process)?;
    let resident = account::rss(process)?;
    let started = masu_watch::process::stat(process).map(|stat| stat.starttime);
    let before = before.filter(|known| known.started == started);
    let of = |name| -> u64 {
        seen.copies.iter().flatten().filter(|(n, _)| *n == name).map(|(_, n)| n).sum()
    };
    let mut trend = before.as_ref().map(|known| known.row.trend.clone()).unwrap_or_default();
    trend.push_back(resident);
    if trend.len() > TREND {
        trend.pop_front();
    }
    let rate = before.and_then(|known| {
        let bytes = seen.flow.as_ref()?.since(&known.flow?) as f64;
        Some((bytes / at.duration_since(known.at).as_secs_f64().max(0.001)) as u64)
    });
    let grown = resident.cast_signed() - trend.front().copied().unwrap_or(resident).cast_signed();
    let (live, dirty) = (of("allocated"), of("dirty"));
    let row = Row {
        pid: process,
        name: account::name(process),
        resident,
        live,
        free: free(resident, live, of("active"), dirty),
        dirty,
        given_back: of("purged_bytes"),
        rate,
        trend,
        grown,
    };
    Ok(Known { started, row, flow: seen.flow, at })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pid: u32, resident: u64, rate: Option<u64>) -> Row {
        let (live, free, dirty) = (resident / 2, resident % 3, 100 - resident);
        Row {
            pid,
            name: "x".into(),
            resident,
            live,
            free,
            dirty,
            given_back: 0,
            rate,
            trend: VecDeque::new(),
            grown: 0,
        }
    }

    #[test]
    fn rows_are_sorted_by_every_column() {
        let mut list = List::new(Column::Resident);
        list.rows = vec![row(3, 10, Some(5)), row(1, 30, None), row(2, 20, Some(9))];
        let mut order = |column| {
            list.sort = column;
            list.arrange();
            list.rows.iter().map(|row| row.pid).collect::<Vec<_>>()
        };
        assert_eq!(order(Column::Resident), [1, 2, 3]);
        assert_eq!(order(Column::Free), [2, 3, 1]);
        assert_eq!(order(Column::Dirty), [3, 2, 1]);
        assert_eq!(order(Column::Rate), [2, 3, 1]);
        assert_eq!(order(Column::Pid), [1, 2, 3]);
        assert_eq!((0..6).fold(Column::Live, |column, _| column.next()), Column::Live);
    }

    #[test]
    fn free_memory_is_resident() {
        assert_eq!(free(100, 60, 70, 5), 10);
        // Most of the free blocks' pages have gone back.
        assert_eq!(free(100, 60, 160, 5), 35);
        assert_eq!(free(100, 160, 170, 0), 0);
    }

    #[test]
    fn many_slow_processes_do_not_hold_up_the_list_for_minutes() {
        let now = Instant::now();
        let (mut patience, mut sum) = (PATIENCE.0, Duration::ZERO);
        for process in 0..50 {
            sum += patience;
            let (until, next) = after_late(now, patience);
            assert_eq!(until, if process == 0 { now + LATE } else { now });
            patience = next;
        }
        assert!(sum < Duration::from_secs(10), "{sum:?}");
    }

    #[test]
    fn a_process_without_masu_is_no_row() {
        let mut list = List::new(Column::Pid);
        list.look();
        assert!(list.rows.iter().all(|row| row.pid != std::process::id()));
        assert!(list.others.contains_key(&std::process::id()));
    }
}

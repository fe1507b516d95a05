//! Processes summed by name, so that the number of time series does not grow with every process that comes.
//!
//! 1. A counter never falls, because it adds what processes have done between two looks: what one has done stays
//!    when it ends. What it does between the last look and its end is missing.
//! 2. Nothing counts twice. A counter takes what a process did before the first look at it only if the process began
//!    after the exporter and by executing a program: a fork's counts begin with those of its parent.
//! 3. A group stays as long as the exporter, and there are at most as many as were asked for, and one for all others.

use std::collections::{BTreeMap, HashMap};

use masu_watch::process;

use super::fleet::Process;

/// The name of the group of all processes whose names came when there were enough groups.
pub const OTHERS: &str = "(other)";

/// The sums of all groups so far.
pub struct Groups {
    most: usize,
    /// When the exporter began, in ticks since boot.
    begun: u64,
    groups: BTreeMap<String, Counts>,
    /// The counts of each process at the last look, by its ID and its start.
    known: HashMap<(u32, u64), Counts>,
}

/// A group.
#[derive(Debug, Default)]
pub struct Group {
    /// How many processes it has.
    pub processes: usize,
    /// Their sums, under the group's name. Their longest decay time and their earliest start, 0 if there is none.
    pub sum: Process,
    /// How much of its hard limit a process has in use, at most, as a part of 1.
    pub hard_limit: Option<f64>,
    /// How much of its limit a process's control group has in use, at most.
    pub container: Option<f64>,
}

/// The counters of a process, or their sums.
#[derive(Debug, Clone, Copy, Default)]
struct Counts([u64; 8]);

impl Counts {
    fn of(process: &Process) -> Counts {
        Counts([
            process.alloc_bytes.unwrap_or(0),
            process.purged,
            process.refills,
            process.remote_frees,
            process.medium_allocs,
            process.huge_allocs,
            process.ticks,
            process.foreign_frees,
        ])
    }

    fn write_to(self, process: &mut Process) {
        let [
            alloc_bytes,
            purged,
            refills,
            remote_frees,
            medium_allocs,
            huge_allocs,
            ticks,
            foreign,
        ] = self.0;
        process.alloc_bytes = Some(alloc_bytes);
        process.purged = purged;
        process.refills = refills;
        process.remote_frees = remote_frees;
        process.medium_allocs = medium_allocs;
        process.huge_allocs = huge_allocs;
        process.ticks = ticks;
        process.foreign_frees = foreign;
    }

    /// Adds what has come since `before`. After the process has executed another program, its counts begin again.
    fn add_since(&mut self, now: Counts, before: Counts) {
        for (sum, (now, before)) in self.0.iter_mut().zip(now.0.into_iter().zip(before.0)) {
            *sum = sum.saturating_add(now.saturating_sub(before));
        }
    }
}

impl Groups {
    /// At most `most` of them. They count from now on.
    pub fn new(most: usize) -> Groups {
        let begun = process::stat(std::process::id()).map_or(u64::MAX, |own| own.starttime);
        Groups { most, begun, groups: BTreeMap::new(), known: HashMap::new() }
    }

    /// Adds up the processes that a look has found. `is_there` says whether one lives that it has not found.
    pub fn sum(
        &mut self,
        processes: &[Process],
        is_there: impl Fn(u32, u64) -> bool,
    ) -> Vec<Group> {
        let mut before = std::mem::take(&mut self.known);
        let mut sums: BTreeMap<String, Group> =
            self.groups.keys().map(|name| (name.clone(), Group::named(name))).collect();
        for process in processes {
            let id = (process.pid, process.born);
            let now = Counts::of(process);
            let is_new = process.born >= self.begun && !process.is_fork;
            let first = if is_new { Counts::default() } else { now };
            let then = before.remove(&id).unwrap_or(first);
            self.known.insert(id, now);
            let name = self.group_of(&process.comm);
            self.groups.entry(name.clone()).or_default().add_since(now, then);
            sums.entry(name).or_insert_with_key(|name| Group::named(name)).add(process);
        }
        before.retain(|&(pid, born), _| is_there(pid, born));
        self.known.extend(before);
        for (name, counts) in &self.groups {
            if let Some(group) = sums.get_mut(name) {
                counts.write_to(&mut group.sum);
            }
        }
        sums.into_values().collect()
    }

    fn group_of(&self, name: &str) -> String {
        let is_full =
            self.groups.len() - usize::from(self.groups.contains_key(OTHERS)) >= self.most;
        let name = if is_full && !self.groups.contains_key(name) { OTHERS } else { name };
        name.to_owned()
    }
}

/// Whether a process with this ID and start lives.
pub fn is_there(pid: u32, born: u64) -> bool {
    process::stat(pid).is_some_and(|stat| stat.starttime == born)
}

impl Group {
    fn named(name: &str) -> Group {
        Group { sum: Process { comm: name.to_owned(), ..Process::default() }, ..Group::default() }
    }

    /// Adds a process's sizes; its counters are added by [`Groups::sum`].
    fn add(&mut self, process: &Process) {
        let sum = &mut self.sum;
        for (sum, bytes) in [
            (&mut sum.rss, process.rss),
            (&mut sum.allocated, process.allocated),
            (&mut sum.active, process.active),
            (&mut sum.resident, process.resident),
            (&mut sum.mapped, process.mapped),
            (&mut sum.retained, process.retained),
            (&mut sum.metadata, process.metadata),
            (&mut sum.profile, process.profile),
            (&mut sum.dirty, process.dirty),
            (&mut sum.cached, process.cached),
            (&mut sum.threads, process.threads),
        ] {
            *sum = sum.saturating_add(bytes);
        }
        sum.decay = sum.decay.max(process.decay);
        sum.started = match self.processes {
            0 => process.started,
            _ => sum.started.min(process.started),
        };
        self.processes += 1;
        let part = |used: u64, limit: u64| used as f64 / limit.max(1) as f64;
        let hard = process.hard_limit.map(|limit| part(process.resident, limit));
        self.hard_limit = larger(self.hard_limit, hard);
        let container = process.container.map(|(limit, used)| part(used, limit));
        self.container = larger(self.container, container);
    }
}

fn larger(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.into_iter().chain(other).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that began after the exporter, by executing a program.
    fn process(pid: u32, comm: &str, purged: u64) -> Process {
        Process { pid, comm: comm.to_owned(), born: 10, purged, rss: 100, ..Process::default() }
    }

    fn groups(most: usize) -> Groups {
        Groups { begun: 5, ..Groups::new(most) }
    }

    /// The name, the number of processes, the resident bytes and the purged bytes of each group.
    fn seen(groups: &mut Groups, processes: &[Process]) -> Vec<(String, usize, u64, u64)> {
        let sums = groups.sum(processes, |_, _| false).into_iter();
        sums.map(|it| (it.sum.comm.clone(), it.processes, it.sum.rss, it.sum.purged)).collect()
    }

    #[test]
    fn what_a_process_has_done_stays_when_it_ends() {
        let mut groups = groups(9);
        let two = [process(1, "a", 30), process(2, "a", 4)];
        assert_eq!(seen(&mut groups, &two), [("a".into(), 2, 200, 34)]);
        assert_eq!(seen(&mut groups, &[process(1, "a", 31)]), [("a".into(), 1, 100, 35)]);
        assert_eq!(seen(&mut groups, &[]), [("a".into(), 0, 0, 35)]);
        // Another process with the same ID.
        let next = Process { born: 20, ..process(1, "a", 5) };
        assert_eq!(seen(&mut groups, &[next]), [("a".into(), 1, 100, 40)]);
    }

    #[test]
    fn nothing_counts_twice() {
        let mut groups = groups(9);
        let older = Process { born: 3, ..process(1, "a", 1000) };
        let fork = Process { is_fork: true, ..process(2, "a", 900) };
        assert_eq!(seen(&mut groups, &[older, fork]), [("a".into(), 2, 200, 0)]);
        let more = Process { born: 3, ..process(1, "a", 1001) };
        // Another program has taken the fork's place: its counts begin again.
        assert_eq!(seen(&mut groups, &[more, process(2, "a", 2)]), [("a".into(), 2, 200, 1)]);
        assert_eq!(seen(&mut groups, &[process(2, "a", 5)]), [("a".into(), 1, 100, 4)]);
        // One that a look missed, although it was there.
        groups.sum(&[], |pid, born| (pid, born) == (2, 10));
        assert_eq!(seen(&mut groups, &[process(2, "a", 6)]), [("a".into(), 1, 100, 5)]);
        // It has another name now.
        let renamed = seen(&mut groups, &[process(2, "b", 8)]);
        assert_eq!(renamed, [("a".into(), 0, 0, 5), ("b".into(), 1, 100, 2)]);
    }

    #[test]
    fn there_are_only_so_many_groups() {
        let mut groups = groups(2);
        let first: Vec<_> = (0..9).map(|n| process(n, &format!("job-{n}"), 1)).collect();
        let sums = [("(other)", 7, 700, 7), ("job-0", 1, 100, 1), ("job-1", 1, 100, 1)]
            .map(|(name, processes, rss, purged)| (name.to_owned(), processes, rss, purged));
        assert_eq!(seen(&mut groups, &first), sums);
        let next: Vec<_> = (10..30).map(|n| process(n, &format!("job-{n}"), 1)).collect();
        assert_eq!(seen(&mut groups, &next)[0], ("(other)".to_owned(), 20, 2000, 27));
        assert_eq!(groups.groups.len(), 3);
        assert_eq!(groups.known.len(), 20);
    }

    #[test]
    fn the_process_nearest_its_limit_counts() {
        let mut groups = groups(9);
        let with = |pid, resident, limit| Process {
            resident,
            hard_limit: Some(limit),
            container: Some((1000, 250)),
            decay: u64::from(pid),
            started: 100 - u64::from(pid),
            ..process(pid, "a", 0)
        };
        let all = [with(1, 90, 100), with(2, 10, 1000), process(3, "a", 0)];
        let [group] = &groups.sum(&all, |_, _| false)[..] else { panic!("one group") };
        assert_eq!((group.hard_limit, group.container), (Some(0.9), Some(0.25)));
        assert_eq!((group.sum.decay, group.sum.resident), (2, 100));
        assert_eq!((group.sum.hard_limit, group.sum.container), (None, None));
    }
}

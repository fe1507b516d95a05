//! The process's control group: how much memory and processor time it may use.
//!
//! A group is confined by its own limits and by those of every visible group above it; the smallest
//! counts. Version 1 keeps memory and processors in separate trees.

use std::path::PathBuf;

use procfs_core::ProcessCGroups;
use procfs_core::process::MountInfos;
use rustix::thread::sched_getaffinity;
use serde::Serialize;

use super::memory::Memory;
use crate::bytes::Bytes;
use crate::doctor::finding::Finding;
use crate::doctor::root::Root;

/// Version 1 expresses "no limit" as the largest multiple of a page.
const UNLIMITED: u64 = 1 << 60;

/// The control group. A limit that is not set is null.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Container {
    /// The version of control groups, 1 or 2, of the one that limits memory.
    version: Option<u8>,
    /// The group's directory.
    path: Option<String>,
    /// Bytes in use above which the kernel kills processes: memory.max, memory.limit_in_bytes.
    memory_max: Option<u64>,
    /// Bytes in use above which the kernel slows processes down: memory.high.
    memory_high: Option<u64>,
    /// Bytes of swap that it may use: memory.swap.max.
    swap_max: Option<u64>,
    /// Bytes in use: memory.current, memory.usage_in_bytes.
    memory_current: Option<u64>,
    /// Bytes of files among these that were not read lately and can be dropped: inactive_file.
    memory_idle_files: Option<u64>,
    /// Processes that the kernel has killed because memory was short.
    killed: Option<u64>,
    /// Processor time per time, in processors: cpu.max, cpu.cfs_quota_us.
    processors_quota: Option<f64>,
    /// Processors that the process may run on.
    processors: Option<u64>,
}

/// A group and those above it, innermost first, as directories of [`Root`].
struct Groups {
    version: u8,
    directories: Vec<PathBuf>,
}

impl Groups {
    /// The groups that have the files of `controller`.
    fn of(root: &Root, controller: &str) -> Option<Self> {
        let groups: ProcessCGroups = root.process("cgroup")?;
        let mounts: MountInfos = root.process("mountinfo")?;
        let first = groups.0.iter().find(|group| group.controllers.iter().any(|c| c == controller));
        let (version, group) = match first {
            Some(group) => (1, group),
            None => (2, groups.0.iter().find(|group| group.hierarchy == 0)?),
        };
        let mount = mounts.0.iter().find(|mount| match version {
            1 => mount.fs_type == "cgroup" && mount.super_options.contains_key(controller),
            _ => mount.fs_type == "cgroup2",
        })?;
        // In a container the mount often shows only part of the tree, from the container's group
        // on, while the path starts at the tree's own root.
        let path = group.pathname.strip_prefix(mount.root.trim_end_matches('/'));
        let path = PathBuf::from(path.unwrap_or(&group.pathname).trim_matches('/'));
        let directories = path.ancestors().map(|part| mount.mount_point.join(part));
        let directories = directories.filter(|directory| root.at(directory).is_dir()).collect();
        Some(Self { version, directories })
    }

    /// Returns the smallest number in the groups' files called `name`.
    fn smallest(&self, root: &Root, name: &str) -> Option<u64> {
        self.directories.iter().filter_map(|group| root.value(group.join(name))).min()
    }

    /// Returns the innermost group whose file `name` holds the smallest number below [`UNLIMITED`].
    fn limiting(&self, root: &Root, name: &str) -> Option<(u64, &PathBuf)> {
        let all = self.directories.iter();
        let all = all.filter_map(|group| Some((root.value::<u64>(group.join(name))?, group)));
        all.filter(|&(limit, _)| limit < UNLIMITED).min_by_key(|&(limit, _)| limit)
    }
}

impl Container {
    pub fn read(root: &Root) -> Self {
        let mut facts =
            Self { processors: root.is_live().then(processors).flatten(), ..Self::default() };
        if let Some(groups) = Groups::of(root, "memory") {
            facts.read_memory(root, &groups);
        }
        if let Some(groups) = Groups::of(root, "cpu") {
            facts.processors_quota = quota(root, &groups);
        }
        facts
    }

    fn read_memory(&mut self, root: &Root, groups: &Groups) {
        let (max, current, high) = match groups.version {
            1 => ("memory.limit_in_bytes", "memory.usage_in_bytes", None),
            _ => ("memory.max", "memory.current", Some("memory.high")),
        };
        self.version = Some(groups.version);
        let limiting = groups.limiting(root, max);
        let innermost = groups.directories.first();
        let group = limiting.map(|(_, group)| group).or(innermost);
        let Some(group) = group else { return };
        self.path = Some(group.display().to_string());
        self.memory_max = limiting.map(|(limit, _)| limit);
        self.memory_current = root.value(group.join(current));
        let stat = root.text(group.join("memory.stat")).unwrap_or_default();
        let idle = if groups.version == 1 { "total_inactive_file " } else { "inactive_file " };
        self.memory_idle_files = counted(&stat, idle);
        self.memory_high = high.and_then(|name| groups.limiting(root, name)).map(|(high, _)| high);
        self.swap_max = match groups.version {
            // Version 1 limits memory and swap together.
            1 => groups
                .limiting(root, "memory.memsw.limit_in_bytes")
                .zip(limiting)
                .map(|((both, _), (memory, _))| both.saturating_sub(memory)),
            _ => groups.smallest(root, "memory.swap.max"),
        };
        let events = if groups.version == 1 { "memory.oom_control" } else { "memory.events" };
        let events = root.text(group.join(events)).unwrap_or_default();
        self.killed = counted(&events, "oom_kill ");
    }

    pub fn findings(&self, memory: &Memory) -> Vec<Finding> {
        let mut findings = vec![self.memory(memory)];
        findings.extend(self.slowed());
        findings.extend(self.deaths());
        findings.extend(self.time());
        findings
    }

    fn memory(&self, memory: &Memory) -> Finding {
        const ID: &str = "container.memory";
        let Some(version) = self.version else {
            return Finding::ok(ID, "No control group limits memory.");
        };
        // A limit beyond the machine's memory has no effect.
        let limit = self.memory_max.filter(|&max| memory.total.is_none_or(|total| max < total));
        let Some(max) = limit else {
            return Finding::ok(ID, format!("No limit on memory (cgroup v{version})."));
        };
        let path = self.path.as_deref().unwrap_or_default();
        let swap = if self.swap_max == Some(0) { ", no swap" } else { "" };
        let Some(current) = self.memory_current else {
            return Finding::ok(ID, format!("Memory is limited to {}{swap} ({path}).", Bytes(max)));
        };
        let sentence =
            format!("{} of {} of memory in use{swap} ({path})", Bytes(current), Bytes(max));
        // The page cache counts as use, so a full group alone is no cause for alarm.
        let needed = current.saturating_sub(self.memory_idle_files.unwrap_or(0));
        if needed >= max - max / 10 {
            let soft = (max / 10 * 8) >> 20;
            Finding::warning(ID, format!("{sentence}: at the limit, the kernel kills a process."))
                .fix(format!("raise the limit, or use masu run --soft-limit {}MiB", soft.max(1)))
        } else {
            Finding::ok(ID, format!("{sentence}."))
        }
    }

    fn slowed(&self) -> Option<Finding> {
        let (high, current) = (self.memory_high?, self.memory_current?);
        (current >= high).then(|| {
            Finding::warning(
                "container.memory_high",
                format!(
                    "{} in use is above memory.high, {}: the kernel slows these processes down.",
                    Bytes(current),
                    Bytes(high)
                ),
            )
            .fix("raise memory.high, or use masu run --policy low-memory")
        })
    }

    fn deaths(&self) -> Option<Finding> {
        let killed = self.killed.filter(|&count| count > 0)?;
        let times = if killed == 1 { "once".to_owned() } else { format!("{killed} times") };
        Some(
            Finding::warning(
                "container.killed",
                format!("The kernel has killed processes here for lack of memory {times}."),
            )
            .fix("with masu run --limit SIZE, malloc fails before the kernel kills one"),
        )
    }

    fn time(&self) -> Option<Finding> {
        const ID: &str = "container.processors";
        let count = |n: u64| if n == 1 { "1 processor".into() } else { format!("{n} processors") };
        match (self.processors_quota, self.processors) {
            (Some(quota), Some(n)) if quota < n as f64 => {
                Some(Finding::ok(ID, format!("{quota:.1} of {} (quota).", count(n))))
            }
            (Some(quota), None) => Some(Finding::ok(ID, format!("{quota:.1} processors (quota)."))),
            (_, Some(n)) => Some(Finding::ok(ID, format!("{}.", count(n)))),
            (None, None) => None,
        }
    }
}

/// Returns the number after `name` at the start of a line.
fn counted(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

/// Returns the processors' worth of time that the groups allow.
fn quota(root: &Root, groups: &Groups) -> Option<f64> {
    let quotas = groups.directories.iter().filter_map(|group| {
        let (quota, period): (f64, f64) = if groups.version == 1 {
            let file = |name: &str| root.value(group.join(name));
            (file("cpu.cfs_quota_us")?, file("cpu.cfs_period_us")?)
        } else {
            let text = root.text(group.join("cpu.max"))?;
            let (quota, period) = text.split_once(' ')?;
            (quota.parse().ok()?, period.parse().ok()?)
        };
        // Version 1 expresses "no quota" as -1.
        (quota > 0.0 && period > 0.0).then_some(quota / period)
    });
    quotas.min_by(f64::total_cmp)
}

/// Returns how many processors this process may run on.
fn processors() -> Option<u64> {
    sched_getaffinity(None).ok().map(|set| u64::from(set.count()))
}

//! Page size, huge pages, overcommit, and how many mappings a process may have.

use procfs_core::Meminfo;
use serde::Serialize;

use crate::bytes::Bytes;
use crate::doctor::finding::Finding;
use crate::doctor::root::Root;

const AT_PAGESZ: u64 = 6;
/// The kernel's own default for `vm.max_map_count`.
const MAPPINGS: u64 = 65530;
const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage";

/// Memory settings of the kernel. What could not be read is null.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Memory {
    /// The page size in bytes.
    page_size: Option<u64>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    huge_pages: Option<String>,
    /// What a page fault does when no huge page is free: `always`, `defer`, `defer+madvise`, `madvise`,
    /// `never`.
    huge_pages_defrag: Option<String>,
    /// Huge pages for shared memory, which masu does not use.
    huge_pages_shmem: Option<String>,
    /// `vm.overcommit_memory`.
    overcommit: Option<u8>,
    /// `vm.overcommit_ratio`, in percent.
    overcommit_ratio: Option<u64>,
    /// Bytes that all programs together may reserve under strict overcommit.
    commit_limit: Option<u64>,
    /// Bytes reserved now.
    committed: Option<u64>,
    /// Bytes of physical memory.
    pub total: Option<u64>,
    /// `vm.max_map_count`.
    pub max_map_count: Option<u64>,
}

impl Memory {
    pub fn read(root: &Root) -> Self {
        let meminfo: Option<Meminfo> = root.system("/proc/meminfo");
        let huge = |file: &str| root.choice(format!("{HUGE_PAGES}/{file}"));
        Self {
            page_size: root.auxiliary(AT_PAGESZ),
            huge_pages: huge("enabled"),
            huge_pages_defrag: huge("defrag"),
            huge_pages_shmem: huge("shmem_enabled"),
            overcommit: root.value("/proc/sys/vm/overcommit_memory"),
            overcommit_ratio: root.value("/proc/sys/vm/overcommit_ratio"),
            commit_limit: meminfo.as_ref().and_then(|info| info.commit_limit),
            committed: meminfo.as_ref().map(|info| info.committed_as),
            total: meminfo.map(|info| info.mem_total),
            max_map_count: root.value("/proc/sys/vm/max_map_count"),
        }
    }

    pub fn findings(&self) -> Vec<Finding> {
        [self.pages(), self.huge_pages(), self.defrag(), self.overcommitted(), self.room_for_maps()]
            .into_iter()
            .flatten()
            .collect()
    }

    fn pages(&self) -> Option<Finding> {
        const ID: &str = "memory.page_size";
        let size = self.page_size?;
        let shown = Bytes(size);
        Some(if size <= 4096 {
            Finding::ok(ID, format!("Pages are {shown}."))
        } else {
            Finding::note(
                ID,
                format!(
                    "Pages are {shown}: memory is returned in pieces of that size, so sparse memory stays longer \
                     than with pages of 4 KiB."
                ),
            )
        })
    }

    fn huge_pages(&self) -> Option<Finding> {
        const ID: &str = "memory.huge_pages";
        Some(match self.huge_pages.as_deref() {
            Some("madvise") => Finding::ok(ID, "Transparent huge pages are available on request."),
            Some("always") => Finding::ok(
                ID,
                "Transparent huge pages are always on; masu forbids them for its small heaps.",
            ),
            Some("never") => Finding::note(
                ID,
                "Transparent huge pages are off, so large heaps consist of small pages.",
            )
            .fix(format!("echo madvise > {HUGE_PAGES}/enabled")),
            Some(_) => return None,
            None => Finding::note(ID, "This kernel has no transparent huge pages."),
        })
    }

    fn defrag(&self) -> Option<Finding> {
        let stalls = self.huge_pages_defrag.as_deref() == Some("always")
            && self.huge_pages.as_deref() != Some("never");
        stalls.then(|| {
            Finding::warning(
                "memory.huge_pages_defrag",
                "Any page fault, in any program, may take milliseconds to make a huge page (defrag is `always`).",
            )
            .fix(format!("echo defer+madvise > {HUGE_PAGES}/defrag"))
        })
    }

    fn overcommitted(&self) -> Option<Finding> {
        const ID: &str = "memory.overcommit";
        Some(match self.overcommit? {
            0 => Finding::ok(ID, "Overcommit is heuristic (0)."),
            1 => Finding::note(
                ID,
                "Overcommit is unlimited (1): malloc does not fail; when memory is out, the kernel kills a process \
                 instead.",
            )
            .fix("with masu run --limit SIZE, malloc fails before that"),
            2 => {
                let ratio = self.overcommit_ratio.unwrap_or(50);
                let (limit, now) = (self.commit_limit?, self.committed?);
                let left = limit.saturating_sub(now);
                let shown = format!(
                    "Overcommit is strict (2): {} of {} can still be promised to programs",
                    Bytes(left),
                    Bytes(limit)
                );
                let fix = format!(
                    "sysctl vm.overcommit_memory=0, or raise vm.overcommit_ratio (now {ratio})"
                );
                // A single service can easily request a tenth.
                if left < limit / 10 {
                    Finding::warning(ID, format!("{shown}, so malloc may fail soon.")).fix(fix)
                } else {
                    Finding::note(ID, format!("{shown}; masu maps only what it needs."))
                }
            }
            _ => return None,
        })
    }

    fn room_for_maps(&self) -> Option<Finding> {
        const ID: &str = "memory.max_map_count";
        let count = self.max_map_count?;
        Some(if count < MAPPINGS {
            Finding::warning(
                ID,
                format!(
                    "A process may have only {count} mappings, which threads, libraries and files share with malloc."
                ),
            )
            .fix(format!("sysctl vm.max_map_count={MAPPINGS}"))
        } else {
            Finding::ok(ID, format!("A process may have {count} mappings."))
        })
    }
}

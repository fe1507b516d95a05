//! The kernel's version, and what confines the process.

use serde::Serialize;

use crate::doctor::finding::Finding;
use crate::doctor::root::Root;

/// masu's uses of newer kernels: since which version, and what happens without it.
const FEATURES: &[((u32, u32), &str, &str)] = &[
    ((4, 14), "membarrier", "caches of sleeping threads keep their few MiB"),
    ((4, 17), "MAP_FIXED_NOREPLACE", "masu probes for free addresses with hints instead"),
    ((5, 7), "MREMAP_DONTUNMAP", "realloc of blocks above 1 MiB copies instead of moving pages"),
    ((5, 14), "MADV_POPULATE_WRITE", "each page of fresh memory costs a page fault"),
    ((5, 18), "MADV_DONTNEED_LOCKED", "after mlockall, no memory is returned"),
];

/// The kernel.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Kernel {
    /// The release, as `uname -r` prints it.
    pub release: Option<String>,
    /// 0 off, 1 strict, 2 filter.
    pub seccomp: Option<u32>,
    /// Whether the process can gain no rights by executing a file.
    pub no_new_privileges: Option<bool>,
    /// Whether the kernel reports memory pressure.
    pub pressure: bool,
}

impl Kernel {
    pub fn read(root: &Root) -> Self {
        let status: Option<procfs_core::process::Status> = root.process("status");
        Self {
            release: root.text("/proc/sys/kernel/osrelease"),
            seccomp: status.as_ref().and_then(|status| status.seccomp),
            no_new_privileges: status.and_then(|status| status.nonewprivs).map(|bit| bit != 0),
            pressure: root.text("/proc/pressure/memory").is_some(),
        }
    }

    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = vec![self.version()];
        if !self.pressure {
            findings.push(
                Finding::note(
                    "kernel.pressure",
                    "The kernel does not report memory pressure (/proc/pressure/memory), so masu \
                     cannot react to it.",
                )
                .fix("boot with psi=1 if the kernel is built with CONFIG_PSI"),
            );
        }
        if self.no_new_privileges == Some(true) {
            findings.push(Finding::ok(
                "kernel.no_new_privileges",
                "No program can gain privileges here (no_new_privs), so set-user-ID programs run on \
                 masu too.",
            ));
        }
        findings
    }

    fn version(&self) -> Finding {
        const ID: &str = "kernel.version";
        let Some(release) = &self.release else {
            return Finding::note(ID, "The kernel's version could not be read.");
        };
        let Some(version) = parse(release) else {
            return Finding::note(
                ID,
                format!("The kernel's version `{release}` cannot be interpreted."),
            );
        };
        let missing: Vec<_> = FEATURES.iter().filter(|(since, _, _)| version < *since).collect();
        let Some(((major, minor), _, _)) = missing.last() else {
            return Finding::ok(ID, format!("Linux {release} is new enough for masu."));
        };
        let list: Vec<_> =
            missing.iter().map(|(_, name, without)| format!("no {name}: {without}")).collect();
        Finding::note(ID, format!("Linux {release} is old: {}.", list.join("; ")))
            .fix(format!("use Linux {major}.{minor} or newer"))
    }
}

/// Parses the first two numbers of a release.
fn parse(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

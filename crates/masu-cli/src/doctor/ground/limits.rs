//! `ulimit`.

use procfs_core::process::{Limit, LimitValue};
use serde::Serialize;

use crate::bytes::Bytes;
use crate::doctor::finding::Finding;
use crate::doctor::root::Root;

/// Below this much address space or data, ordinary programs reach the limit.
const NARROW: u64 = 1 << 30;

/// The soft limits, in bytes. Null is unlimited.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Limits {
    /// `ulimit -v`, RLIMIT_AS.
    address_space: Option<u64>,
    /// `ulimit -d`, RLIMIT_DATA.
    data: Option<u64>,
    /// `ulimit -l`, RLIMIT_MEMLOCK.
    locked: Option<u64>,
    /// Bytes that the process has locked (mlock, mlockall).
    locked_now: Option<u64>,
    /// Whether any of it could be read.
    #[serde(skip)]
    known: bool,
}

impl Limits {
    pub fn read(root: &Root) -> Self {
        let limits: Option<procfs_core::process::Limits> = root.process("limits");
        let status: Option<procfs_core::process::Status> = root.process("status");
        let of = |which: fn(&procfs_core::process::Limits) -> &Limit| {
            limits.as_ref().and_then(|limits| match which(limits).soft_limit {
                LimitValue::Unlimited => None,
                LimitValue::Value(bytes) => Some(bytes),
            })
        };
        Self {
            address_space: of(|limits| &limits.max_address_space),
            data: of(|limits| &limits.max_data_size),
            locked: of(|limits| &limits.max_locked_memory),
            locked_now: status.and_then(|status| status.vmlck).map(|kib| kib * 1024),
            known: limits.is_some(),
        }
    }

    pub fn findings(&self) -> Vec<Finding> {
        if !self.known {
            return vec![Finding::note("limits.known", "The limits could not be read.")];
        }
        let mut findings: Vec<Finding> = [
            ("limits.address_space", "address space", 'v', self.address_space),
            ("limits.data", "data", 'd', self.data),
        ]
        .into_iter()
        .filter_map(|(id, what, letter, limit)| confined(id, what, letter, limit?))
        .collect();
        if findings.is_empty() {
            let sentence = "Address space and data are unlimited.";
            findings.push(Finding::ok("limits.address_space", sentence));
        }
        if let Some(locked @ 1..) = self.locked_now {
            findings.push(Finding::note(
                "limits.locked",
                format!(
                    "The process has {} locked in memory: masu can return locked memory only from Linux 5.18 on.",
                    Bytes(locked)
                ),
            ));
        }
        findings
    }
}

fn confined(id: &'static str, what: &str, letter: char, limit: u64) -> Option<Finding> {
    let shown = Bytes(limit);
    let fix = format!("ulimit -{letter} unlimited");
    Some(if limit < NARROW {
        Finding::warning(
            id,
            format!(
                "`ulimit -{letter}` allows {shown} of {what}, which counts mapped memory, not memory in use: malloc \
                 fails well before that much is in use."
            ),
        )
        .fix(format!("{fix}, and limit memory itself: masu run --limit {}", whole(limit)))
    } else {
        Finding::note(id, format!("`ulimit -{letter}` allows {shown} of {what}.")).fix(fix)
    })
}

/// Formats a size so that `--limit` can read it.
fn whole(bytes: u64) -> String {
    format!("{}MiB", (bytes >> 20).max(1))
}

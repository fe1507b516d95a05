//! What the process's control group allows, and how long its tasks have waited for memory.
//!
//! Version 2 and version 1 of the interface, each where systemd and the container engines mount it:
//! below `/sys/fs/cgroup`. `/proc/self/cgroup` says which group the process is in, seen from the root
//! of its namespace or from the host's; in the second case that path does not exist inside a
//! container, and the container's own group is the mount's root. So all groups from that path up to the root are
//! read, and the lowest limit counts, as it does in the kernel.
//!
//! Nothing is kept open. The engine does not call this while a process is small or has few threads.

use super::file;
use core::ffi::CStr;

/// The lowest limit on memory, in bytes: `memory.max` and `memory.high`, or `memory.limit_in_bytes`.
pub fn memory_limit() -> Option<usize> {
    let mut least = usize::MAX;
    let mut ask = |path: &CStr| {
        if let Some(limit) = numbers(path).0 {
            least = least.min(limit as usize);
        }
    };
    each_group(MEMORY, "memory.max", &mut ask);
    each_group(MEMORY, "memory.high", &mut ask);
    each_group(MEMORY_1, "memory.limit_in_bytes", &mut ask);
    // Version 1 expresses "no limit" by a number.
    (least < NONE).then_some(least)
}

/// The lowest share of processors, rounded up: `cpu.max`, or `cpu.cfs_quota_us` of each period.
pub fn processors() -> Option<u32> {
    let mut least = u64::MAX;
    let mut ask = |quota: Option<u64>, period: Option<u64>| {
        if let (Some(quota), Some(period @ 1..)) = (quota, period) {
            least = least.min(quota.div_ceil(period).max(1));
        }
    };
    each_group(PROCESSORS, "cpu.max", &mut |path| {
        let (quota, period) = numbers(path);
        ask(quota, period);
    });
    each_group(PROCESSORS_1, "cpu.cfs_quota_us", &mut |path| {
        // The same group's other file.
        let mut other = Path::new();
        other.push(path.to_bytes());
        other.len -= "quota_us".len();
        other.push(b"period_us");
        ask(numbers(path).0, other.as_c_str().and_then(|path| numbers(path).0));
    });
    u32::try_from(least).ok()
}

/// Microseconds that tasks have waited for memory so far: those of the group, or else of the machine.
pub fn stalled() -> Option<u64> {
    let mut total = None;
    each_group(MEMORY, "memory.pressure", &mut |path| total = total.or_else(|| waited(path)));
    total.or_else(|| {
        let mut path = Path::new();
        path.push(root());
        path.push(b"/proc/pressure/memory");
        waited(path.as_c_str()?)
    })
}

/// Limits from here on mean none: 2^62.
const NONE: usize = 1 << 62;

/// A controller's name, in `/proc/self/cgroup` and of its mount; empty in version 2.
type Controller = [u8];

const MEMORY: &Controller = b"";
const PROCESSORS: &Controller = MEMORY;
const MEMORY_1: &Controller = b"memory";
const PROCESSORS_1: &Controller = b"cpu";

/// Calls `f` with the path of the group's file, then of its parents', up to the root.
#[inline(never)]
fn each_group(controller: &Controller, name: &str, f: &mut dyn FnMut(&CStr)) {
    let mut buffer = [0; 1024];
    let mut path = Path::new();
    path.push(root());
    path.push(b"/proc/self/cgroup");
    let Some(text) = path.as_c_str().and_then(|path| file::read(path, &mut buffer)) else { return };
    let Some(mut group) = group_in(text, controller) else { return };
    let slash: &[u8] = if controller.is_empty() { b"" } else { b"/" };
    loop {
        let mut path = Path::new();
        for part in [root(), b"/sys/fs/cgroup", slash, controller, group, b"/", name.as_bytes()] {
            path.push(part);
        }
        if let Some(path) = path.as_c_str() {
            f(path);
        }
        if group.is_empty() {
            return;
        }
        let slash = group.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        group = group.get(..slash).unwrap_or(&[]);
    }
}

/// The group in lines of `number:controllers:path`; empty for the root.
fn group_in<'a>(text: &'a [u8], controller: &[u8]) -> Option<&'a [u8]> {
    text.split(|&byte| byte == b'\n').find_map(|line| {
        let mut fields = line.splitn(3, |&byte| byte == b':');
        let (_, names, path) = (fields.next()?, fields.next()?, fields.next()?);
        let named = names.split(|&byte| byte == b',').any(|name| name == controller);
        named.then_some(if path == b"/" { &[] } else { path })
    })
}

/// The two numbers that a file begins with; `None` for anything else.
fn numbers(path: &CStr) -> (Option<u64>, Option<u64>) {
    let mut buffer = [0; 64];
    let text = file::read(path, &mut buffer).unwrap_or(&[]);
    let mut words = text.split(|byte| byte.is_ascii_whitespace()).map(number);
    (words.next().flatten(), words.next().flatten())
}

fn number(digits: &[u8]) -> Option<u64> {
    let mut n = 0u64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        n = n.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    (!digits.is_empty()).then_some(n)
}

/// The total in the first line of a pressure file: `some avg10=0.00 … total=123`.
#[inline(never)]
fn waited(path: &CStr) -> Option<u64> {
    let mut buffer = [0; 128];
    let text = file::read(path, &mut buffer)?;
    let mut words = text.split(|byte| byte.is_ascii_whitespace());
    words.find_map(|word| word.strip_prefix(b"total=")).and_then(number)
}

/// A path, ended by a zero byte. A path that is too long counts as one that does not exist.
struct Path {
    bytes: [u8; 512],
    len: usize,
}

impl Path {
    fn new() -> Self {
        Path { bytes: [0; 512], len: 0 }
    }

    #[inline(never)]
    fn push(&mut self, part: &[u8]) {
        let end = self.len + part.len();
        if let Some(room) = self.bytes.get_mut(self.len..end) {
            room.copy_from_slice(part);
        }
        self.len = end;
    }

    fn as_c_str(&mut self) -> Option<&CStr> {
        *self.bytes.get_mut(self.len)? = 0;
        CStr::from_bytes_with_nul(self.bytes.get(..=self.len)?).ok()
    }
}

/// The prefix of every path: empty, except in tests.
#[cfg(not(test))]
fn root() -> &'static [u8] {
    b""
}

#[cfg(test)]
pub use tests::{Fake, root};

#[cfg(test)]
mod tests;

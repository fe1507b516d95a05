//! The process's limits on memory, as the kernel reports them.

use super::raw::{nr, syscall};
use super::{auxv, file, result};

/// A limit that mappings of memory count against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Limit {
    /// `RLIMIT_DATA`: writable private memory.
    Data = 2,
    /// `RLIMIT_AS`: address space.
    AddressSpace = 9,
}

/// The limit in bytes; `None` if there is none, or the kernel does not say.
pub fn get(limit: Limit) -> Option<usize> {
    let mut words = [u64::MAX; 2];
    // SAFETY: the kernel writes the soft and the hard limit into `words`.
    let asked = unsafe {
        let at = (&raw mut words).expose_provenance();
        result(syscall(nr::PRLIMIT64, [0, limit as usize, 0, at, 0, 0]))
    };
    asked.ok().filter(|_| words[0] != u64::MAX).map(|_| words[0] as usize)
}

/// The lowest of the limits.
pub fn least() -> Option<usize> {
    [Limit::AddressSpace, Limit::Data].into_iter().filter_map(get).min()
}

/// Bytes that count against a limit now.
pub fn used(limit: Limit) -> Option<usize> {
    statm(match limit {
        Limit::AddressSpace => 0,
        Limit::Data => 5,
    })
}

/// The process's resident bytes.
pub fn resident() -> Option<usize> {
    statm(1)
}

/// A figure of the process's memory, in bytes. Not by `/proc/self`, where all are 0 once the first thread has ended.
#[inline(never)]
fn statm(field: usize) -> Option<usize> {
    let mut buffer = [0; 128];
    let text = file::read(c"/proc/thread-self/statm", &mut buffer)?;
    let pages = text.split(|byte| byte.is_ascii_whitespace()).nth(field)?;
    let digit = |n: usize, byte: &u8| Some(n * 10 + (*byte as char).to_digit(10)? as usize);
    pages.iter().try_fold(0, digit).map(|pages| pages * auxv::page_size())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_is_what_the_kernel_says() {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let used = used(Limit::AddressSpace).unwrap();
        for (name, bytes) in [("VmSize:", used), ("VmRSS:", resident().unwrap())] {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            let kib: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
            // Other tests of the process map and unmap meanwhile.
            assert!(bytes / 2 < kib << 10 && kib << 10 < bytes * 2, "{bytes} bytes, {kib} KiB");
        }
        assert!(super::used(Limit::Data).unwrap() < used);
    }
}

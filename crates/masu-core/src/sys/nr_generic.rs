//! Numbers of the system calls that the engine makes, on AArch64 and RISC-V, which use the kernel's generic ones.
//! `docs/syscalls.md` gives the reasons for the calls.
#![allow(missing_docs, reason = "the names are the kernel's own")]

pub const GETCWD: usize = 17;
pub const FCNTL: usize = 25;
pub const OPENAT: usize = 56;
pub const CLOSE: usize = 57;
pub const READ: usize = 63;
pub const WRITE: usize = 64;
pub const PREAD64: usize = 67;
pub const FSTAT: usize = 80;
pub const EXIT_GROUP: usize = 94;
pub const FUTEX: usize = 98;
pub const CLOCK_GETTIME: usize = 113;
pub const SCHED_GETAFFINITY: usize = 123;
pub const TGKILL: usize = 131;
pub const RT_SIGACTION: usize = 134;
pub const RT_SIGPROCMASK: usize = 135;
pub const RT_SIGPENDING: usize = 136;
pub const RT_SIGTIMEDWAIT: usize = 137;
pub const PRCTL: usize = 167;
pub const GETPID: usize = 172;
pub const GETTID: usize = 178;
pub const MUNMAP: usize = 215;
pub const MREMAP: usize = 216;
pub const CLONE: usize = 220;
pub const MMAP: usize = 222;
pub const MPROTECT: usize = 226;
pub const MINCORE: usize = 232;
pub const MADVISE: usize = 233;
pub const PRLIMIT64: usize = 261;
pub const GETRANDOM: usize = 278;
pub const MEMBARRIER: usize = 283;
pub const PROCESS_MADVISE: usize = 440;

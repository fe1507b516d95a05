//! Numbers of the system calls that the engine makes, on x86-64. `docs/syscalls.md` gives the
//! reasons for the calls.
#![allow(missing_docs, reason = "the names are the kernel's own")]

pub const READ: usize = 0;
pub const WRITE: usize = 1;
pub const CLOSE: usize = 3;
pub const FSTAT: usize = 5;
pub const MMAP: usize = 9;
pub const MPROTECT: usize = 10;
pub const MUNMAP: usize = 11;
pub const RT_SIGACTION: usize = 13;
pub const RT_SIGPROCMASK: usize = 14;
pub const PREAD64: usize = 17;
pub const MREMAP: usize = 25;
pub const MINCORE: usize = 27;
pub const MADVISE: usize = 28;
pub const GETPID: usize = 39;
pub const CLONE: usize = 56;
pub const FCNTL: usize = 72;
pub const GETCWD: usize = 79;
pub const RT_SIGPENDING: usize = 127;
pub const RT_SIGTIMEDWAIT: usize = 128;
pub const PRCTL: usize = 157;
pub const GETTID: usize = 186;
pub const FUTEX: usize = 202;
pub const SCHED_GETAFFINITY: usize = 204;
pub const CLOCK_GETTIME: usize = 228;
pub const EXIT_GROUP: usize = 231;
pub const TGKILL: usize = 234;
pub const OPENAT: usize = 257;
pub const PRLIMIT64: usize = 302;
pub const GETRANDOM: usize = 318;
pub const MEMBARRIER: usize = 324;
pub const PROCESS_MADVISE: usize = 440;

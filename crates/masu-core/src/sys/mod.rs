//! The interface to the kernel and the CPU. It uses nothing of the C library except a few weak symbols.
//!
//! Everything below this folder is raw: system calls by number ([`raw`]), memory mappings
//! ([`mem`]), limits on them ([`rlimit`]), futex words ([`futex`]), barriers ([`barrier`]), the clock
//! ([`time`]), processors ([`cpu`]), control groups ([`cgroup`]), the auxiliary vector ([`auxv`]), what the process may
//! do ([`credentials`]), who may read it ([`ptracer`]), random words ([`random`]), the background thread's creation
//! ([`thread`]), what is asked of the host C library when there is one ([`host`]), descriptors to write to
//! ([`output`]), a handler of faults ([`signal`]) with a stack of its own (`aside`), tags of memory ([`tags`]), and the
//! one way to die ([`fatal`]).
//!
//! No call here touches `errno`, allocates, or takes a lock.

mod aside;
pub mod auxv;
pub mod barrier;
pub mod cgroup;
pub mod cpu;
#[cfg(not(loom))]
pub mod credentials;
pub mod fatal;
pub mod file;
pub mod futex;
pub mod host;
#[cfg(not(loom))]
pub mod huge;
pub mod mem;
pub mod output;
pub mod place;
pub mod ptracer;
pub mod random;
#[cfg_attr(all(not(miri), target_arch = "x86_64"), path = "raw_x86_64.rs")]
#[cfg_attr(all(not(miri), target_arch = "aarch64"), path = "raw_aarch64.rs")]
#[cfg_attr(all(not(miri), target_arch = "riscv64"), path = "raw_riscv64.rs")]
#[cfg_attr(miri, path = "raw_miri.rs")]
pub mod raw;
mod refused_write;
pub mod rlimit;
pub mod signal;
#[cfg_attr(all(target_arch = "aarch64", not(any(miri, loom))), path = "tags_aarch64.rs")]
#[cfg_attr(not(all(target_arch = "aarch64", not(any(miri, loom)))), path = "tags_none.rs")]
pub mod tags;
pub mod thread;
pub mod time;

/// An error number of the kernel (positive).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

impl Errno {
    /// A signal came first.
    pub const EINTR: Errno = Errno(4);
    /// Out of memory, or over a limit.
    pub const ENOMEM: Errno = Errno(12);
    /// An address that cannot be accessed.
    pub const EFAULT: Errno = Errno(14);
    /// The address range is taken (`MAP_FIXED_NOREPLACE`).
    pub const EEXIST: Errno = Errno(17);
    /// Invalid argument; also an unknown flag.
    pub const EINVAL: Errno = Errno(22);
}

/// Splits a raw system call result into a value and an error.
#[inline]
pub fn result(value: usize) -> Result<usize, Errno> {
    // The kernel returns -4095..=-1 for errors; every other value is a result.
    if value > usize::MAX - 4095 { Err(Errno(-(value as isize) as i32)) } else { Ok(value) }
}

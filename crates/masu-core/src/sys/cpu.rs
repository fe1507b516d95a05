//! How many processors the process may use.

use super::raw::{nr, syscall};
use super::{cgroup, result, thread};
use crate::sync::rolled;

/// Processors in the affinity mask of the process's first thread. The calling thread may be a worker that
/// is bound to a single processor, as the other workers are to theirs.
fn affinity() -> u32 {
    // Room for 1,024 processors; a larger machine makes the call fail, and then many are assumed.
    let mut mask = [0u64; 16];
    // SAFETY: the kernel writes at most the size given, 128 bytes, into `mask`.
    let written = unsafe {
        let first = syscall(nr::GETPID, [0; 6]);
        let at = mask.as_mut_ptr() as usize;
        result(syscall(nr::SCHED_GETAFFINITY, [first, size_of_val(&mask), at, 0, 0, 0]))
    };
    match written {
        Ok(_) => {
            let count = |word: &u64| {
                rolled();
                word.count_ones()
            };
            mask.iter().map(count).sum::<u32>().max(1)
        }
        Err(_) => 1024,
    }
}

/// Processors that the process may run on or, if `quota`, that the control group has time for, whichever
/// are fewer; at least 1.
#[cold]
pub fn count(quota: bool) -> u32 {
    let quota = if quota { cgroup::processors() } else { None };
    affinity().min(quota.unwrap_or(u32::MAX))
}

/// The node on which the calling thread runs, as the C library has the kernel note it; 0 if it does not (glibc before
/// 2.35, musl, Linux before 6.3). A system call would say so everywhere, but sandboxes kill for calls that they do not
/// expect.
pub fn node() -> usize {
    noted(NODE).unwrap_or(0) as usize
}

/// The number of the processor on which the calling thread runs, where that is noted: from glibc 2.35 on.
#[inline]
pub fn number() -> Option<usize> {
    noted(PROCESSOR).map(|number| number as usize)
}

/// Bytes from the start of a `struct rseq` to the processor, and to the node.
const PROCESSOR: usize = 4;
const NODE: usize = 20;

/// What the kernel notes in the calling thread's `struct rseq`, at so many bytes from its start.
fn noted(at: usize) -> Option<u32> {
    if cfg!(miri) {
        return None;
    }
    let offset: *const isize = crate::weak!("__rseq_offset").cast();
    let size: *const u32 = crate::weak!("__rseq_size").cast();
    // SAFETY: null, or the C library's variables, which never change. The size is not 0 where the kernel knows the
    // structure, which then has at least 32 bytes, that far from the thread pointer.
    unsafe {
        (*size.as_ref()? != 0).then_some(())?;
        let start = thread::pointer().wrapping_add_signed(*offset.as_ref()?);
        Some(core::ptr::with_exposed_provenance::<u32>(start + at).read_volatile())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::sys::Errno;
    use cgroup::Fake;

    /// Lets the calling thread run on the processors of a mask only.
    fn bind(mask: &[u64; 16]) -> Result<usize, Errno> {
        // On all machines, the number before that of the call that gets it.
        const SCHED_SETAFFINITY: usize = nr::SCHED_GETAFFINITY - 1;
        // SAFETY: the kernel reads the mask.
        let done = unsafe {
            syscall(SCHED_SETAFFINITY, [0, size_of_val(mask), mask.as_ptr() as usize, 0, 0, 0])
        };
        result(done)
    }

    /// Whether the calling thread now runs on that processor: there may be only one, and the C library may not say
    /// which one it is.
    pub fn is_moved_to(processor: usize) -> bool {
        let mut mask = [0; 16];
        mask[processor / 64] = 1 << (processor % 64);
        bind(&mask).is_ok() && number() == Some(processor)
    }

    /// As the kernel says itself.
    #[test]
    fn the_kernel_notes_processor_and_node_where_they_are_read() {
        // On all machines: by which number, see `kernel`.
        let now = || {
            let mut said = [0u32; 2];
            let at = said.as_mut_ptr() as usize;
            // SAFETY: the kernel writes two words.
            unsafe { result(syscall(GETCPU, [at, at + 4, 0, 0, 0, 0])).unwrap() };
            said
        };
        let are_same = || {
            let before = now();
            let noted = [noted(PROCESSOR)?, node() as u32];
            // The thread may be moved meanwhile.
            (before == now()).then_some(noted == before)
        };
        if noted(PROCESSOR).is_none() {
            return;
        }
        assert_eq!((0..1000).find_map(|_| are_same()), Some(true));
    }

    const GETCPU: usize = if cfg!(target_arch = "x86_64") { 309 } else { 168 };

    #[test]
    fn a_worker_on_one_processor_counts_all() {
        let all = count(false);
        let bound = std::thread::spawn(|| {
            let mut mask = [0u64; 16];
            let at = mask.as_mut_ptr() as usize;
            // SAFETY: the kernel writes the mask, 128 bytes.
            unsafe {
                result(syscall(nr::SCHED_GETAFFINITY, [0, size_of_val(&mask), at, 0, 0, 0]))
                    .unwrap();
            }
            let word = mask.iter().position(|&word| word != 0).unwrap();
            let first = mask[word] & mask[word].wrapping_neg();
            mask.fill(0);
            mask[word] = first;
            bind(&mask).unwrap();
            count(false)
        });
        assert_eq!(bound.join().unwrap(), all);
    }

    #[test]
    fn a_quota_counts_where_it_is_less() {
        let fake = Fake::new(&[("proc/self/cgroup", "0::/")]);
        let all = count(true);
        assert_eq!(all, count(false));
        fake.write("sys/fs/cgroup/cpu.max", "1000 100000");
        assert_eq!((count(true), count(false)), (1, all));
        fake.write("sys/fs/cgroup/cpu.max", "10000000 100");
        assert_eq!(count(true), all);
    }
}

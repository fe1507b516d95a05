//! How many processors the process may use.

use super::raw::{nr, syscall};
use super::{cgroup, result};

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
        Ok(_) => mask.iter().map(|w| w.count_ones()).sum::<u32>().max(1),
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

#[cfg(test)]
mod tests {
    use super::*;
    use cgroup::Fake;

    #[test]
    fn a_worker_on_one_processor_counts_all() {
        // On all machines, the number before that of the call that gets it.
        const SCHED_SETAFFINITY: usize = nr::SCHED_GETAFFINITY - 1;
        let all = count(false);
        let bound = std::thread::spawn(|| {
            let mut mask = [0u64; 16];
            let at = mask.as_mut_ptr() as usize;
            // SAFETY: the kernel reads and writes the mask, 128 bytes, of this thread alone.
            unsafe {
                result(syscall(nr::SCHED_GETAFFINITY, [0, size_of_val(&mask), at, 0, 0, 0]))
                    .unwrap();
                let word = mask.iter().position(|&word| word != 0).unwrap();
                let first = mask[word] & mask[word].wrapping_neg();
                mask.fill(0);
                mask[word] = first;
                result(syscall(SCHED_SETAFFINITY, [0, size_of_val(&mask), at, 0, 0, 0])).unwrap();
            }
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

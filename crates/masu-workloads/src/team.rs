//! Threads that work side by side on parts of one job.
//!
//! They are spread over the processors by their numbers. Where the kernel puts a new thread is luck: two of
//! four may share a processor for the first ten milliseconds or three for a hundred, and at equal processor
//! time that moved the time from start to end by a factor of two, whatever the allocator.

use std::thread;

/// Runs `work` on `count` threads, numbered from 0, and adds up what they return.
pub fn sum_of(count: usize, work: impl Fn(u64) -> u64 + Sync) -> u64 {
    thread::scope(|scope| {
        let work = &work;
        let start = |number| {
            scope.spawn(move || {
                bind(number);
                work(number)
            })
        };
        let threads: Vec<_> = (0..count as u64).map(start).collect();
        let sums = threads.into_iter().map(|thread| thread.join().expect("a thread failed"));
        sums.fold(0, u64::wrapping_add)
    })
}

/// Binds the calling thread to one of the processors that the process may use, neighbouring numbers to
/// different ones. Where the kernel refuses, the thread stays where it is.
fn bind(number: u64) {
    let Some(allowed) = allowed() else { return };
    // SAFETY: the sets are ours; the call changes nothing but where the calling thread runs.
    unsafe {
        let mut processors =
            (0..libc::CPU_SETSIZE as usize).filter(|&it| libc::CPU_ISSET(it, &allowed));
        let turn = number as usize % libc::CPU_COUNT(&allowed).max(1) as usize;
        if let Some(processor) = processors.nth(turn) {
            let mut only: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(processor, &mut only);
            libc::sched_setaffinity(0, size_of_val(&only), &raw const only);
        }
    }
}

/// The processors that the process may use, if the kernel says which.
fn allowed() -> Option<libc::cpu_set_t> {
    // SAFETY: a set of zeroes is one without members, and ours; the kernel fills it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let failed = libc::sched_getaffinity(libc::getpid(), size_of_val(&set), &raw mut set) != 0;
        (!failed).then_some(set)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Mutex;

    #[test]
    fn every_number_works_once() {
        assert_eq!(super::sum_of(7, |number| 10u64.pow(number as u32)), 1_111_111);
    }

    #[test]
    fn neighbours_have_different_processors() {
        let seen = Mutex::new(HashSet::new());
        super::sum_of(4, |_| {
            // SAFETY: asks for a number.
            seen.lock().unwrap().insert(unsafe { libc::sched_getcpu() });
            std::thread::yield_now();
            0
        });
        // Without regard to a time quota.
        // SAFETY: counts the members of a set.
        let processors = unsafe { libc::CPU_COUNT(&super::allowed().unwrap()) } as usize;
        assert_eq!(seen.into_inner().unwrap().len(), processors.min(4));
    }
}

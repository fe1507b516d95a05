//! Threads that work side by side on parts of one job.

use std::thread;

/// Runs `work` on `count` threads, numbered from 0, and adds up what they return.
pub fn sum_of(count: usize, work: impl Fn(u64) -> u64 + Sync) -> u64 {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> =
            (0..count as u64).map(|number| scope.spawn(move || work(number))).collect();
        let sums = threads.into_iter().map(|thread| thread.join().expect("a thread failed"));
        sums.fold(0, u64::wrapping_add)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_number_works_once() {
        assert_eq!(super::sum_of(7, |number| 10u64.pow(number as u32)), 1_111_111);
    }
}

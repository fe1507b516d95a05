//! Ranges of pages that go back to the kernel together.
//!
//! Each `madvise` that takes pages from a process with threads interrupts the processors on which these run, and waits
//! for them: 10 µs for 16 KiB beside one busy thread, where 1 µs does without threads. `process_madvise`, which a
//! process may use on itself since Linux 6.15, takes a list of ranges, and since 6.16 interrupts once for all of them:
//! 1.4 µs a range for 64 of 16 KiB. jemalloc has the same as an option (`process_madvise_max_batch`).
//!
//! A filter of system calls may end a process that makes one it does not know, so a filtered thread does without, and
//! so does one that may open no file to see whether it is filtered.
//!
//! Invariants:
//! 1. a range that is noted holds nothing in use, and nobody but the thread that noted it uses it, until it has gone.

use crate::sys::mem::{self, Pages};
use kernel::{may, refused};

/// Most ranges that go at once (`docs/experiments.md`, §7): their list lies on the stack of a thread of the program's.
pub const MOST: usize = 32;

/// Ranges that will go back.
pub struct Discards {
    ranges: [Pages; MOST],
    len: usize,
    /// Bytes that have gone back.
    pub given: usize,
    /// System calls that it took.
    pub calls: usize,
}

impl Discards {
    pub const fn new() -> Self {
        Self { ranges: [Pages { at: 0, len: 0 }; MOST], len: 0, given: 0, calls: 0 }
    }

    pub fn is_full(&self) -> bool {
        self.len == MOST
    }

    /// What is noted.
    pub fn ranges(&self) -> &[Pages] {
        self.ranges.get(..self.len).unwrap_or(&[])
    }

    /// Notes a range; if the list is full, what it holds goes first.
    ///
    /// # Safety
    /// Invariant 1, until [`send`](Self::send) or [`go`](Self::go).
    pub unsafe fn note(&mut self, at: usize, len: usize) {
        if self.is_full() {
            self.send();
            self.len = 0;
        }
        if let Some(range) = self.ranges.get_mut(self.len) {
            *range = Pages { at, len };
            self.len += 1;
        }
    }

    /// Gives back what is noted. Returns the bytes given back since the list was made.
    pub fn go(mut self) -> usize {
        self.send();
        self.given
    }

    /// Gives back what is noted. Returns which ranges the kernel refused, the first one as the lowest bit.
    #[inline(never)]
    pub fn send(&mut self) -> u32 {
        let mut together = 0;
        if self.len > 1 && may() {
            self.calls += 1;
            // SAFETY: invariant 1.
            together = unsafe { mem::discard_together(self.ranges()) }.unwrap_or_else(refused);
        }
        let mut refused = 0;
        for (index, range) in self.ranges.iter().take(self.len).enumerate() {
            let gone = together >= range.len || {
                self.calls += 1;
                // SAFETY: invariant 1.
                unsafe { mem::discard(range.at, range.len) }
            };
            together = together.saturating_sub(range.len);
            if gone {
                self.given += range.len;
            } else {
                refused |= 1 << index;
            }
        }
        refused
    }
}

/// From now on the kernel takes one range after the other.
#[cfg(all(test, not(loom)))]
pub fn one_by_one() {
    refused(crate::sys::Errno::EINVAL);
}

#[cfg(not(loom))]
mod kernel {
    //! Whether the kernel may be asked to take a list.

    use crate::sync::{AtomicU64, AtomicUsize, Ordering};
    use crate::sys::{Errno, credentials, thread, time};
    use crate::tuning::KERNEL_EVERY;
    use crate::{settings, sharing};

    /// When a thread was last found to have a filter or none, in milliseconds; [`NEVER`] if it does not matter.
    static LOOKED: AtomicU64 = AtomicU64::new(0);
    const NEVER: u64 = u64::MAX;
    /// The pointer of that thread, for each has filters of its own, and [`FREE`] if it had none.
    static FOUND: AtomicUsize = AtomicUsize::new(NOBODY);
    const FREE: usize = 1;
    const NOBODY: usize = usize::MAX & !FREE;

    /// Not before there are other processors to interrupt.
    pub fn may() -> bool {
        // Acquire: the thread found below was found at this time, or later.
        let looked = LOOKED.load(Ordering::Acquire);
        if looked == NEVER || sharing::is_alone() || !settings::cgroup() {
            return false;
        }
        let (now, me) = (time::now_ms(), thread::pointer());
        let mut found = FOUND.load(Ordering::Relaxed);
        if found & !FREE != me || now.saturating_sub(looked) >= KERNEL_EVERY {
            found = me | if credentials::are_unfiltered() { FREE } else { 0 };
            // In this order: a thread found long ago does not take this time for that of its own look.
            FOUND.store(found, Ordering::Relaxed);
            LOOKED.store(now, Ordering::Release);
        }
        found & FREE != 0
    }

    /// The kernel has no such call, or not for this process, or memory is locked: it is never asked again.
    #[cold]
    pub fn refused(_: Errno) -> usize {
        LOOKED.store(NEVER, Ordering::Relaxed);
        0
    }
}

#[cfg(loom)]
mod kernel {
    //! The checker's kernel takes one range after the other.

    pub fn may() -> bool {
        false
    }

    pub fn refused(_: crate::sys::Errno) -> usize {
        0
    }
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests {
    use super::*;
    use crate::own_process::{alone, is_emulated};
    use crate::size_class::UNIT;
    use crate::sys::credentials::filter_own_calls;
    use crate::sys::mem::refusals;

    const RANGES: usize = MOST + 8;

    /// Pages of which every second one is noted, all written to.
    struct Memory(usize);

    impl Memory {
        fn new() -> Self {
            let at = mem::map(2 * RANGES * UNIT).expect("memory");
            // SAFETY: just mapped.
            unsafe { (at as *mut u8).write_bytes(1, 2 * RANGES * UNIT) };
            Self(at)
        }

        fn note(&self, ranges: core::ops::Range<usize>, discards: &mut Discards) {
            // SAFETY: nobody uses the pages.
            ranges.for_each(|n| unsafe { discards.note(self.page(2 * n), UNIT) });
        }

        fn page(&self, n: usize) -> usize {
            self.0 + n * UNIT
        }

        /// Which of the noted ranges are gone; the pages between them are not.
        fn gone(&self) -> Vec<bool> {
            // SAFETY: mapped.
            let byte = |n| unsafe { (self.page(n) as *const u8).read() };
            assert!((0..RANGES).all(|n| byte(2 * n + 1) == 1));
            (0..RANGES).map(|n| byte(2 * n) == 0).collect()
        }
    }

    /// The kernel takes a whole list with one call, if it can, and otherwise each range with one. (qemu does not say whether
    /// there is a filter, so lists are not tried.)
    #[test]
    fn all_ranges_go_and_nothing_else() {
        alone!(all_ranges_go_and_nothing_else, || {
            let memory = Memory::new();
            let probe = [Pages { at: memory.page(0), len: UNIT }];
            // SAFETY: nobody uses the page.
            let together = unsafe { mem::discard_together(&probe) } == Ok(UNIT);
            let tried = if together { 2 } else { RANGES + 1 };
            for calls in [if is_emulated() { RANGES } else { tried }, RANGES] {
                let memory = Memory::new();
                let mut discards = Discards::new();
                memory.note(0..RANGES, &mut discards);
                assert_eq!(discards.ranges().len(), RANGES - MOST, "a full list goes first");
                assert_eq!(discards.send(), 0);
                assert_eq!((discards.calls, discards.given), (calls, RANGES * UNIT));
                assert!(memory.gone().iter().all(|gone| *gone));
                one_by_one();
            }
        });
    }

    /// What the kernel refuses stays, whether it takes lists or not.
    #[test]
    fn a_refused_range_is_told() {
        alone!(a_refused_range_is_told, || {
            for _ in 0..2 {
                let memory = Memory::new();
                let mut discards = Discards::new();
                memory.note(0..8, &mut discards);
                refusals::lock(memory.page(6)..memory.page(7));
                assert_eq!(discards.send(), 1 << 3);
                refusals::lock(0..0);
                assert_eq!(discards.given, 7 * UNIT);
                assert!((0..8).all(|n| memory.gone()[n] == (n != 3)));
                one_by_one();
            }
        });
    }

    /// What one thread has found says nothing about another one, which a filter would end.
    #[test]
    fn a_filtered_thread_makes_no_call_that_its_filter_may_not_know() {
        alone!(a_filtered_thread_makes_no_call_that_its_filter_may_not_know, || {
            // Processes under qemu can have no filter, and are not told so.
            if is_emulated() {
                return assert!(!kernel::may());
            }
            std::thread::spawn(|| assert!(kernel::may())).join().expect("it ends");
            assert!(kernel::may());
            let filtered = std::thread::spawn(|| {
                filter_own_calls();
                kernel::may()
            });
            assert!(!filtered.join().expect("it ends"));
            assert!(kernel::may());
        });
    }

    /// One range needs no list, and no look at filters.
    #[test]
    fn one_range_goes_as_before() {
        let memory = Memory::new();
        let mut discards = Discards::new();
        memory.note(5..6, &mut discards);
        assert_eq!((discards.send(), discards.calls, discards.given), (0, 1, UNIT));
    }
}

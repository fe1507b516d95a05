//! A copy of the sites, to be read at leisure.

use super::area::{Area, FIRST_SITE, Site};
use super::table::{copy_sites, frames_of, most_bytes_of_sites};
use crate::sys::mem;

/// A copy of all sites, in a mapping of its own.
pub struct Copy {
    start: usize,
    length: usize,
    end: usize,
    /// The number of the last peak.
    pub peak: u64,
}

impl Copy {
    /// A copy as of now. Returns `None` if there is no profile or no memory, or if a fork stands still.
    pub fn of_all() -> Option<Copy> {
        let area = Area::get()?;
        let length = most_bytes_of_sites();
        // Before the lock, because a system call takes a while. Its pages come with what is copied.
        let start = mem::reserve(length).ok()?;
        // SAFETY: just mapped.
        let Some((end, peak)) = (unsafe { copy_sites(area, start, length) }) else {
            mem::unmap(start, length);
            return None;
        };
        Some(Copy { start, length, end, peak })
    }

    /// Every site that has allocated, with its frames.
    pub fn sites(&self) -> impl Iterator<Item = (&Site, &[usize])> {
        let mut offset = FIRST_SITE;
        let all = core::iter::from_fn(move || {
            if offset + size_of::<Site>() > self.end {
                return None;
            }
            // SAFETY: invariant 3 of `prof::table`: sites lie one behind the other, each with its frames, up to `end`.
            unsafe {
                let s = (self.start + offset) as *const Site;
                let frames = frames_of(s);
                offset += size_of::<Site>() + frames.len() * 8;
                Some((&*s, frames))
            }
        });
        all.filter(|(site, _)| site.samples != 0)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        mem::unmap(self.start, self.length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own_process::alone;
    use crate::prof::{Snapshot, dropped, reset, sample, start};
    use std::thread::sleep;
    use std::time::Duration;

    /// What was dropped, and how long it was taken, says nothing of what comes after a reset.
    #[test]
    fn a_profile_that_was_reset_begins_anew() {
        alone!(a_profile_that_was_reset_begins_anew, || {
            start(1).expect("memory");
            sleep(Duration::from_secs(2));
            dropped();
            let of = || Snapshot::take().map(|it| (it.dropped, it.milliseconds >= 2000));
            assert_eq!(of(), Ok((1, true)));
            reset();
            assert_eq!(of(), Ok((0, false)));
        });
    }

    #[test]
    fn a_copy_has_no_part_of_a_site() {
        alone!(a_copy_has_no_part_of_a_site, || {
            start(1).expect("memory");
            sample((1 << 20) as *mut u8, 100, 112, 1, 0, || u64::MAX);
            let area = Area::get().expect("a profile");
            let to = mem::reserve(4096).expect("memory");
            let copied = |length| {
                // SAFETY: a mapping of the test's.
                unsafe { copy_sites(area, to, length) }.map(|(end, _)| end)
            };
            let end = FIRST_SITE + size_of::<Site>();
            assert_eq!((copied(end - 8), copied(4096)), (None, Some(end)));
        });
    }
}

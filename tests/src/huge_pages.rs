//! The huge pages of the machine that the tests run on.

use std::time::Duration;

use memmap2::{Advice, MmapMut};
use nix::time::{ClockId, clock_gettime};
use procfs::process::Process;

const HUGE_PAGE: usize = 2 << 20;
/// Of processor time. masu, too, requests none for a while after one that took longer.
const QUICK: Duration = Duration::from_millis(2);
/// How often a program may be unlucky on a busy machine where they come quickly.
const TRIES: usize = 10;

/// Whether the kernel gives them on request.
pub fn are_given() -> bool {
    let modes = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    modes.is_ok_and(|modes| !modes.contains("[never]"))
}

/// What `find` finds, at a second or third try if need be; `None` if this machine gives no huge pages for so many bytes,
/// or is slow to. Panics if it is not, and yet nothing is found.
pub fn found<T>(bytes: usize, mut find: impl FnMut() -> Option<T>) -> Option<T> {
    for _ in 0..TRIES {
        if !are_given() || !come_quickly(bytes) {
            return None;
        }
        let found = find();
        if found.is_some() {
            return found;
        }
    }
    panic!("huge pages come quickly here, and yet masu has none");
}

/// Whether huge pages for so many bytes come, and quickly. Where free memory is fragmented, there are none. They come
/// twice: the host of a virtual machine may back memory only at its first use.
pub fn come_quickly(bytes: usize) -> bool {
    slowest(bytes);
    slowest(bytes).is_some_and(|slowest| slowest <= QUICK)
}

/// The processor time that the slowest takes; `None` if not all come.
fn slowest(bytes: usize) -> Option<Duration> {
    let spent =
        || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock"));
    let mut memory = MmapMut::map_anon(bytes + HUGE_PAGE).expect("memory");
    memory.advise(Advice::HugePage).ok()?;
    let first = memory.as_ptr().align_offset(HUGE_PAGE);
    let pages = memory[first..].chunks_exact_mut(HUGE_PAGE);
    let times = pages.map(|page| {
        let before = spent();
        page[0] = 1;
        spent() - before
    });
    let slowest = times.max();
    let at = memory.as_ptr().addr() as u64;
    let maps = Process::myself().and_then(|it| it.smaps()).expect("this process is there");
    let map = maps.0.into_iter().find(|map| (map.address.0..map.address.1).contains(&at));
    let huge = map.and_then(|map| map.extension.map.get("AnonHugePages").copied());
    slowest.filter(|_| huge >= Some(bytes as u64))
}

//! A model of a processor's TLB: how often a stream of reads has to walk the page tables.
//!
//! Sizes and associativity are those of Intel's Golden Cove (Sapphire Rapids), as published in its optimization
//! manual: 96 entries for small pages and 32 for huge ones on the first level, 2,048 for both on the second. Each set
//! replaces the entry that was used longest ago. Prefetches and the caches of the page tables' upper levels are left
//! out: a walk counts as one, however long it takes.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

const SMALL: u32 = 12;
const HUGE: u32 = 21;

/// A cache of page numbers: sets of `WAYS`, the one used last in front.
struct Level<const WAYS: usize> {
    sets: Vec<[u64; WAYS]>,
}

impl<const WAYS: usize> Level<WAYS> {
    fn with(entries: usize) -> Self {
        Level { sets: vec![[u64::MAX; WAYS]; entries / WAYS] }
    }

    /// Whether it has the page. If not, it has it from now on.
    fn has(&mut self, page: u64, key: u64) -> bool {
        let sets = self.sets.len() as u64;
        let set = &mut self.sets[(page % sets) as usize];
        let found = set.iter().position(|&it| it == key);
        set[..=found.unwrap_or(WAYS - 1)].rotate_right(1);
        set[0] = key;
        found.is_some()
    }
}

/// The TLB of one core.
pub struct Tlb {
    small: Level<6>,
    huge: Level<4>,
    second: Level<16>,
}

impl Tlb {
    /// An empty one.
    pub fn new() -> Self {
        Tlb { small: Level::with(96), huge: Level::with(32), second: Level::with(2048) }
    }

    /// Reads at an address that lies in a huge page or not. Says whether that walks the page tables.
    pub fn walks(&mut self, address: u64, is_huge: bool) -> bool {
        let page = address >> if is_huge { HUGE } else { SMALL };
        let key = page << 1 | u64::from(is_huge);
        let near = if is_huge { self.huge.has(page, key) } else { self.small.has(page, key) };
        !near && !self.second.has(page, key)
    }
}

/// Where this process has huge pages.
pub struct HugePages {
    ranges: Vec<(u64, u64)>,
}

impl HugePages {
    /// Asks the kernel, which says so from 6.7 on.
    pub fn of_this_process() -> io::Result<Self> {
        let pagemap = File::open("/proc/self/pagemap")?;
        let mut found = vec![Range::default(); 1024];
        let (mut ranges, mut at) = (Vec::new(), 0);
        while at < LIMIT {
            let mut scan = Scan {
                size: size_of::<Scan>() as u64,
                start: at,
                end: LIMIT,
                found: found.as_mut_ptr() as u64,
                len: found.len() as u64,
                all_of: IS_HUGE,
                say: IS_HUGE,
                ..Scan::default()
            };
            // SAFETY: the kernel writes to `scan` and to at most as many ranges as there are.
            let n = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
            let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
            ranges.extend(found[..n].iter().map(|range| (range.start, range.end)));
            at = scan.reached.max(at + (1 << SMALL));
        }
        Ok(HugePages { ranges })
    }

    /// Whether an address lies in one.
    pub fn have(&self, address: u64) -> bool {
        let behind = self.ranges.partition_point(|&(start, _)| start <= address);
        behind > 0 && address < self.ranges[behind - 1].1
    }
}

/// The end of the addresses of a process.
const LIMIT: u64 = (1 << 47) - (1 << SMALL);
const IS_HUGE: u64 = 1 << 6;
/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::Ioctl = 0xc060_6610_u32 as libc::Ioctl;

/// The kernel's `pm_scan_arg`.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    reached: u64,
    found: u64,
    len: u64,
    most_pages: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    say: u64,
}

/// The kernel's `page_region`.
#[repr(C)]
#[derive(Default, Clone, Copy)]
struct Range {
    start: u64,
    end: u64,
    categories: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks of two rounds over so many pages in a row.
    fn walks(pages: u64, is_huge: bool) -> usize {
        let mut tlb = Tlb::new();
        let size = 1 << if is_huge { HUGE } else { SMALL };
        let rounds = (0..pages).chain(0..pages);
        rounds.filter(|page| tlb.walks(page * size, is_huge)).count()
    }

    #[test]
    fn pages_that_fit_are_walked_to_once() {
        assert_eq!(walks(2048, false), 2048);
        assert_eq!(walks(2048, true), 2048);
        // In a row, the least recently used one is always the next.
        assert_eq!(walks(4096, false), 8192);
    }

    #[test]
    fn a_huge_page_serves_all_of_its_addresses() {
        let mut tlb = Tlb::new();
        let walked = (0..512).filter(|page| tlb.walks(page << SMALL, true)).count();
        assert_eq!(walked, 1);
        // The same address in a small page is another entry.
        assert!(tlb.walks(0, false));
    }

    /// Whether a mapping of that address and length is huge pages, as `smaps` says. Other tests of this process may
    /// have huge pages of their own.
    fn is_huge(address: u64, len: u64) -> bool {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        let first = format!("{address:x}-{:x} ", address + len);
        let mut of_it = smaps.lines().skip_while(|line| !line.starts_with(&first));
        let huge = of_it.find_map(|line| line.strip_prefix("AnonHugePages:"));
        huge.is_some_and(|huge| huge.trim() == format!("{} kB", len >> 10))
    }

    #[test]
    fn huge_pages_are_found_where_they_are() {
        const LEN: usize = 2 << HUGE;
        let memory = vec![0u8; LEN];
        let address = memory.as_ptr() as u64;
        let start = (address.next_multiple_of(1 << HUGE) - address) as usize;
        let inside = memory[start..].as_ptr().cast_mut();
        // SAFETY: advice on memory of our own, which changes none of its bytes.
        let advised = unsafe { libc::madvise(inside.cast(), 1 << HUGE, libc::MADV_HUGEPAGE) };
        // SAFETY: a byte of that memory, which nobody reads meanwhile.
        unsafe { inside.write_volatile(1) };
        let is_huge = advised == 0 && is_huge(inside as u64, 1 << HUGE);
        let Ok(pages) = HugePages::of_this_process() else { return };
        if is_huge {
            assert!(pages.have(inside as u64) && pages.have(inside as u64 + 4096));
        }
        assert!(!pages.have(0x1000));
        std::hint::black_box(&memory);
    }
}

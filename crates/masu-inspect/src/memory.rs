//! A process's bytes, and which of its pages are resident.

use std::alloc::{Layout, alloc_zeroed};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use masu_watch::process::memory_id;

use crate::core_file::Core;
use crate::error::Error;
use crate::ranges::Ranges;

/// A process that is being read.
pub struct Memory {
    /// Its ID.
    pub process: u32,
    /// The ID under which its memory is read.
    id: AtomicU32,
    source: Source,
    page: u64,
}

/// The source of its bytes.
enum Source {
    /// The running process.
    Running(Running),
    /// Its core file.
    Core(Core),
}

/// The kernel's files about a running process.
struct Running {
    /// Information about its pages.
    pagemap: File,
    /// Its memory, where a filter refuses the call that reads it.
    bytes: OnceLock<Option<File>>,
}

/// What is known about a range of pages.
#[derive(Debug, Default, Clone)]
pub struct Pages {
    /// Resident memory, as the RSS counts it: without the kernel's zero page.
    pub resident: Ranges,
    /// Memory with contents, resident or swapped out.
    pub filled: Ranges,
    /// Memory resident in pages of 2 MiB. If the kernel does not say, each aligned 2 MiB that is fully resident.
    pub huge: Ranges,
}

/// The argument of the kernel's `PAGEMAP_SCAN`.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

#[repr(C)]
#[derive(Default, Clone, Copy)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: u64 = 0xc060_6610;
const IS_PRESENT: u64 = 1 << 3;
const IS_SWAPPED: u64 = 1 << 4;
const IS_ZERO: u64 = 1 << 5;
const IS_HUGE: u64 = 1 << 6;
/// Bytes of a huge page.
const HUGE: u64 = 2 << 20;

/// Bits of a page's entry in `pagemap`.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;

/// Most plausible bytes of a table, filled or not: no table's address range is larger.
const MOST_BYTES: u64 = 64 << 30;
/// Most plausible bytes of it that are filled, which take as much memory here.
const MOST_FILLED: u64 = 4 << 30;

/// Returns zeros, which take no memory before they are written; `None` if there is no room.
fn zeroed(len: usize) -> Option<Vec<u8>> {
    if len == 0 {
        return Some(Vec::new());
    }
    let layout = Layout::array::<u8>(len).ok()?;
    // SAFETY: the layout is not of zero bytes.
    let bytes = unsafe { alloc_zeroed(layout) };
    // SAFETY: `bytes` is not null, so it is from the global allocator with the layout of `len` bytes, all of them
    // initialised.
    (!bytes.is_null()).then(|| unsafe { Vec::from_raw_parts(bytes, len, len) })
}

impl Memory {
    /// Opens a process.
    ///
    /// # Errors
    /// If the process does not exist, or may not be read.
    pub fn of(process: u32) -> Result<Memory, Error> {
        let id = memory_id(process);
        let pagemap = File::open(format!("/proc/{id}/pagemap")).map_err(|error| {
            match error.raw_os_error() {
                Some(libc::ENOENT | libc::ESRCH) => Error::missing(process),
                _ => Error::Refused(process),
            }
        })?;
        let page = rustix::param::page_size() as u64;
        let source = Source::Running(Running { pagemap, bytes: OnceLock::new() });
        Ok(Memory { process, id: id.into(), source, page })
    }

    /// Uses a process's core file.
    pub fn of_core(core: Core) -> Memory {
        let page = rustix::param::page_size() as u64;
        Memory { process: core.process, id: core.process.into(), source: Source::Core(core), page }
    }

    /// Returns the core file, if this is one.
    pub fn core(&self) -> Option<&Core> {
        match &self.source {
            Source::Core(core) => Some(core),
            Source::Running(_) => None,
        }
    }

    /// Returns why the memory that was opened is gone, if it is: the process has ended, or has executed another program,
    /// which has the same ID. The kernel's file is about that memory, and is empty after its end.
    pub fn end(&self) -> Option<Error> {
        let Source::Running(running) = &self.source else { return None };
        let is_gone = matches!(running.pagemap.read_at(&mut [0; 8], 0), Ok(0));
        is_gone.then(|| match self.failed(&io::Error::from_raw_os_error(libc::EFAULT)) {
            Error::Damaged(process) => Error::Replaced(process),
            error => error,
        })
    }

    /// Makes a system call on the process; again, if the thread that showed its memory has ended. Where a filter refuses
    /// the call, as Docker 20.10's does, the file of the process's memory serves instead; the kernel demands the same
    /// rights for it.
    fn call(
        &self,
        call: impl Fn(i32) -> isize,
        through: impl FnOnce(&Running, u32) -> io::Result<usize>,
    ) -> Result<usize, Error> {
        loop {
            let id = self.id.load(Relaxed);
            if let Ok(n) = usize::try_from(call(id as i32)) {
                return Ok(n);
            }
            let error = io::Error::last_os_error();
            let is_gone = error.raw_os_error() == Some(libc::ESRCH);
            match is_gone.then(|| memory_id(self.process)).filter(|&other| other != id) {
                Some(other) => self.id.store(other, Relaxed),
                None => {
                    return match (&self.source, error.raw_os_error()) {
                        (Source::Running(running), Some(libc::EPERM | libc::ENOSYS)) => {
                            through(running, id).map_err(|error| self.failed(&error))
                        }
                        _ => Err(self.failed(&error)),
                    };
                }
            }
        }
    }

    fn failed(&self, error: &io::Error) -> Error {
        Error::of(self.process, error)
    }

    /// Reads bytes, which must be mapped. Pages that are not resident become resident.
    ///
    /// # Errors
    /// If they are not mapped, or the process is gone, or may not be read.
    pub fn read(&self, at: u64, bytes: &mut [u8]) -> Result<(), Error> {
        if let Source::Core(core) = &self.source {
            return core.read(at, bytes).map_err(|_| Error::Damaged(self.process));
        }
        let mut done = 0;
        while done < bytes.len() {
            let here = &mut bytes[done..];
            let local = libc::iovec { iov_base: here.as_mut_ptr().cast(), iov_len: here.len() };
            let remote = libc::iovec {
                iov_base: at.wrapping_add(done as u64) as *mut _,
                iov_len: here.len(),
            };
            // SAFETY: writes into `here` only, within its bounds; the other address is of the other
            // process.
            let read = |id| unsafe {
                libc::process_vm_readv(id, &raw const local, 1, &raw const remote, 1, 0)
            };
            let through =
                |running: &Running, id| running.read(id, here, at.wrapping_add(done as u64));
            match self.call(read, through)? {
                0 => return Err(Error::Damaged(self.process)),
                n => done += n,
            }
        }
        Ok(())
    }

    /// Writes a word.
    ///
    /// # Errors
    /// As for reading.
    pub fn write(&self, at: u64, word: u32) -> Result<(), Error> {
        self.write_bytes(at, word.to_ne_bytes())
    }

    /// Writes a word of eight bytes.
    ///
    /// # Errors
    /// As for reading.
    pub fn write_word(&self, at: u64, word: u64) -> Result<(), Error> {
        self.write_bytes(at, word.to_ne_bytes())
    }

    fn write_bytes<const N: usize>(&self, at: u64, mut word: [u8; N]) -> Result<(), Error> {
        if self.core().is_some() {
            return Err(Error::Ended(self.process));
        }
        // The address means nothing to another program.
        self.end().map_or(Ok(()), Err)?;
        let local = libc::iovec { iov_base: word.as_mut_ptr().cast(), iov_len: word.len() };
        let remote = libc::iovec { iov_base: at as *mut _, iov_len: word.len() };
        // SAFETY: reads `word`; the other address is of the other process.
        let write = |id| unsafe {
            libc::process_vm_writev(id, &raw const local, 1, &raw const remote, 1, 0)
        };
        let through = |_: &Running, id| written(id, &word, at);
        if self.call(write, through)? == N { Ok(()) } else { Err(Error::Damaged(self.process)) }
    }

    /// Reads a number of `N` bytes.
    ///
    /// # Errors
    /// As for reading.
    pub fn array<const N: usize>(&self, at: u64) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        self.read(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads a word of eight bytes.
    ///
    /// # Errors
    /// As for reading.
    pub fn word(&self, at: u64) -> Result<u64, Error> {
        self.array(at).map(u64::from_ne_bytes)
    }

    /// Reads the filled parts of `len` bytes, and so brings back those that are swapped out; the rest is zero, and is not
    /// touched.
    ///
    /// # Errors
    /// As for reading.
    pub fn filled(&self, at: u64, len: u64) -> Result<Vec<u8>, Error> {
        self.filled_up_to(at, len, MOST_FILLED)
    }

    fn filled_up_to(&self, at: u64, len: u64, most: u64) -> Result<Vec<u8>, Error> {
        let damaged = || Error::Damaged(self.process);
        let end = at.checked_add(len).filter(|_| len <= MOST_BYTES).ok_or_else(damaged)?;
        let filled = self.pages(at, end)?.filled;
        if filled.bytes(at, end) > most {
            return Err(damaged());
        }
        let mut bytes = zeroed(len as usize).ok_or_else(damaged)?;
        for (start, end) in filled.within(at, end) {
            self.read(start, &mut bytes[(start - at) as usize..(end - at) as usize])?;
        }
        Ok(bytes)
    }

    /// Reads the same of so many records, `stride` bytes each.
    ///
    /// # Errors
    /// As for reading.
    pub fn filled_records(&self, at: u64, records: u64, stride: u64) -> Result<Vec<u8>, Error> {
        let len = records.checked_mul(stride).ok_or(Error::Damaged(self.process))?;
        self.filled(at, len)
    }

    /// Returns the state of the pages in `start..end`.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn pages(&self, start: u64, end: u64) -> Result<Pages, Error> {
        let end = end.checked_next_multiple_of(self.page).ok_or(Error::Damaged(self.process))?;
        let start = start / self.page * self.page;
        let pagemap = match &self.source {
            Source::Running(running) => &running.pagemap,
            Source::Core(core) => {
                let pages = core.pages(start, end, self.page);
                return pages.map_err(|_| Error::Damaged(self.process));
            }
        };
        scan(pagemap, start, end).or_else(|error| match error.raw_os_error() {
            Some(libc::ENOTTY | libc::EINVAL | libc::ENOSYS) => {
                look(pagemap, self.page, start, end).map_err(|error| self.failed(&error))
            }
            _ => Err(self.failed(&error)),
        })
    }
}

impl Running {
    /// Reads bytes through the file of the process's memory, which is opened once.
    fn read(&self, id: u32, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        let file = self.bytes.get_or_init(|| File::open(format!("/proc/{id}/mem")).ok());
        let file = file.as_ref().ok_or_else(|| io::Error::from_raw_os_error(libc::EACCES));
        match file?.read_at(bytes, at)? {
            // The process has ended.
            0 => Err(io::Error::from_raw_os_error(libc::EIO)),
            n => Ok(n),
        }
    }
}

/// Writes bytes through the file of the process's memory.
fn written(id: u32, bytes: &[u8], at: u64) -> io::Result<usize> {
    OpenOptions::new().write(true).open(format!("/proc/{id}/mem"))?.write_at(bytes, at)
}

/// Uses `PAGEMAP_SCAN`, which the kernel has since 6.7.
fn scan(pagemap: &File, start: u64, end: u64) -> io::Result<Pages> {
    let (mut pages, mut at) = (Pages::default(), start);
    let mut regions = vec![Region::default(); 512];
    while at < end {
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            start: at,
            end,
            vec: regions.as_mut_ptr() as u64,
            vec_len: regions.len() as u64,
            category_anyof_mask: IS_PRESENT | IS_SWAPPED,
            return_mask: IS_PRESENT | IS_SWAPPED | IS_ZERO | IS_HUGE,
            ..Scan::default()
        };
        // SAFETY: the kernel writes to `scan` and to at most as many regions as there are.
        let found = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as _, &raw mut scan) };
        let found = usize::try_from(found).map_err(|_| io::Error::last_os_error())?;
        for region in &regions[..found] {
            let zero = region.categories & IS_ZERO != 0;
            if !zero {
                pages.filled.push(region.start, region.end);
            }
            if !zero && region.categories & IS_PRESENT != 0 {
                pages.resident.push(region.start, region.end);
                if region.categories & IS_HUGE != 0 {
                    pages.huge.push(region.start, region.end);
                }
            }
        }
        if scan.walk_end <= at {
            break;
        }
        at = scan.walk_end;
    }
    Ok(pages)
}

/// Uses `pagemap`, with an entry for each page.
fn look(pagemap: &File, page: u64, start: u64, end: u64) -> io::Result<Pages> {
    const ENTRIES: u64 = 8192;
    let (mut pages, mut at) = (Pages::default(), start);
    let mut entries = vec![0; ENTRIES as usize * 8];
    while at < end {
        let n = ((end - at) / page).min(ENTRIES);
        let entries = &mut entries[..n as usize * 8];
        pagemap.read_exact_at(entries, at / page * 8)?;
        for entry in entries.as_chunks().0 {
            let entry = u64::from_ne_bytes(*entry);
            if entry & (PRESENT | SWAPPED) != 0 {
                pages.filled.push(at, at + page);
            }
            if entry & PRESENT != 0 {
                pages.resident.push(at, at + page);
            }
            at += page;
        }
    }
    for &(start, end) in &pages.resident.0 {
        let (start, end) = (start.next_multiple_of(HUGE), end / HUGE * HUGE);
        if start < end {
            pages.huge.push(start, end);
        }
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_seen_alike_both_ways() {
        let memory = Memory::of(std::process::id()).expect("ourselves");
        let Source::Running(Running { pagemap, .. }) = &memory.source else {
            unreachable!("we run")
        };
        const PAGES: u64 = 64;
        let len = PAGES * memory.page;
        // SAFETY: fresh memory, at an address that the kernel chooses.
        let at = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let at = libc::mmap(
                std::ptr::null_mut(),
                len as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            );
            libc::madvise(at, len as usize, libc::MADV_NOHUGEPAGE);
            at as u64
        };
        for page in [3, 4, 60] {
            // SAFETY: within the mapping.
            unsafe { ((at + page * memory.page) as *mut u8).write_volatile(7) };
        }
        let looked = look(pagemap, memory.page, at, at + len).expect("our pages");
        assert_eq!(looked.resident.bytes(at, at + len), 3 * memory.page);
        if let Ok(scanned) = scan(pagemap, at, at + len) {
            assert_eq!(scanned.resident.0, looked.resident.0);
        }
        // Pages that are not resident are not touched.
        let bytes = memory.filled_up_to(at, len, 3 * memory.page).expect("ours");
        let less = memory.filled_up_to(at, len, 3 * memory.page - 1);
        assert!(matches!(less, Err(Error::Damaged(_))));
        assert_eq!((bytes[3 * memory.page as usize], bytes[0]), (7, 0));
        assert_eq!(
            look(pagemap, memory.page, at, at + len)
                .expect("our pages")
                .resident
                .bytes(at, at + len),
            3 * memory.page
        );
        // SAFETY: mapped above.
        unsafe { libc::munmap(at as *mut _, len as usize) };
    }

    #[test]
    fn where_a_thread_has_ended_another_one_shows_the_memory() {
        let memory = Memory::of(std::process::id()).expect("ourselves");
        let own = || std::fs::read_link("/proc/thread-self").expect("its files");
        let ended = std::thread::spawn(own).join().expect("a thread");
        let ended: u32 = ended.file_name().and_then(|id| id.to_str()?.parse().ok()).expect("an ID");
        while std::path::Path::new(&format!("/proc/self/task/{ended}")).exists() {
            std::thread::yield_now();
        }
        memory.id.store(ended, Relaxed);
        let byte = 7u8;
        assert_eq!(memory.array(&raw const byte as u64).expect("ours"), [7]);
        assert_eq!(memory.id.load(Relaxed), memory.process);
    }

    #[test]
    fn no_table_is_larger_than_any_can_be() {
        let memory = Memory::of(std::process::id()).expect("ourselves");
        let lengths = [MOST_BYTES + 1, 1 << 39, u64::MAX - 1, u64::MAX];
        for length in lengths {
            assert!(matches!(memory.filled(1 << 30, length), Err(Error::Damaged(_))));
        }
        assert!(matches!(memory.filled(u64::MAX, 1), Err(Error::Damaged(_))));
        let records = memory.filled_records(1 << 30, 1 << 32, 1 << 32);
        assert!(matches!(records, Err(Error::Damaged(_))), "2^64 bytes are not none");
        assert!(memory.filled(1 << 30, 0).expect("nothing").is_empty());
    }

    #[test]
    fn words_are_read_and_written() {
        let (memory, word) = (
            Memory::of(std::process::id()).expect("ourselves"),
            std::sync::atomic::AtomicU64::new(5),
        );
        let at = word.as_ptr() as u64;
        assert_eq!(memory.word(at).expect("ours"), 5);
        memory.write(at, 9).expect("ours");
        assert_eq!(word.load(std::sync::atomic::Ordering::Relaxed), 9);
        assert!(matches!(memory.word(8), Err(Error::Damaged(_))));
        assert!(matches!(Memory::of(u32::MAX / 2), Err(Error::NoProcess(_))));
    }
}

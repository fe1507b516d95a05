//! Modules where the C library has no list that can be read without a lock: musl, old glibc, and statically linked
//! programs.
//!
//! The kernel knows the mappings. Modules that are found are kept for ever, unless another file is later mapped in the
//! same place. Memory that belongs to no module, where code was generated at run time, is kept for [`LIFE`]. Only the
//! thread that reads `/proc/thread-self/maps` writes, one thread at a time; a thread that finds another doing so goes
//! without the module this time.
//!
//! | | operation | ordering |
//! |---|---|---|
//! | keep a mapping | store of its end, 0 until then | release: the entry |
//! | look | load of its end, before and after the entry | acquire: the same |

use crate::kept::kept;
use crate::module::Module;
use crate::sys;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// Maximum number of files whose code is found. A program has about ten, rarely hundreds.
const MOST: usize = 512;
/// Maximum number of mappings without a module that are kept.
const MOST_ABSENT: usize = 16;
/// The milliseconds that one is kept: a module may be loaded there meanwhile.
const LIFE: u64 = 100;
/// No supported kernel has smaller pages.
const PAGE: usize = 4096;

/// A mapping of code, and the module that it belongs to.
struct Kept {
    /// The mapping; one of length 0 contains no address.
    from: AtomicUsize,
    to: AtomicUsize,
    start: AtomicUsize,
    last: AtomicUsize,
    header: AtomicUsize,
    tag: AtomicU64,
}

/// Memory that belongs to no module.
struct Absent {
    from: AtomicUsize,
    to: AtomicUsize,
    until: AtomicU64,
}

/// The mappings that were looked up.
pub struct Modules {
    kept: [Kept; MOST],
    /// The entries that have been in use.
    count: AtomicUsize,
    absent: [Absent; MOST_ABSENT],
    next: AtomicUsize,
}

/// The process of which a thread reads; 0 if none does. A forked child has the parent's, but not that thread.
static BUSY: AtomicUsize = AtomicUsize::new(0);

/// Returns the module of an address on the calling thread's stack. Reads `/proc/thread-self/maps` only if it may, and
/// clears `may_read` if that has led to no module: one walk does so once.
#[cold]
#[inline(never)]
pub fn find(pc: usize, may_read: &mut bool) -> Option<Module> {
    let modules = &kept()?.modules;
    let count = modules.count.load(Ordering::Acquire);
    for kept in modules.kept.iter().take(count) {
        let (from, to) = (kept.from.load(Ordering::Relaxed), kept.to.load(Ordering::Acquire));
        if !(from..to).contains(&pc) {
            continue;
        }
        let module = Module {
            start: kept.start.load(Ordering::Relaxed),
            from: kept.from.load(Ordering::Relaxed),
            end: to,
            last: kept.last.load(Ordering::Relaxed),
            header: kept.header.load(Ordering::Relaxed),
            tag: kept.tag.load(Ordering::Relaxed),
        };
        fence(Ordering::Acquire);
        if kept.to.load(Ordering::Relaxed) != to {
            continue;
        }
        // Another file may be mapped here now, with another start.
        let is_there = sys::can_be_read(module.start & !7) && sys::can_be_read(module.header & !7);
        if is_there && module.identity() == module.tag {
            return Some(module);
        }
        kept.to.store(0, Ordering::Relaxed);
    }
    if !*may_read {
        return None;
    }
    let now = sys::now();
    if modules.has_none(pc, now) {
        return None;
    }
    let process = sys::process();
    let busy = BUSY.load(Ordering::Relaxed);
    if busy == process
        || BUSY.compare_exchange(busy, process, Ordering::Acquire, Ordering::Relaxed).is_err()
    {
        return None;
    }
    let found = look_up(pc);
    match found {
        Ok(module) => *may_read = modules.keep(&module),
        Err(none) => {
            modules.keep_absent(none, now);
            *may_read = false;
        }
    }
    BUSY.store(0, Ordering::Release);
    found.ok()
}

impl Modules {
    /// Keeps a module in an entry that is empty, or empty again. Returns whether there was one.
    #[inline(always)]
    fn keep(&self, module: &Module) -> bool {
        let is_empty = |kept: &Kept| kept.to.load(Ordering::Relaxed) == 0;
        let Some(i) = self.kept.iter().position(is_empty) else { return false };
        let Some(kept) = self.kept.get(i) else { return false };
        // A thread that saw the entry's last module sees that it has ended.
        fence(Ordering::Release);
        kept.from.store(module.from, Ordering::Relaxed);
        kept.start.store(module.start, Ordering::Relaxed);
        kept.last.store(module.last, Ordering::Relaxed);
        kept.header.store(module.header, Ordering::Relaxed);
        kept.tag.store(module.tag, Ordering::Relaxed);
        kept.to.store(module.end, Ordering::Release);
        self.count.fetch_max(i + 1, Ordering::Release);
        true
    }

    /// Whether an address was found to belong to no module a short time ago.
    fn has_none(&self, pc: usize, now: u64) -> bool {
        self.absent.iter().any(|absent| {
            let until = absent.until.load(Ordering::Acquire);
            let range = absent.from.load(Ordering::Relaxed)..absent.to.load(Ordering::Relaxed);
            range.contains(&pc) && now < until
        })
    }

    /// Keeps memory without a module in place of the oldest such.
    fn keep_absent(&self, (from, to): (usize, usize), now: u64) {
        let i = self.next.fetch_add(1, Ordering::Relaxed) % MOST_ABSENT;
        let Some(absent) = self.absent.get(i) else { return };
        // A thread that reads meanwhile may see one range's start and another's end: at worst it goes without a module
        // once more.
        absent.until.store(0, Ordering::Relaxed);
        absent.from.store(from, Ordering::Relaxed);
        absent.to.store(to, Ordering::Relaxed);
        absent.until.store(now.saturating_add(LIFE), Ordering::Release);
    }
}

/// Returns the kernel's information about an address: its module, or the memory around it that belongs to none. In a gap
/// between mappings that is the address's page, since modules are loaded in gaps.
fn look_up(pc: usize) -> Result<Module, (usize, usize)> {
    let mut line = Line::default();
    let (mut file, mut start) = (0, 0);
    let (mut found, mut last) = (None, 0);
    let page = pc & !(PAGE - 1);
    let mut none = (page, page.saturating_add(PAGE));
    sys::read_file(c"/proc/thread-self/maps", |bytes| {
        for &byte in bytes {
            if !line.take(byte) {
                continue;
            }
            let [from, to, offset, inode] = line.numbers;
            line = Line::default();
            if (from..to).contains(&pc) {
                none = (from, to);
            }
            if inode == 0 {
                continue;
            }
            if found.is_some() && (inode != file || offset == 0) {
                return false;
            }
            if inode != file || offset == 0 {
                // A file's first mapping. A file mapped from its middle on is not a module.
                (file, start) = (inode, if offset == 0 { from } else { 0 });
            }
            if (from..to).contains(&pc) && start != 0 {
                found = Some((from, to));
            }
            last = to;
        }
        true
    });
    let Some((from, end)) = found else { return Err(none) };
    let mut module = Module { start, from, end, last, header: 0, tag: 0 };
    // A mapping need not be readable, nor its file as long.
    if !sys::can_be_read(start) {
        return Err(none);
    }
    module.header = module.find_header();
    // Nor need the tables lie where the file says: it may be mapped in another way than the loader does.
    if !sys::can_be_read(module.header & !7) {
        return Err(none);
    }
    module.tag = module.identity();
    Ok(module)
}

/// A partly read line: the first, second and fourth number in hexadecimal, and the fifth word, a decimal one.
#[derive(Default)]
struct Line {
    numbers: [usize; 4],
    /// 0 and 1: the mapping; 2: its permissions; 3: the offset; 4: the device; 5: the inode; 6: the
    /// name.
    word: usize,
}

impl Line {
    /// Takes a byte. Returns whether the line ends.
    fn take(&mut self, byte: u8) -> bool {
        let slot = match self.word {
            0 | 1 => self.word,
            3 => 2,
            5 => 3,
            _ => 4,
        };
        match byte {
            b'\n' => return true,
            b'-' if self.word == 0 => self.word = 1,
            b' ' if self.word < 6 => self.word += 1,
            _ => {
                let digit = char::from(byte).to_digit(16);
                if let (Some(number), Some(digit)) = (self.numbers.get_mut(slot), digit) {
                    let base = if slot == 3 { 10 } else { 16 };
                    *number = number.wrapping_mul(base).wrapping_add(digit as usize);
                }
            }
        }
        false
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use core::mem::MaybeUninit;
    use std::sync::Mutex;
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    /// Held by tests that look up addresses: a thread that finds another one reading gets no answer.
    pub static ALONE: Mutex<()> = Mutex::new(());

    fn module(start: usize) -> Module {
        Module { start, from: start, end: start + PAGE, last: start, header: 0, tag: 0 }
    }

    /// Code that was generated at run time does not cost a reading of the kernel's list for each of its frames.
    #[test]
    fn memory_without_a_module_is_looked_up_once_in_a_while() {
        let _alone = ALONE.lock();
        let reads = |at: usize| {
            let mut may_read = true;
            assert_eq!(find(at, &mut may_read), None);
            !may_read
        };
        let page = sys::map(4 * PAGE).expect("memory").expose_provenance();
        let begin = Instant::now();
        let first = reads(page);
        let again = [page, page + 8, page + 3 * PAGE].map(reads);
        let is_quick = begin.elapsed() < Duration::from_millis(LIFE / 2);
        assert!(first && (again == [false; 3] || !is_quick), "{again:?}");
        // In a gap it is a page.
        assert_eq!([PAGE, 2 * PAGE - 1, 2 * PAGE].map(reads), [true, false, true]);
        // A walk that has read does not read again.
        assert_eq!(find(3 * PAGE, &mut false), None);
        assert!(reads(3 * PAGE));
        sleep(Duration::from_millis(LIFE + 20));
        assert!(reads(page));
    }

    #[test]
    fn a_forked_child_looks_up_what_its_parent_was_looking_up() {
        let _alone = ALONE.lock();
        let at = sys::can_be_read as *const () as usize;
        let modules = &kept().expect("memory").modules;
        let looks_up_with = |busy: usize| {
            modules.kept.iter().for_each(|kept| kept.to.store(0, Ordering::Relaxed));
            BUSY.store(busy, Ordering::Relaxed);
            let found = find(at, &mut true).is_some();
            (found, BUSY.swap(0, Ordering::Relaxed))
        };
        let own = sys::process();
        assert_eq!(own, std::process::id() as usize);
        assert_eq!(looks_up_with(own + 1), (true, 0));
        assert_eq!(looks_up_with(own), (false, own));
        assert_eq!(looks_up_with(0), (true, 0));
    }

    #[test]
    fn entries_that_are_empty_again_take_other_modules() {
        // SAFETY: it consists of atomic integers.
        let modules = unsafe { MaybeUninit::<Modules>::zeroed().assume_init() };
        for i in 1..=MOST {
            assert!(modules.keep(&module(i * PAGE)), "{i}");
        }
        assert!(!modules.keep(&module(PAGE)));
        let kept = &modules.kept[7];
        kept.to.store(0, Ordering::Relaxed);
        assert!(modules.keep(&module(9999 * PAGE)));
        assert_eq!(kept.from.load(Ordering::Relaxed), 9999 * PAGE);
        assert_eq!(modules.count.load(Ordering::Relaxed), MOST);
    }
}

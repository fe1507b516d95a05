//! Modules where the C library has no list that can be read without a lock: musl, old glibc, and statically linked
//! programs.
//!
//! The kernel knows the mappings. Modules that are found are kept for ever, unless another file is later mapped in the
//! same place. Only the thread that reads `/proc/self/maps` writes, one thread at a time; a thread that finds another
//! doing so goes without the module this time.
//!
//! | | operation | ordering |
//! |---|---|---|
//! | keep a module | store of the count | release: the entry |
//! | look | load of the count | acquire: the same |

use crate::kept::kept;
use crate::module::Module;
use crate::sys;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Maximum number of files whose code is found. A program has about ten, rarely hundreds.
const MOST: usize = 512;

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

/// The mappings that were looked up.
pub struct Modules {
    kept: [Kept; MOST],
    count: AtomicUsize,
}

static BUSY: AtomicBool = AtomicBool::new(false);

/// Returns the module of an address on the calling thread's stack.
#[cold]
#[inline(never)]
pub fn find(pc: usize) -> Option<Module> {
    let modules = &kept()?.modules;
    let count = modules.count.load(Ordering::Acquire);
    for kept in modules.kept.iter().take(count) {
        let (from, to) = (kept.from.load(Ordering::Relaxed), kept.to.load(Ordering::Relaxed));
        if !(from..to).contains(&pc) {
            continue;
        }
        let module = Module {
            start: kept.start.load(Ordering::Relaxed),
            from,
            end: to,
            last: kept.last.load(Ordering::Relaxed),
            header: kept.header.load(Ordering::Relaxed),
            tag: kept.tag.load(Ordering::Relaxed),
        };
        // Another file may be mapped here now, with another start.
        let is_there = sys::can_be_read(module.start & !7) && sys::can_be_read(module.header & !7);
        if is_there && module.identity() == module.tag {
            return Some(module);
        }
        kept.to.store(0, Ordering::Relaxed);
    }
    if BUSY.swap(true, Ordering::Acquire) {
        return None;
    }
    let module = look_up(pc);
    if let Some(module) = module
        && let Some(kept) = modules.kept.get(modules.count.load(Ordering::Relaxed))
    {
        kept.from.store(module.from, Ordering::Relaxed);
        kept.to.store(module.end, Ordering::Relaxed);
        kept.start.store(module.start, Ordering::Relaxed);
        kept.last.store(module.last, Ordering::Relaxed);
        kept.header.store(module.header, Ordering::Relaxed);
        kept.tag.store(module.tag, Ordering::Relaxed);
        modules.count.fetch_add(1, Ordering::Release);
    }
    BUSY.store(false, Ordering::Release);
    module
}

/// Returns the kernel's information about an address.
fn look_up(pc: usize) -> Option<Module> {
    let mut line = Line::default();
    let (mut file, mut start) = (0, 0);
    let (mut found, mut last) = (None, 0);
    sys::read_file(c"/proc/self/maps", |bytes| {
        for &byte in bytes {
            if !line.take(byte) {
                continue;
            }
            let [from, to, offset, inode] = line.numbers;
            line = Line::default();
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
    let (from, end) = found?;
    let mut module = Module { start, from, end, last, header: 0, tag: 0 };
    module.header = module.find_header();
    module.tag = module.identity();
    (module.header != 0).then_some(module)
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

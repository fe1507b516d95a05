//! Modules where the C library has no list that can be read without a lock: musl's, an old glibc's, and those of
//! programs that are linked statically.
//!
//! The kernel knows what is mapped where. What is found is kept: a module once, for ever, unless another file lies
//! in its place. Only who reads `/proc/self/maps` writes, one thread at a time; whoever finds somebody at it does
//! without the module for this time.
//!
//! | | operation | ordering |
//! |---|---|---|
//! | keep a module | store of the count | release: the entry |
//! | look | load of the count | acquire: the same |

use crate::kept::kept;
use crate::module::Module;
use crate::sys;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Most files whose code is found. A program has some ten, seldom hundreds.
const MOST: usize = 512;

/// A mapping of code, and the module that it is part of.
struct Kept {
    /// The mapping; nothing lies in one of no length.
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

/// The module that an address of the calling thread's stack lies in.
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
        // Another file may lie here now, and perhaps begin elsewhere.
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

/// What the kernel says of an address.
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
                // A file's first mapping. One that is mapped from the middle on is no module.
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

/// A line, as far as it was read: the first, second and fourth number in hexadecimal, and the fifth word, a decimal
/// one.
#[derive(Default)]
struct Line {
    numbers: [usize; 4],
    /// 0 and 1: the mapping; 2: its rights; 3: the offset; 4: the device; 5: the inode; 6: the name.
    word: usize,
}

impl Line {
    /// Takes a byte. Whether the line ends.
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

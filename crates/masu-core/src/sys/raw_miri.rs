//! System calls under Miri, which runs no machine code: a kernel that has one allocation for all of its
//! address space. The engine's arithmetic, its records and its lists run as they are.
//!
//! Memory that is not mapped is uninitialised, so Miri sees reads of it. Mappings are whole grains of
//! [`GRAIN`] bytes, the pages; each has flags. A page has memory of its own if it was populated, or
//! if something other than zeroes was written to it. Advice that lets the kernel take pages at any
//! moment takes them at once. Nothing is ever a huge page.

// The same as on x86-64.
#[path = "nr_x86_64.rs"]
pub mod nr;

use std::alloc::{Layout, alloc};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Bytes for the engine's tables, below its window.
pub const TABLES: usize = 128 << 20;
/// Bytes of small and medium blocks, and the same again for huge ones.
pub const CAPACITY: usize = 256 << 20;
const SPAN: usize = TABLES + 2 * CAPACITY;
/// The alignment of the window.
const ALIGN: usize = 2 << 20;
const GRAIN: usize = 4 << 10;

const EBADF: usize = 9;
const ENOMEM: usize = 12;
const EEXIST: usize = 17;
const EINVAL: usize = 22;
const ENOSYS: usize = 38;
const MAP_FIXED: usize = 0x10;
const MADV_DONTNEED: usize = 4;
const MADV_FREE: usize = 8;
const MADV_HUGEPAGE: usize = 14;
const MADV_NOHUGEPAGE: usize = 15;
const MADV_WIPEONFORK: usize = 18;
const MADV_POPULATE_WRITE: usize = 23;
const MADV_DONTNEED_LOCKED: usize = 24;
/// `MREMAP_MAYMOVE`, `MREMAP_FIXED` and `MREMAP_DONTUNMAP`: the only form that the engine uses.
const MREMAP_FORM: usize = 7;
/// `PIDFD_SELF`.
const OWN: usize = -10_000isize as usize;

/// The flags of a page that is mapped, and of one that was populated.
const MAPPED: u8 = 1;
const POPULATED: u8 = 2;

struct Space {
    /// Address of the allocation.
    start: usize,
    /// The flags of each grain.
    flags: Mutex<Vec<u8>>,
}

static SPACE: LazyLock<Space> = LazyLock::new(|| {
    let layout = Layout::from_size_align(SPAN, ALIGN).expect("a layout");
    // SAFETY: the layout is not empty.
    let start = unsafe { alloc(layout) };
    assert!(!start.is_null());
    let flags = Mutex::new(vec![0; SPAN / GRAIN]);
    Space { start: start.expose_provenance(), flags }
});

/// Where the engine finds room for its tables and, [`TABLES`] behind, its window.
pub fn start() -> usize {
    SPACE.start
}

impl Space {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.flags.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The grains of a range; `None` if it is not all in the allocation.
    fn grains(&self, at: usize, len: usize) -> Option<std::ops::Range<usize>> {
        let from = at.checked_sub(self.start)?;
        assert!(from.is_multiple_of(GRAIN), "{at:#x} is no page");
        (from + len <= SPAN).then(|| from / GRAIN..(from + len).div_ceil(GRAIN))
    }
}

/// # Safety
/// The range must be the engine's.
unsafe fn zero(at: usize, len: usize) {
    // SAFETY: passed on; the allocation was exposed.
    unsafe { std::ptr::with_exposed_provenance_mut::<u8>(at).write_bytes(0, len) };
}

fn map(at: usize, len: usize, flags: usize) -> Result<usize, usize> {
    let mut space = SPACE.lock();
    let grains = SPACE.grains(at, len).ok_or(ENOMEM)?;
    let fixed = flags & MAP_FIXED != 0;
    if !fixed && space[grains.clone()].iter().any(|&grain| grain != 0) {
        return Err(EEXIST);
    }
    space[grains].fill(MAPPED);
    // SAFETY: memory that was not mapped has no user; memory that is replaced is the caller's.
    unsafe { zero(at, len) };
    Ok(at)
}

fn unmap(at: usize, len: usize) -> Result<usize, usize> {
    let mut space = SPACE.lock();
    let grains = SPACE.grains(at, len).ok_or(ENOMEM)?;
    for grain in grains {
        space[grain] = 0;
        let start = SPACE.start + grain * GRAIN;
        let bytes =
            std::ptr::with_exposed_provenance_mut::<[std::mem::MaybeUninit<u8>; GRAIN]>(start);
        // SAFETY: the caller's, which it no longer uses.
        unsafe { bytes.write([const { std::mem::MaybeUninit::uninit() }; GRAIN]) };
    }
    Ok(0)
}

fn advise(at: usize, len: usize, advice: usize) -> Result<usize, usize> {
    let mut space = SPACE.lock();
    let grains = SPACE.grains(at, len).ok_or(ENOMEM)?;
    match advice {
        MADV_DONTNEED | MADV_DONTNEED_LOCKED | MADV_FREE | MADV_POPULATE_WRITE => {}
        MADV_HUGEPAGE | MADV_NOHUGEPAGE | MADV_WIPEONFORK => {}
        _ => return Err(EINVAL),
    }
    if space[grains.clone()].contains(&0) {
        return Err(ENOMEM);
    }
    match advice {
        MADV_DONTNEED | MADV_DONTNEED_LOCKED | MADV_FREE => {
            space[grains].fill(MAPPED);
            // SAFETY: the caller discards its own memory.
            unsafe { zero(at, len) };
        }
        MADV_POPULATE_WRITE => space[grains].fill(MAPPED | POPULATED),
        _ => {}
    }
    Ok(0)
}

/// The same advice for a list of ranges, up to the first that is refused.
///
/// # Safety
/// The list must have so many ranges, each a word of its address and one of its length.
unsafe fn advise_each(list: usize, ranges: usize, advice: usize) -> Result<usize, usize> {
    let list = std::ptr::with_exposed_provenance::<[usize; 2]>(list);
    let mut done = 0;
    for number in 0..ranges {
        // SAFETY: passed on.
        let [at, len] = unsafe { list.add(number).read() };
        match advise(at, len, advice) {
            Ok(_) => done += len,
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(done)
}

fn remap(from: usize, len: usize, to: usize) -> Result<usize, usize> {
    let mut space = SPACE.lock();
    let (source, target) = (SPACE.grains(from, len), SPACE.grains(to, len));
    let (source, target) = (source.ok_or(ENOMEM)?, target.ok_or(ENOMEM)?);
    assert!(!space[source.clone()].contains(&0), "what is not mapped cannot move");
    assert!(source.end <= target.start || target.end <= source.start, "a move onto itself");
    space.copy_within(source.clone(), target.start);
    space[source].fill(MAPPED);
    // SAFETY: both ranges are the caller's, and the target's contents are lost.
    unsafe {
        let old = std::ptr::with_exposed_provenance::<u8>(from);
        std::ptr::copy_nonoverlapping(old, std::ptr::with_exposed_provenance_mut(to), len);
        zero(from, len);
    }
    Ok(to)
}

/// Writes for each page of a range whether it has memory of its own.
///
/// # Safety
/// `answers` must have room for as many bytes.
unsafe fn residency(at: usize, len: usize, answers: usize) -> Result<usize, usize> {
    static ZEROES: [u8; GRAIN] = [0; GRAIN];
    let space = SPACE.lock();
    let grains = SPACE.grains(at, len).ok_or(ENOMEM)?;
    if space[grains.clone()].contains(&0) {
        return Err(ENOMEM);
    }
    let answers = std::ptr::with_exposed_provenance_mut::<u8>(answers);
    for (number, grain) in grains.enumerate() {
        let start = std::ptr::with_exposed_provenance::<[u8; GRAIN]>(SPACE.start + grain * GRAIN);
        // SAFETY: a mapped page, in which the tests that ask write nothing without a value; and passed on.
        unsafe {
            let has = space[grain] & POPULATED != 0 || *start != ZEROES;
            answers.add(number).write(has.into());
        }
    }
    Ok(0)
}

/// Makes a system call with up to six arguments.
///
/// # Safety
/// The arguments must be valid for the call named by `n`.
pub unsafe fn syscall(n: usize, a: [usize; 6]) -> usize {
    let done = match n {
        nr::MMAP => map(a[0], a[1], a[3]),
        nr::MUNMAP => unmap(a[0], a[1]),
        nr::MADVISE => advise(a[0], a[1], a[2]),
        nr::MREMAP => {
            assert_eq!((a[1], a[3]), (a[2], MREMAP_FORM), "another form of mremap");
            remap(a[0], a[1], a[4])
        }
        // SAFETY: the caller's list.
        nr::PROCESS_MADVISE if a[0] == OWN => unsafe { advise_each(a[1], a[2], a[3]) },
        nr::PROCESS_MADVISE => Err(EBADF),
        // SAFETY: the caller's bytes.
        nr::MINCORE => unsafe { residency(a[0], a[1], a[2]) },
        nr::GETPID | nr::GETTID => Ok(1),
        nr::FUTEX => {
            std::thread::yield_now();
            Ok(0)
        }
        nr::WRITE => {
            // SAFETY: the caller's bytes.
            let said = unsafe { std::slice::from_raw_parts(a[1] as *const u8, a[2]) };
            eprint!("{}", String::from_utf8_lossy(said));
            Ok(a[2])
        }
        nr::CLOCK_GETTIME => {
            static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
            let now = BEGAN.elapsed();
            // SAFETY: the caller's timespec.
            unsafe {
                *(a[1] as *mut [i64; 2]) = [now.as_secs() as i64 + 1, now.subsec_nanos().into()]
            };
            Ok(0)
        }
        nr::TGKILL => std::process::abort(),
        _ => Err(ENOSYS),
    };
    done.unwrap_or_else(usize::wrapping_neg)
}

/// Starts no thread.
///
/// # Safety
/// None is needed.
pub unsafe fn clone_thread(
    _flags: usize,
    _stack_top: *mut u8,
    _tid: *const u32,
    _tls: *mut u8,
    _entry: extern "C" fn(usize),
    _arg: usize,
) -> usize {
    ENOSYS.wrapping_neg()
}

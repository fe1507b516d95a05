//! System calls under Miri, which runs no machine code: a kernel that has one allocation for all of its
//! address space. The engine's arithmetic, its records and its lists run as they are.
//!
//! Memory that is not mapped is uninitialised, so Miri sees reads of it. Mappings are whole units of
//! [`GRAIN`]; each has a flag.

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

const ENOMEM: usize = 12;
const EEXIST: usize = 17;
const ENOSYS: usize = 38;
const MAP_FIXED: usize = 0x10;
const MADV_DONTNEED: usize = 4;

struct Space {
    /// Address of the allocation.
    start: usize,
    /// Per grain, whether it is mapped.
    mapped: Mutex<Vec<bool>>,
}

static SPACE: LazyLock<Space> = LazyLock::new(|| {
    let layout = Layout::from_size_align(SPAN, ALIGN).expect("a layout");
    // SAFETY: the layout is not empty.
    let start = unsafe { alloc(layout) };
    assert!(!start.is_null());
    let mapped = Mutex::new(vec![false; SPAN / GRAIN]);
    Space { start: start.expose_provenance(), mapped }
});

/// Where the engine finds room for its tables and, [`TABLES`] behind, its window.
pub fn start() -> usize {
    SPACE.start
}

impl Space {
    fn lock(&self) -> MutexGuard<'_, Vec<bool>> {
        self.mapped.lock().unwrap_or_else(PoisonError::into_inner)
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
    let mut mapped = SPACE.lock();
    let grains = SPACE.grains(at, len).ok_or(ENOMEM)?;
    let fixed = flags & MAP_FIXED != 0;
    if !fixed && mapped[grains.clone()].contains(&true) {
        return Err(EEXIST);
    }
    mapped[grains].fill(true);
    // SAFETY: memory that was not mapped has no user; memory that is replaced is the caller's.
    unsafe { zero(at, len) };
    Ok(at)
}

fn unmap(at: usize, len: usize) -> Result<usize, usize> {
    let mut mapped = SPACE.lock();
    let grains = SPACE.grains(at, len).ok_or(ENOMEM)?;
    for grain in grains {
        mapped[grain] = false;
        let start = SPACE.start + grain * GRAIN;
        let bytes =
            std::ptr::with_exposed_provenance_mut::<[std::mem::MaybeUninit<u8>; GRAIN]>(start);
        // SAFETY: the caller's, which it no longer uses.
        unsafe { bytes.write([const { std::mem::MaybeUninit::uninit() }; GRAIN]) };
    }
    Ok(0)
}

fn advise(at: usize, len: usize, advice: usize) -> Result<usize, usize> {
    let mapped = SPACE.lock();
    let grains = SPACE.grains(at, len).ok_or(ENOMEM)?;
    if mapped[grains].contains(&false) {
        return Err(ENOMEM);
    }
    if advice == MADV_DONTNEED {
        // SAFETY: the caller discards its own memory.
        unsafe { zero(at, len) };
    }
    Ok(0)
}

fn remap(from: usize, len: usize, to: usize) -> Result<usize, usize> {
    let mut mapped = SPACE.lock();
    let (source, target) = (SPACE.grains(from, len), SPACE.grains(to, len));
    let (source, target) = (source.ok_or(ENOMEM)?, target.ok_or(ENOMEM)?);
    assert!(!mapped[source].contains(&false), "what is not mapped cannot move");
    mapped[target].fill(true);
    // SAFETY: both ranges are the caller's, and the target's contents are lost.
    unsafe {
        let old = std::ptr::with_exposed_provenance::<u8>(from);
        std::ptr::copy(old, std::ptr::with_exposed_provenance_mut(to), len);
        zero(from, len);
    }
    Ok(to)
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
        nr::MREMAP => remap(a[0], a[1], a[4]),
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

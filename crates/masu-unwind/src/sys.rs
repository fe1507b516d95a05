//! The few system calls that unwinding makes, by number: `errno` is not touched.

use core::ffi::c_void;
use core::mem::transmute;
use core::sync::atomic::{AtomicUsize, Ordering};

#[cfg(target_arch = "x86_64")]
mod nr {
    pub const READ: usize = 0;
    pub const CLOSE: usize = 3;
    pub const MMAP: usize = 9;
    pub const MUNMAP: usize = 11;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const GETPID: usize = 39;
    pub const CLOCK_GETTIME: usize = 228;
    pub const OPENAT: usize = 257;
}
#[cfg(not(target_arch = "x86_64"))]
mod nr {
    pub const OPENAT: usize = 56;
    pub const CLOSE: usize = 57;
    pub const READ: usize = 63;
    pub const CLOCK_GETTIME: usize = 113;
    pub const RT_SIGPROCMASK: usize = 135;
    pub const GETPID: usize = 172;
    pub const MUNMAP: usize = 215;
    pub const MMAP: usize = 222;
}

/// # Safety
/// As the kernel requires for that call.
#[inline(never)]
unsafe fn call(n: usize, a: [usize; 6]) -> isize {
    let ret;
    // SAFETY: the system call convention; the caller answers for its effects.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!("syscall", inlateout("rax") n => ret, in("rdi") a[0], in("rsi") a[1],
            in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5], lateout("rcx") _, lateout("r11") _, options(nostack));
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!("svc 0", in("x8") n, inlateout("x0") a[0] => ret, in("x1") a[1],
            in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5], options(nostack));
        #[cfg(target_arch = "riscv64")]
        core::arch::asm!("ecall", in("a7") n, inlateout("a0") a[0] => ret, in("a1") a[1],
            in("a2") a[2], in("a3") a[3], in("a4") a[4], in("a5") a[5], options(nostack));
    }
    ret
}

/// Whether the eight bytes at an address, a multiple of 8, can be read: the kernel is asked to read them as a signal
/// mask, with an operation that it refuses once it has read them. Nothing changes. Null would mean no mask.
pub fn can_be_read(address: usize) -> bool {
    const EFAULT: isize = -14;
    const NO_SUCH_WAY: usize = usize::MAX >> 1;
    // SAFETY: an unknown operation on the mask is refused.
    let asked = || unsafe { call(nr::RT_SIGPROCMASK, [NO_SUCH_WAY, address, 0, 8, 0, 0]) };
    address != 0 && asked() != EFAULT
}

/// Returns an address in the last page of the first thread's stack; a value below all stacks if the C library does not
/// say.
#[inline(always)]
pub fn first_stack() -> usize {
    static TOP: AtomicUsize = AtomicUsize::new(0);
    match TOP.load(Ordering::Relaxed) {
        0 => find_first_stack(&TOP),
        top => top,
    }
}

#[cold]
#[inline(never)]
fn find_first_stack(at: &AtomicUsize) -> usize {
    /// Random bytes, which the kernel puts there.
    const AT_RANDOM: usize = 25;
    let top = auxiliary(AT_RANDOM).max(1);
    at.store(top, Ordering::Relaxed);
    top
}

/// Returns an entry of what the kernel tells a process at its start; 0 if the C library does not say.
fn auxiliary(entry: usize) -> usize {
    let get = weak!("getauxval");
    // SAFETY: the C library's function, whose signature this is.
    let get = unsafe { transmute::<*const c_void, Option<extern "C" fn(usize) -> usize>>(get) };
    get.map_or(0, |get| get(entry))
}

/// Returns addresses of modules that stay for ever: of the program, and of the C library, which this code needs; 0 if
/// they are not known.
pub fn lasting() -> [usize; 2] {
    /// The program's headers.
    const AT_PHDR: usize = 3;
    [auxiliary(AT_PHDR), weak!("getauxval") as usize]
}

/// Returns the calling thread's pointer.
pub fn thread_pointer() -> usize {
    let at: usize;
    // SAFETY: reads the thread's own register or, on x86-64, the word that the ABI keeps there.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) at,
            options(pure, readonly, nostack, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) at, options(pure, nomem, nostack, preserves_flags));
        #[cfg(target_arch = "riscv64")]
        core::arch::asm!("mv {}, tp", out(reg) at, options(pure, nomem, nostack, preserves_flags));
    }
    at
}

/// Returns the process's ID.
pub fn process() -> usize {
    // SAFETY: it has no effect.
    unsafe { call(nr::GETPID, [0; 6]).unsigned_abs() }
}

/// Returns the time in milliseconds, a few behind; the last there is where a sandbox hides it.
#[inline(always)]
pub fn now() -> u64 {
    const MONOTONIC_COARSE: usize = 6;
    let mut time = [0u64; 2];
    // SAFETY: seconds and nanoseconds, which the kernel writes.
    let failed = unsafe {
        let time = (&raw mut time).expose_provenance();
        call(nr::CLOCK_GETTIME, [MONOTONIC_COARSE, time, 0, 0, 0, 0]) != 0
    };
    if failed { u64::MAX } else { time[0] * 1000 + time[1] / 1_000_000 }
}

/// Passes a whole file to `f`, piece by piece, until it returns `false`.
pub fn read_file(path: &core::ffi::CStr, mut f: impl FnMut(&[u8]) -> bool) {
    const AT_FDCWD: usize = -100isize as usize;
    const O_RDONLY_CLOEXEC: usize = 0o2_000_000;
    const EINTR: isize = -4;
    let mut buffer = [0u8; 512];
    // SAFETY: a C string, and a buffer of that length for the kernel to write to.
    unsafe {
        let file = call(nr::OPENAT, [AT_FDCWD, path.as_ptr() as usize, O_RDONLY_CLOEXEC, 0, 0, 0]);
        if file < 0 {
            return;
        }
        loop {
            let read = call(
                nr::READ,
                [file as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0],
            );
            if read == EINTR {
                continue;
            }
            let read = usize::try_from(read).unwrap_or(0);
            if read == 0 || !f(buffer.get(..read).unwrap_or(&[])) {
                break;
            }
        }
        call(nr::CLOSE, [file as usize, 0, 0, 0, 0, 0]);
    }
}

/// Maps zeroed memory.
pub fn map(bytes: usize) -> Option<*mut u8> {
    const READ_AND_WRITE: usize = 3;
    const PRIVATE_ANONYMOUS: usize = 0x22;
    const MOST: isize = -4096;
    // SAFETY: a new mapping, wherever there is room.
    let at =
        unsafe { call(nr::MMAP, [0, bytes, READ_AND_WRITE, PRIVATE_ANONYMOUS, usize::MAX, 0]) };
    (!(MOST..0).contains(&at)).then_some(at as *mut u8)
}

/// Unmaps memory from [`map`].
///
/// # Safety
/// `at` must be such a mapping of that many bytes, and must not be used any more.
pub unsafe fn unmap(at: *mut u8, bytes: usize) {
    // SAFETY: the caller guarantees it.
    unsafe { call(nr::MUNMAP, [at as usize, bytes, 0, 0, 0, 0]) };
}

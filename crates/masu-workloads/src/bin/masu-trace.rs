//! `masu-work` that writes down what it asks its allocator for.
//!
//! It defines the allocation functions itself, notes each call and passes it on to the C library's
//! own. Calls are numbered by one counter, a free before and an allocation after it happens, so that
//! the trace is one order in which all of it could have happened. Threads take turns of a few calls,
//! so that the order is that of threads which all run at once, however many processors this machine
//! has free: else a thread is done before the next one is started. `MASU_TRACE` names the file; a
//! record is the address (8 bytes), the size (4, none for a free) and the thread (4), little-endian.

#[cfg(target_env = "gnu")]
mod record {
    use std::cell::Cell;
    use std::ffi::c_void;
    use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

    /// The most calls that are noted; those after it are not.
    const MOST: usize = 8 << 20;

    /// Calls of one thread in a row before others get a turn, if they want it.
    const TURN: u32 = 16;
    /// How often a thread looks whether somebody else has called, before it takes another turn.
    const LOOKS: u32 = 40;

    static WORDS: [[AtomicU64; 2]; MOST] = [const { [AtomicU64::new(0), AtomicU64::new(0)] }; MOST];
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    static THREADS: AtomicU32 = AtomicU32::new(1);

    thread_local! {
        /// One more than this thread's number; none before its first call.
        static THREAD: Cell<u32> = const { Cell::new(0) };
        /// This thread's last call, and how many it made in a row.
        static LATELY: Cell<(usize, u32)> = const { Cell::new((0, 0)) };
    }

    unsafe extern "C" {
        fn __libc_malloc(size: usize) -> *mut c_void;
        fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
        fn __libc_realloc(block: *mut c_void, size: usize) -> *mut c_void;
        fn __libc_memalign(alignment: usize, size: usize) -> *mut c_void;
        fn __libc_free(block: *mut c_void);
    }

    fn note(block: *mut c_void, size: usize) {
        let at = NEXT.fetch_add(1, Ordering::Relaxed);
        if block.is_null() || at >= MOST {
            return;
        }
        let thread = THREAD.with(|thread| {
            if thread.get() == 0 {
                thread.set(THREADS.fetch_add(1, Ordering::Relaxed));
            }
            thread.get() - 1
        });
        let size = size.min(u32::MAX as usize) as u64;
        WORDS[at][0].store(block as u64, Ordering::Relaxed);
        WORDS[at][1].store(size | u64::from(thread) << 32, Ordering::Relaxed);
        take_turns(at);
    }

    /// Lets others call after some calls in a row. Whoever has nobody to wait for goes on soon.
    fn take_turns(at: usize) {
        let (last, row) = LATELY.get();
        let row = if at == last + 1 { row + 1 } else { 0 };
        LATELY.set((at, row % TURN));
        if row < TURN {
            return;
        }
        let others_called = || NEXT.load(Ordering::Relaxed) != at + 1;
        for _ in 0..LOOKS {
            if others_called() {
                return;
            }
            // SAFETY: it takes nothing and always succeeds.
            unsafe { libc::sched_yield() };
        }
    }

    fn made(block: *mut c_void, size: usize) -> *mut c_void {
        note(block, size.max(1));
        block
    }

    #[unsafe(no_mangle)]
    extern "C" fn malloc(size: usize) -> *mut c_void {
        // SAFETY: malloc takes any size.
        made(unsafe { __libc_malloc(size) }, size)
    }

    #[unsafe(no_mangle)]
    extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
        // SAFETY: calloc takes any sizes.
        made(unsafe { __libc_calloc(count, size) }, count.saturating_mul(size))
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
        note(block, 0);
        // SAFETY: the caller's block, which came from these functions.
        made(unsafe { __libc_realloc(block, size) }, size)
    }

    #[unsafe(no_mangle)]
    extern "C" fn memalign(alignment: usize, size: usize) -> *mut c_void {
        // SAFETY: memalign takes any sizes.
        made(unsafe { __libc_memalign(alignment, size) }, size)
    }

    #[unsafe(no_mangle)]
    extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
        memalign(alignment, size)
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn posix_memalign(
        place: *mut *mut c_void,
        alignment: usize,
        size: usize,
    ) -> i32 {
        let block = memalign(alignment, size);
        // SAFETY: the caller's place for the result.
        unsafe { *place = block };
        if block.is_null() { libc::ENOMEM } else { 0 }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn free(block: *mut c_void) {
        note(block, 0);
        // SAFETY: the caller's block, which came from these functions.
        unsafe { __libc_free(block) }
    }

    /// Everything noted so far. Other threads have ended.
    pub fn bytes() -> Vec<u8> {
        let count = NEXT.load(Ordering::Acquire).min(MOST);
        let words = WORDS[..count].iter().flatten().map(|word| word.load(Ordering::Relaxed));
        let whole: Vec<u64> = words.collect();
        // A failed allocation leaves its record empty.
        let records = whole.chunks_exact(2).filter(|record| record[0] != 0);
        records.flatten().flat_map(|word| word.to_le_bytes()).collect()
    }
}

fn main() -> std::process::ExitCode {
    let code = masu_workloads::program::main();
    #[cfg(target_env = "gnu")]
    if let Some(path) = std::env::var_os("MASU_TRACE")
        && let Err(error) = std::fs::write(&path, record::bytes())
    {
        eprintln!("masu-trace: cannot write {}: {error}", path.display());
        return std::process::ExitCode::FAILURE;
    }
    code
}

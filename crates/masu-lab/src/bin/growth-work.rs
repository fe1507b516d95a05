//! What the growth experiments measure: buffers that grow, served by whatever allocator is loaded.
//!
//! ```text
//! growth-work double  posix|rallocx|realloc|mapped  REPETITIONS   128 KiB doubled ten times
//! growth-work builder posix|rallocx|realloc|mapped  REPETITIONS   an array of 512 MiB and its bitmap
//! growth-work pool    SHAPE SIZE COUNT THREADS                    blocks as a memory pool hands them out
//! ```
//!
//! Prints the object that serves `malloc`, a line `repetition NANOSECONDS FAULTS` for each, then
//! `moves`, `peak_kib`, and `settled_kib`: what is still resident beyond the start two seconds after
//! the last free (not for `pool`).

use std::ffi::{CStr, c_int, c_void};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Every buffer is aligned to a cache line, as Arrow's are.
const ALIGN: usize = 64;
/// The flag that says so to `mallocx`.
const ALIGN_FLAG: c_int = ALIGN.trailing_zeros() as c_int;

/// How a buffer grows.
#[derive(Clone, Copy)]
enum Api {
    /// `posix_memalign`, `memcpy`, `free`.
    Posix,
    /// `mallocx`, `rallocx`, `dallocx`, found in the process.
    Rallocx { mallocx: Mallocx, rallocx: Rallocx, dallocx: Dallocx },
    /// `malloc` and `realloc`, aligned to 16 bytes only.
    Realloc,
    /// No allocator at all: a mapping that is long enough from the start and is kept.
    Mapped,
}

/// The mappings of [`Api::Mapped`] that no buffer has at present, the last one given back last.
static ROOMS: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// Bytes of each: the longest buffer.
const ROOM: usize = 512 << 20;

/// A mapping that huge pages are faulted into.
fn room() -> *mut u8 {
    let mut rooms = ROOMS.lock().expect("one thread");
    if let Some(room) = rooms.pop() {
        return std::ptr::with_exposed_provenance_mut(room);
    }
    // SAFETY: a fresh mapping and advice on it.
    unsafe {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
        let at = libc::mmap(std::ptr::null_mut(), ROOM, access, kind | libc::MAP_ANONYMOUS, -1, 0);
        assert!(at != libc::MAP_FAILED, "memory is out");
        libc::madvise(at, ROOM, libc::MADV_HUGEPAGE);
        at.cast()
    }
}

type Mallocx = unsafe extern "C" fn(usize, c_int) -> *mut c_void;
type Rallocx = unsafe extern "C" fn(*mut c_void, usize, c_int) -> *mut c_void;
type Dallocx = unsafe extern "C" fn(*mut c_void, c_int);

impl Api {
    fn named(name: &str) -> Self {
        match name {
            "posix" => Api::Posix,
            "realloc" => Api::Realloc,
            "mapped" => Api::Mapped,
            "rallocx" => {
                let find = |name: &CStr| {
                    // SAFETY: looks a name up.
                    let at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
                    assert!(!at.is_null(), "the allocator has no {name:?}");
                    at
                };
                // SAFETY: these are the functions' types wherever they are offered.
                unsafe {
                    Api::Rallocx {
                        mallocx: std::mem::transmute::<*mut c_void, Mallocx>(find(c"mallocx")),
                        rallocx: std::mem::transmute::<*mut c_void, Rallocx>(find(c"rallocx")),
                        dallocx: std::mem::transmute::<*mut c_void, Dallocx>(find(c"dallocx")),
                    }
                }
            }
            _ => panic!("no interface called {name}"),
        }
    }

    fn alloc(self, size: usize) -> *mut u8 {
        // SAFETY: plain allocation; the pointer is checked.
        let block = unsafe {
            match self {
                Api::Posix => {
                    let mut block = std::ptr::null_mut();
                    libc::posix_memalign(&mut block, ALIGN, size);
                    block
                }
                Api::Rallocx { mallocx, .. } => mallocx(size, ALIGN_FLAG),
                Api::Realloc => libc::malloc(size),
                Api::Mapped => {
                    assert!(size <= ROOM);
                    room().cast()
                }
            }
        };
        assert!(!block.is_null(), "memory is out");
        block.cast()
    }

    /// # Safety
    /// `block` is one of `old` bytes of this interface's, which the caller gives up.
    unsafe fn grow(self, block: *mut u8, old: usize, size: usize) -> *mut u8 {
        // SAFETY: as the caller says.
        let to = unsafe {
            match self {
                Api::Posix => {
                    let to = self.alloc(size);
                    std::ptr::copy_nonoverlapping(block, to, old);
                    libc::free(block.cast());
                    to
                }
                Api::Rallocx { rallocx, .. } => rallocx(block.cast(), size, ALIGN_FLAG).cast(),
                Api::Realloc => libc::realloc(block.cast(), size).cast(),
                Api::Mapped => {
                    assert!(size <= ROOM);
                    block
                }
            }
        };
        assert!(!to.is_null(), "memory is out");
        to
    }

    /// # Safety
    /// `block` is this interface's, which the caller gives up.
    unsafe fn free(self, block: *mut u8) {
        // SAFETY: as the caller says.
        unsafe {
            match self {
                Api::Rallocx { dallocx, .. } => dallocx(block.cast(), 0),
                Api::Mapped => ROOMS.lock().expect("one thread").push(block.expose_provenance()),
                _ => libc::free(block.cast()),
            }
        }
    }
}

/// A buffer that doubles when it is full.
struct Buffer {
    api: Api,
    data: *mut u8,
    capacity: usize,
    moves: u64,
}

impl Buffer {
    fn new(api: Api, capacity: usize) -> Self {
        Buffer { api, data: api.alloc(capacity), capacity, moves: 0 }
    }

    fn reserve(&mut self, size: usize) {
        if size > self.capacity {
            let wanted = size.max(self.capacity * 2).next_power_of_two();
            // SAFETY: the buffer's own block.
            let to = unsafe { self.api.grow(self.data, self.capacity, wanted) };
            self.moves += u64::from(to != self.data);
            (self.data, self.capacity) = (to, wanted);
        }
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.capacity);
        // SAFETY: in bounds.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.data.add(at), bytes.len()) };
    }

    /// Whether the bytes at `at` are `bytes`.
    fn holds(&self, at: usize, bytes: &[u8]) -> bool {
        // SAFETY: in bounds, and written before.
        unsafe { std::slice::from_raw_parts(self.data.add(at), bytes.len()) == bytes }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the buffer's own block.
        unsafe { self.api.free(self.data) }
    }
}

/// One repetition: its moves.
fn double(api: Api) -> u64 {
    let page = [7u8; 4096];
    let mut buffer = Buffer::new(api, 128 << 10);
    let mut filled = 0;
    for step in 0..=10 {
        let size = (128 << 10) << step;
        buffer.reserve(size);
        for at in (filled..size).step_by(page.len()) {
            buffer.write(at, &page);
        }
        filled = size;
    }
    assert!(buffer.holds(0, &page) && buffer.holds(filled / 2, &page), "contents were lost");
    buffer.moves
}

/// Arrow's builder of an array of 512 MiB: 256 appends of 2 MiB, a bitmap beside them.
fn builder(api: Api) -> u64 {
    const APPENDS: usize = 256;
    const VALUES: usize = 256 * 1024;
    let source: Vec<u8> = (0..VALUES).flat_map(|_| 100u64.to_le_bytes()).collect();
    let bits = vec![0xffu8; VALUES / 8];
    let mut data = Buffer::new(api, source.len());
    let mut bitmap = Buffer::new(api, bits.len());
    for append in 0..APPENDS {
        data.reserve((append + 1) * source.len());
        bitmap.reserve((append + 1) * bits.len());
        data.write(append * source.len(), &source);
        bitmap.write(append * bits.len(), &bits);
    }
    assert!(data.holds(0, &source) && data.holds(511 << 20, &source[..1 << 20]), "data was lost");
    data.moves + bitmap.moves
}

/// What is done with a block between its allocation and its end.
fn pool_round(shape: &str, size: usize, count: usize) {
    let mut blocks = Vec::with_capacity(count);
    for _ in 0..count {
        let block = Api::Posix.alloc(size);
        if shape == "touch" {
            for at in (0..size).step_by(64) {
                // SAFETY: in bounds.
                unsafe { block.add(at).write_volatile(1) };
            }
        }
        blocks.push(block);
    }
    for block in blocks {
        // SAFETY: allocated above.
        unsafe { Api::Posix.free(block) };
    }
}

fn pool(shape: &str, size: usize, count: usize, threads: usize) {
    let rounds = ((256 << 20) / (size * count)).clamp(4, 4096);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| (0..rounds).for_each(|_| pool_round(shape, size, count)));
        }
    });
}

/// Page faults of this process without reading from a device.
fn faults() -> u64 {
    // SAFETY: rusage is plain data for which zero is valid.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage.ru_minflt as u64
    }
}

/// A field of this process's status, in KiB.
fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find(|line| line.starts_with(field)).expect("the field");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
}

/// The object that holds the `malloc` in use.
fn server() -> String {
    // SAFETY: Dl_info is plain data; the address is a function's.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let malloc = libc::dlsym(libc::RTLD_DEFAULT, c"malloc".as_ptr());
        libc::dladdr(malloc, &mut info);
        let name = CStr::from_ptr(info.dli_fname).to_string_lossy().into_owned();
        std::fs::canonicalize(&name).map_or(name, |path| path.display().to_string())
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let argument = |n: usize| arguments.get(n).map(String::as_str).expect("more arguments");
    let number = |n: usize| argument(n).parse::<usize>().expect("a number");
    println!("allocator {}", server());
    let start = status("VmRSS");
    let mut moves = 0;
    let repetitions = if argument(1) == "pool" { 3 } else { number(3) };
    for _ in 0..repetitions {
        let (before, clock) = (faults(), Instant::now());
        match argument(1) {
            "double" => moves += double(Api::named(argument(2))),
            "builder" => moves += builder(Api::named(argument(2))),
            "pool" => pool(argument(2), number(3), number(4), number(5)),
            other => panic!("no experiment called {other}"),
        }
        println!("repetition {} {}", clock.elapsed().as_nanos(), faults() - before);
    }
    println!("moves {moves}");
    println!("peak_kib {}", status("VmHWM"));
    if argument(1) != "pool" {
        std::thread::sleep(Duration::from_secs(2));
        println!("settled_kib {}", status("VmRSS").saturating_sub(start));
    }
}

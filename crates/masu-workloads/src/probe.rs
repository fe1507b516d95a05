//! Which allocator serves this process?
//!
//! The dynamic linker is asked, name by name, which object the C allocation functions
//! come from. One object must serve them all: a preloaded library that misses
//! `posix_memalign` would otherwise hand glibc's blocks to its own `free`.

use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::{fmt, fs};

/// The functions every peer must export itself.
pub const NAMES: [&str; 8] = [
    "malloc",
    "free",
    "calloc",
    "realloc",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "malloc_usable_size",
];

/// The functions, each with the object that serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe(pub Vec<(String, PathBuf)>);

impl Probe {
    /// Asks the dynamic linker of this process.
    pub fn of_this_process() -> Self {
        Probe(NAMES.iter().map(|name| (name.to_string(), object_of(name))).collect())
    }

    /// The one object that serves all functions, if there is one.
    pub fn single(&self) -> Option<&Path> {
        let first = &self.0.first()?.1;
        self.0.iter().all(|(_, path)| path == first).then_some(first.as_path())
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = self.single() {
            return write!(f, "{}", path.display());
        }
        write!(f, "mixed:")?;
        for (name, path) in &self.0 {
            write!(f, " {name}={}", path.display())?;
        }
        Ok(())
    }
}

/// True if the kernel's list of mappings of this process names `object`.
pub fn is_mapped(object: &Path) -> bool {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let real = fs::canonicalize(object).unwrap_or_else(|_| object.to_path_buf());
    maps.lines().any(|line| line.ends_with(&*real.to_string_lossy()))
}

/// The object that serves `name`, by its real path; empty if nothing does.
fn object_of(name: &str) -> PathBuf {
    let name = CString::new(name).expect("a function's name holds no NUL");
    // SAFETY: both calls only read the linker's tables; `info` is valid for writing, and
    // `dli_fname` of a found object is a C string that lives as long as the object.
    unsafe {
        let address = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
        let mut info: libc::Dl_info = std::mem::zeroed();
        if address.is_null() || libc::dladdr(address, &mut info) == 0 || info.dli_fname.is_null() {
            return PathBuf::new();
        }
        let path = PathBuf::from(CStr::from_ptr(info.dli_fname).to_string_lossy().into_owned());
        fs::canonicalize(&path).unwrap_or(path)
    }
}

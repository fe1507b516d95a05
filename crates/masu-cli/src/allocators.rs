//! Detects which allocators are in a file: masu by its note, others by their names and messages.
//!
//! A preloaded library takes over the symbol `malloc`. Allocations that a program makes by another
//! name, such as `_rjem_malloc`, or through an allocator bound inside itself, never reach it: the
//! program runs as before, but measures its own allocator. Most released binaries are stripped, so
//! the search looks first for the names and then for messages that every build of an allocator
//! contains.
//!
//! masu has jemalloc's names too, but its own messages: in a file with masu's note, only messages
//! identify jemalloc.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};

use memchr::memmem;

use crate::elf::{Door, Elf};

/// masu's name for itself.
pub const MASU: &str = "masu";
/// An unknown `malloc`.
pub const UNKNOWN: &str = "a malloc of its own";

/// How to recognise one allocator.
struct Signature {
    name: &'static str,
    /// Functions that it defines, under one of its usual prefixes.
    functions: &'static [&'static str],
    /// Texts that every build of it contains. Each is in two parts, because this command's own file would contain it
    /// otherwise. The second part begins with an extra byte, because the parts may end up adjacent.
    texts: &'static [(&'static str, &'static str)],
    /// The shared library it also ships as.
    library: &'static str,
    /// Prefixes of functions that programs call only from this allocator.
    own: &'static [&'static str],
}

const KNOWN: &[Signature] = &[
    Signature {
        name: "jemalloc",
        functions: &["je_malloc", "_rjem_malloc", "_rjem_mallocx", "je_mallocx", "mallocx"],
        texts: &[("<jemal", "|loc>: "), ("naren", "|as\0")],
        library: "libjemalloc",
        own: &["je_", "_rjem_"],
    },
    Signature {
        name: "mimalloc",
        functions: &["mi_malloc", "_mi_malloc_generic"],
        texts: &[("mimalloc: ", "|error: "), ("mimal", "|loc_%s")],
        library: "libmimalloc",
        own: &["mi_"],
    },
    Signature {
        name: "tcmalloc",
        functions: &["tc_malloc", "TCMallocInternalMalloc", "MallocExtension_GetNumericProperty"],
        texts: &[("tcmalloc.", "|max_total_thread_cache_bytes")],
        library: "libtcmalloc",
        own: &["tc_", "MallocExtension", "_ZN15MallocExtension"],
    },
    Signature {
        name: "snmalloc",
        functions: &["sn_malloc", "sn_rust_alloc"],
        texts: &[],
        library: "libsnmallocshim",
        own: &["sn_"],
    },
    Signature {
        name: "Scudo",
        functions: &["__scudo_print_stats", "scudo_malloc"],
        texts: &[("Scudo ", "|ERROR: ")],
        library: "libscudo",
        own: &["__scudo_", "scudo_"],
    },
    Signature {
        name: "rpmalloc",
        functions: &["rpmalloc", "rpaligned_alloc"],
        texts: &[],
        library: "librpmalloc",
        own: &["rp"],
    },
    Signature {
        name: "tbbmalloc",
        functions: &["scalable_malloc"],
        texts: &[],
        library: "libtbbmalloc",
        own: &["scalable_"],
    },
    Signature {
        name: "Hoard",
        functions: &["xxmalloc"],
        texts: &[],
        library: "libhoard",
        own: &["xx"],
    },
    Signature {
        name: "hardened_malloc",
        functions: &["h_malloc"],
        texts: &[],
        library: "libhardened_malloc",
        own: &["h_"],
    },
];

/// The sanitizers, each with the function that starts it and the name of its run-time library,
/// which differs between gcc and clang. They replace malloc themselves, and the library must come
/// first in the process.
const SANITIZERS: &[(&str, &str, &str)] = &[
    ("AddressSanitizer", "__asan_init", "asan"),
    ("ThreadSanitizer", "__tsan_init", "tsan"),
    ("MemorySanitizer", "__msan_init", "msan"),
    ("LeakSanitizer", "__lsan_init", "lsan"),
    ("HWAddressSanitizer", "__hwasan_init", "hwasan"),
];

/// Returns the allocator that a library called `name` is, if known: for a file that is missing or
/// unreadable.
pub fn known_library(name: &str) -> Option<&'static str> {
    if is_masus_name(name) {
        return Some(MASU);
    }
    KNOWN.iter().find(|known| name.starts_with(known.library)).map(|known| known.name)
}

/// Whether a library called `name` is masu. The command of `cargo install` adds a sum to the name.
pub fn is_masus_name(name: &str) -> bool {
    let rest = name.strip_prefix("libmasu.so");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        || name.starts_with("libmasu-") && name.ends_with(".so")
}

/// A sanitizer, and how it is part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sanitizer {
    /// Linked in: its own malloc wins.
    Inside(&'static str),
    /// Linked as a library, which stops the program unless it comes first.
    Linked(&'static str),
}

/// The allocators in one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The allocator whose `malloc` it offers to the whole process.
    pub malloc: Option<&'static str>,
    /// Whether its `malloc` is masu's, offered to others or not.
    pub masu: bool,
    /// Whether masu is Rust's global allocator in it.
    pub rust: bool,
    /// The allocators in it that serve its own code under names of their own, including masu.
    pub inside: Vec<&'static str>,
    /// The allocators it requires as libraries and whose own functions it calls.
    pub calls: Vec<&'static str>,
    /// The sanitizer it was built with.
    pub sanitizer: Option<Sanitizer>,
    /// Whether it names a dynamic loader: static programs and libraries do not.
    pub interpreted: bool,
    /// Whether Go's compiler built it.
    pub go: bool,
    /// Whether it is a Java virtual machine, or starts one.
    pub java: bool,
    /// Whether it starts as programs for glibc do.
    pub glibc: bool,
    /// The libraries it requires.
    pub needed: Vec<String>,
    /// The name by which others require it.
    pub soname: Option<String>,
}

impl Contents {
    /// Returns the contents of `elf`, a file called `name`.
    pub fn of(elf: &Elf, name: &str) -> Self {
        let exports = |function: &str| elf.exported.iter().any(|exported| exported == function);
        let sanitizer = sanitizer(elf);
        let masu = elf.doors.contains(&Door::Malloc) || is_masus_name(name);
        let used = KNOWN.iter().filter(|known| known.is_in(elf, masu) && !known.is_idle_in(elf));
        let mut inside: Vec<_> = used.map(|known| known.name).collect();
        let malloc = exports("malloc").then(|| match sanitizer {
            _ if masu => MASU,
            Some(Sanitizer::Inside(name)) => name,
            _ if exports("gnu_get_libc_version") => "glibc",
            _ if exports("__libc_start_main") => "musl",
            // An allocator with its own names and `malloc` is the only one.
            _ if !inside.is_empty() => inside.remove(0),
            _ => known_library(name).unwrap_or(UNKNOWN),
        });
        let rust = elf.doors.contains(&Door::Global);
        if rust || elf.doors.contains(&Door::Private) || (masu && malloc.is_none()) {
            inside.push(MASU);
        }
        // A program's own allocator that it hides from its libraries.
        let hidden =
            || elf.interpreter.is_some() && elf.defined.iter().any(|name| name == "malloc");
        if malloc.is_none() && inside.is_empty() && hidden() {
            inside.push(UNKNOWN);
        }
        let asks = |library: &str| elf.needed.iter().any(|needed| needed.starts_with(library));
        let calls = KNOWN.iter().filter(|known| asks(known.library) && known.is_called(elf));
        Self {
            malloc,
            masu,
            rust,
            inside,
            calls: calls.map(|known| known.name).collect(),
            sanitizer,
            interpreted: elf.interpreter.is_some(),
            go: elf.is_go,
            java: asks("libjli.so") || exports("JNI_CreateJavaVM"),
            glibc: elf.starts_on_glibc,
            needed: elf.needed.clone(),
            soname: elf.soname.clone(),
        }
    }

    /// Returns the contents of the file at `path`; `None` if no loader could load it. Each file is
    /// read once.
    pub fn read(path: &Path) -> Option<Arc<Self>> {
        Self::of_file(File::open(path).ok()?, &file_name(&path.canonicalize().ok()?))
    }

    /// Returns the contents of an open file called `name`.
    pub fn of_file(file: File, name: &str) -> Option<Arc<Self>> {
        type Known = HashMap<(u64, u64, i64), Option<Arc<Contents>>>;
        static READ: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
        let metadata = file.metadata().ok()?;
        let key = (metadata.dev(), metadata.ino(), metadata.ctime_nsec());
        let mut read = READ.lock().expect("nothing panics with it");
        let contents =
            read.entry(key).or_insert_with(|| Some(Arc::new(Self::of(&Elf::of(file).ok()?, name))));
        contents.clone()
    }

    /// Whether masu takes effect in this program, however it is started.
    pub fn runs_on_masu(&self) -> bool {
        self.masu || self.rust || self.needed.iter().any(|name| is_masus_name(name))
    }

    /// Returns the allocator that serves this program if no loader loads it.
    pub fn of_static_program(&self) -> &'static str {
        match self.inside.iter().find(|&&name| name != MASU) {
            _ if self.masu => MASU,
            Some(name) => name,
            None if self.go => "Go",
            None if self.glibc => "glibc",
            None => "libc",
        }
    }
}

impl Signature {
    fn is_in(&self, elf: &Elf, masu: bool) -> bool {
        let shared_names = masu || elf.doors.contains(&Door::Private);
        let by_name = !(shared_names && self.name == "jemalloc")
            && self.functions.iter().any(|&function| {
                elf.exported.iter().chain(&elf.defined).any(|defined| defined == function)
            });
        by_name || self.speaks_in(elf)
    }

    fn speaks_in(&self, elf: &Elf) -> bool {
        let says = |&(start, end): &(&str, &str)| says(elf, &format!("{start}{}", &end[1..]));
        !self.texts.is_empty() && self.texts.iter().all(says)
    }

    /// Whether the program has it, but does not use it: CPython has mimalloc from 3.13 on, for builds without the global
    /// lock, and for `PYTHONMALLOC=mimalloc`.
    fn is_idle_in(&self, elf: &Elf) -> bool {
        self.name == "mimalloc"
            && says(elf, "Unknown PYTHONMALLOC allocator")
            && !says(elf, "free-threading build")
    }

    /// Whether the program calls functions that masu lacks.
    fn is_called(&self, elf: &Elf) -> bool {
        elf.imported.iter().any(|name| self.own.iter().any(|own| name.starts_with(own)))
    }
}

/// Whether a text is among a file's constants.
fn says(elf: &Elf, text: &str) -> bool {
    memmem::find(&elf.constants, text.as_bytes()).is_some()
}

fn sanitizer(elf: &Elf) -> Option<Sanitizer> {
    let links = |library: &str| elf.needed.iter().any(|needed| needed.starts_with(library));
    SANITIZERS.iter().find_map(|&(name, start, library)| {
        if links(&format!("lib{library}.")) || links(&format!("libclang_rt.{library}-")) {
            return Some(Sanitizer::Linked(name));
        }
        let mut defined = elf.exported.iter().chain(&elf.defined);
        defined.any(|defined| defined == start).then_some(Sanitizer::Inside(name))
    })
}

/// Returns the allocator whose `malloc` the library at `path` offers, or would offer if it existed.
pub fn whose(path: &Path) -> Option<&'static str> {
    match Contents::read(path) {
        Some(contents) => contents.malloc,
        None => known_library(&file_name(path)),
    }
}

/// The last part of a path.
pub fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_masu_is_known_by_its_name() {
        assert!(is_masus_name("libmasu.so.0") && is_masus_name("libmasu.so"));
        assert!(is_masus_name("libmasu-0123456789abcdef.so"));
        assert!(!is_masus_name("libmasu-tools.txt") && !is_masus_name("libjemalloc.so.2"));
    }
}

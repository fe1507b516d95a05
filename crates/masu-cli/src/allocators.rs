//! Whether a program brings an allocator of its own.
//!
//! A preloaded library takes over the symbol `malloc`. What a program calls by another name, such
//! as `_rjem_malloc`, or has bound inside itself, never reaches it: the program runs as well as
//! before, but measures its own allocator. Most released binaries are stripped, so the names are
//! looked for first and then the messages that every build of an allocator carries.

use memchr::memmem;

use crate::elf::Elf;

/// How one allocator is known.
struct Signature {
    name: &'static str,
    /// Functions that it defines, under any of its usual prefixes.
    functions: &'static [&'static str],
    /// The beginning of its own messages.
    message: Option<&'static str>,
    /// The shared library it also comes as.
    library: &'static str,
}

const KNOWN: &[Signature] = &[
    Signature {
        name: "jemalloc",
        functions: &["je_malloc", "_rjem_malloc", "_rjem_mallocx", "je_mallocx", "mallocx"],
        message: Some("<jemalloc>: "),
        library: "libjemalloc",
    },
    Signature {
        name: "mimalloc",
        functions: &["mi_malloc", "_mi_malloc_generic"],
        message: Some("mimalloc: error: "),
        library: "libmimalloc",
    },
    Signature {
        name: "tcmalloc",
        functions: &["tc_malloc", "TCMallocInternalMalloc", "MallocExtension_GetNumericProperty"],
        message: Some("tcmalloc.max_total_thread_cache_bytes"),
        library: "libtcmalloc",
    },
    Signature {
        name: "snmalloc",
        functions: &["sn_malloc", "sn_rust_alloc"],
        message: None,
        library: "libsnmallocshim",
    },
    Signature {
        name: "Scudo",
        functions: &["__scudo_print_stats", "scudo_malloc"],
        message: Some("Scudo ERROR: "),
        library: "libscudo",
    },
    Signature {
        name: "rpmalloc",
        functions: &["rpmalloc", "rpaligned_alloc"],
        message: None,
        library: "librpmalloc",
    },
    Signature {
        name: "tbbmalloc",
        functions: &["scalable_malloc"],
        message: None,
        library: "libtbbmalloc",
    },
    Signature { name: "Hoard", functions: &["xxmalloc"], message: None, library: "libhoard" },
    Signature {
        name: "hardened_malloc",
        functions: &["h_malloc"],
        message: None,
        library: "libhardened_malloc",
    },
];

/// The sanitizers, each with the function that starts it and the name of its run-time library,
/// which gcc and clang spell differently. They replace malloc themselves, and the library has to be
/// the first of the process.
const SANITIZERS: &[(&str, &str, &str)] = &[
    ("AddressSanitizer", "__asan_init", "asan"),
    ("ThreadSanitizer", "__tsan_init", "tsan"),
    ("MemorySanitizer", "__msan_init", "msan"),
    ("LeakSanitizer", "__lsan_init", "lsan"),
    ("HWAddressSanitizer", "__hwasan_init", "hwasan"),
];

/// The allocator that the library in the file `name` is, if it is a known one.
pub fn known_library(name: &str) -> Option<&'static str> {
    KNOWN.iter().find(|known| name.starts_with(known.library)).map(|known| known.name)
}

/// What a program brings.
#[derive(Debug, PartialEq, Eq)]
pub enum Brings {
    /// Nothing known: all of its allocations are malloc's.
    Nothing,
    /// An allocator inside, under names of its own.
    Inside(&'static str),
    /// An allocator as a library that it asks for.
    Linked(&'static str),
    /// A `malloc` that the dynamic loader prefers to any preloaded one.
    Malloc,
    /// A sanitizer linked in, whose own malloc wins.
    SanitizerInside(&'static str),
    /// A sanitizer as a library, which stops the program unless it comes first.
    SanitizerLinked(&'static str),
}

/// What the program `elf` brings.
pub fn brought_by(elf: &Elf) -> Brings {
    let defines =
        |function: &str| elf.exported.iter().chain(&elf.defined).any(|defined| defined == function);
    let links = |library: &str| elf.needed.iter().any(|needed| needed.starts_with(library));
    let says = |message: &str| memmem::find(&elf.rodata, message.as_bytes()).is_some();

    for &(name, start, library) in SANITIZERS {
        if links(&format!("lib{library}.")) || links(&format!("libclang_rt.{library}-")) {
            return Brings::SanitizerLinked(name);
        }
        if defines(start) {
            return Brings::SanitizerInside(name);
        }
    }
    for signature in KNOWN {
        if links(signature.library) {
            return Brings::Linked(signature.name);
        }
        if signature.functions.iter().any(|function| defines(function))
            || signature.message.is_some_and(says)
        {
            return Brings::Inside(signature.name);
        }
    }
    if elf.exported.iter().any(|name| name == "malloc") {
        return Brings::Malloc;
    }
    Brings::Nothing
}

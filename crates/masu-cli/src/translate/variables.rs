//! The options in an environment variable: a list in `MALLOC_CONF` and `GLIBC_TUNABLES`, one in each of the others,
//! libraries in `LD_PRELOAD`.

use super::table::{self, Family, Meaning};
use crate::near;

/// A variable of another allocator.
pub struct Variable {
    /// The allocator's name.
    pub of: &'static str,
    /// Its options as written, with the equivalent of each.
    pub options: Vec<(String, Meaning)>,
}

/// The known forms of names, for people.
pub const FORMS: &str = "MALLOC_CONF (with jemalloc's prefixes), MIMALLOC_…, TCMALLOC_…, MALLOC_ARENA_MAX and \
                         glibc's others, GLIBC_TUNABLES, LD_PRELOAD";

/// jemalloc's variable, including its names in builds with a prefix.
const LISTS: [&str; 4] = ["MALLOC_CONF", "_RJEM_MALLOC_CONF", "JE_MALLOC_CONF", "JEMALLOC_CONF"];

/// Prefixes of gperftools' variables without its name.
const BARE: [&str; 5] = ["HEAPPROFILE", "HEAPCHECK", "HEAP_PROFILE_", "HEAP_CHECK_", "MALLOCSTATS"];

/// masu's library, as the dynamic loader finds it.
pub const LIBRARY: &str = "libmasu.so.0";

/// What the libraries of other allocators are called.
const LIBRARIES: [&str; 8] = [
    "libjemalloc",
    "libmimalloc",
    "libtcmalloc",
    "libhardened_malloc",
    "libsnmalloc",
    "librpmalloc",
    "libtbbmalloc_proxy",
    "libscudo",
];

impl Variable {
    /// Reads the variable `name` with this value; `None` if it is not an allocator's.
    pub fn read(name: &str, value: &str) -> Option<Self> {
        let list = |of, family, separator, between: &'static str| {
            let items = value.split(separator).filter(|item| !item.trim().is_empty());
            let option = |item: &str| {
                let (key, value) = item.split_once(between).unwrap_or((item, ""));
                (item.trim().to_owned(), table::meaning(family, key.trim(), value.trim()))
            };
            Some(Self { of, options: items.map(option).collect() })
        };
        let single = |of, family, key: &str, meant: &str| {
            let options = vec![(format!("{name}={value}"), table::meaning(family, key, meant))];
            Some(Self { of, options })
        };
        let upper = name.to_ascii_uppercase();
        match &upper[..] {
            list_name if LISTS.contains(&list_name) => list("jemalloc", Family::Jemalloc, ',', ":"),
            "GLIBC_TUNABLES" => {
                // Tunables of other parts of glibc do not concern malloc.
                let mut all = list("glibc", Family::Tunable, ':', "=")?;
                all.options.retain(|(item, _)| {
                    item.starts_with("glibc.malloc.") || item.starts_with("glibc.mem.")
                });
                Some(all)
            }
            "LD_PRELOAD" => {
                let files = value.split([':', ' ']).filter(|file| !file.is_empty());
                let others: Vec<_> = files.clone().filter(|file| !is_allocator(file)).collect();
                let list = [LIBRARY].into_iter().chain(others).collect::<Vec<_>>().join(":");
                let meaning = || {
                    let pair = ("LD_PRELOAD".to_owned(), list.clone());
                    Meaning::Set(vec![pair], "or `masu run`, which finds the library by itself")
                };
                let found = files.filter(|file| is_allocator(file));
                let options = found.map(|file| (file.to_owned(), meaning())).collect();
                Some(Self { of: "the dynamic loader", options })
            }
            other => match (other.strip_prefix("MIMALLOC_"), other.strip_prefix("TCMALLOC_")) {
                // An empty value is 1 to mimalloc.
                (Some(key), _) if value.is_empty() => {
                    single("mimalloc", Family::Mimalloc, key, "1")
                }
                (Some(key), _) => single("mimalloc", Family::Mimalloc, key, value),
                (_, Some(key)) => single("tcmalloc", Family::Tcmalloc, key, value),
                _ if BARE.iter().any(|begin| other.starts_with(begin))
                    && table::has(Family::Tcmalloc, other) =>
                {
                    single("tcmalloc", Family::Tcmalloc, other, value)
                }
                _ if table::has(Family::Glibc, other) => {
                    single("glibc", Family::Glibc, other, value)
                }
                _ => None,
            },
        }
    }
}

fn is_allocator(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    LIBRARIES.iter().any(|library| name.starts_with(library))
}

/// Whether a variable can have this name.
pub fn is_name(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns the variable that was probably meant.
pub fn near(name: &str) -> Option<&'static str> {
    let fixed = LISTS.into_iter().chain(["GLIBC_TUNABLES", "LD_PRELOAD"]);
    near::to(name, fixed.chain(table::names(Family::Glibc)))
}

//! Every option that is known, and what it is on masu: one row each.

use self::How::{Decay, Kept, Mebibytes, Missing, Nothing, Switch, Words};
use crate::near;

/// Whose options they are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Jemalloc,
    Mimalloc,
    Tcmalloc,
    Glibc,
    /// Items of `GLIBC_TUNABLES`.
    Tunable,
}

/// What an option is here.
#[derive(Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Variables with their values, and a note.
    Set(Vec<(String, String)>, &'static str),
    /// There is nothing to set, for this reason.
    Nothing(&'static str),
    /// It is not there; this is instead.
    Missing(&'static str),
    /// The value has another form: this one.
    BadValue(&'static str),
    /// No such option; perhaps this one.
    Unknown(Option<&'static str>),
}

/// How a value becomes one of masu's.
enum How {
    /// Milliseconds that freed memory stays; -1 for ever.
    Decay,
    /// Yes or no: the key, and its words for the two.
    Switch(&'static str, [&'static str; 2]),
    /// Certain words, each a value of the key, or nothing.
    Words(&'static str, &'static [(&'static str, Option<&'static str>)]),
    /// A number of MiB.
    Mebibytes(&'static str),
    /// masu reads it under its own name.
    Kept,
    Nothing(&'static str),
    Missing(&'static str),
}

const ON: [&str; 2] = ["on", "off"];
const ONE: [&str; 2] = ["1", "0"];

const POOL: &str = "memory comes from one pool, and what one thread frees serves all";
const CACHES: &str = "caches follow what a thread does; MASU_RUN_CACHE bounds what it keeps of blocks of 8 KiB to 1 MiB";
const AT_ONCE: &str = "memory that goes back is gone at once, not lazily";
const BY_TIME: &str = "memory goes back by its age (MASU_DECAY), wherever it lies";
const NO_RESERVE: &str =
    "nothing is reserved ahead; MASU_POPULATE=1 faults memory in when it is taken";
const PROFILE: &str = "`masu prof -- COMMAND` shows who allocates what is in use";
const NO_CHECKS: &str = "a double or invalid free ends the program; for other errors use AddressSanitizer or valgrind, without masu";
const GROWS: &str = "blocks above 1 MiB have pages of their own and grow without being copied";
const ONE_THREAD: &str = "there is at most one background thread";
const LAYOUT: &str = "how memory is laid out is not a setting";

/// The rows; a name that ends in `*` stands for all that begin so.
const ROWS: &[(Family, &[&str], How)] = {
    use Family::{Glibc, Jemalloc, Mimalloc, Tcmalloc, Tunable};
    &[
        (Jemalloc, &["dirty_decay_ms"], Decay),
        (Jemalloc, &["muzzy_decay_ms"], Nothing(AT_ONCE)),
        (Jemalloc, &["background_thread"], Switch("BACKGROUND_THREAD", ON)),
        (Jemalloc, &["max_background_threads"], Nothing(ONE_THREAD)),
        (Jemalloc, &["stats_print"], Switch("SHOW_STATS", ONE)),
        (
            Jemalloc,
            &["stats_print_opts", "stats_interval", "stats_interval_opts"],
            Missing(
                "MASU_SHOW_STATS=json and MASU_STATS_FILE say how and where statistics go, at exit",
            ),
        ),
        (Jemalloc, &["confirm_conf"], Switch("VERBOSE", ONE)),
        (Jemalloc, &["experimental_infallible_new"], Kept),
        (
            Jemalloc,
            &["narenas", "percpu_arena", "oversize_threshold", "narenas_ratio"],
            Nothing(POOL),
        ),
        (Jemalloc, &["tcache", "tcache_max", "lg_tcache_*", "tcache_*"], Nothing(CACHES)),
        (
            Jemalloc,
            &["thp"],
            Words(
                "HUGE_PAGES",
                &[("always", Some("on")), ("never", Some("off")), ("default", None)],
            ),
        ),
        (
            Jemalloc,
            &["metadata_thp", "hpa", "hpa_*"],
            Nothing("huge pages are used where a program fills them; MASU_HUGE_PAGES=off is never"),
        ),
        (
            Jemalloc,
            &[
                "retain",
                "dss",
                "lg_extent_max_active_fit",
                "cache_oblivious",
                "slab_sizes",
                "bin_shards",
                "mutex_max_spin",
                "trust_madvise",
                "lg_chunk",
                "calloc_madvise_threshold",
                "remote_*",
                "disable_large_size_classes",
            ],
            Nothing(LAYOUT),
        ),
        (Jemalloc, &["prof", "prof_active", "prof_final", "prof_prefix", "lg_prof_sample"], Kept),
        (Jemalloc, &["prof_*", "lg_prof_*"], Missing(PROFILE)),
        (
            Jemalloc,
            &["junk", "zero", "san_*", "lg_san_*", "redzone", "quarantine"],
            Missing(NO_CHECKS),
        ),
        (
            Jemalloc,
            &[
                "abort",
                "abort_conf",
                "xmalloc",
                "utrace",
                "zero_realloc",
                "debug_double_free_max_scan",
            ],
            Missing(
                "a mistake ends the program with one line on stderr (MASU_ON_ERROR=report goes on), and a malloc without memory returns null",
            ),
        ),
        (Mimalloc, &["SHOW_STATS"], Switch("SHOW_STATS", ONE)),
        (Mimalloc, &["SHOW_ERRORS"], Switch("SHOW_ERRORS", ONE)),
        (Mimalloc, &["VERBOSE"], Switch("VERBOSE", ONE)),
        (Mimalloc, &["PURGE_DELAY", "RESET_DELAY"], Decay),
        (Mimalloc, &["PURGE_DECOMMITS", "RESET_DECOMMITS"], Nothing(AT_ONCE)),
        (
            Mimalloc,
            &[
                "PURGE_EXTEND_DELAY",
                "ARENA_PURGE_MULT",
                "ABANDONED_PAGE_PURGE",
                "ABANDONED_PAGE_RESET",
                "PAGE_RESET",
                "SEGMENT_RESET",
            ],
            Nothing(BY_TIME),
        ),
        (
            Mimalloc,
            &["ALLOW_LARGE_OS_PAGES", "LARGE_OS_PAGES", "ALLOW_THP"],
            Switch("HUGE_PAGES", ON),
        ),
        (
            Mimalloc,
            &[
                "RESERVE_*",
                "EAGER_*",
                "ARENA_EAGER_COMMIT",
                "ARENA_RESERVE",
                "DISALLOW_*",
                "LIMIT_OS_ALLOC",
                "MINIMAL_PURGE_SIZE",
            ],
            Nothing(NO_RESERVE),
        ),
        (Mimalloc, &["MAX_ERRORS", "MAX_WARNINGS"], Nothing("each mistake is told once")),
        (Mimalloc, &["GUARDED_*"], Missing(NO_CHECKS)),
        (
            Mimalloc,
            &[
                "USE_NUMA_NODES",
                "DESTROY_ON_EXIT",
                "OS_TAG",
                "VISIT_ABANDONED",
                "MAX_SEGMENT_RECLAIM",
                "ABANDONED_RECLAIM_ON_FREE",
                "TARGET_SEGMENTS_PER_THREAD",
                "GENERIC_COLLECT",
                "RETRY_ON_OOM",
                "PAGE_*",
                "ARENA_*",
                "RECLAIM_*",
            ],
            Nothing(LAYOUT),
        ),
        (Tcmalloc, &["HEAP_LIMIT_MB"], Mebibytes("LIMIT_HARD")),
        (
            Tcmalloc,
            &["RELEASE_RATE"],
            Words("DECAY", &[("0", Some("never")), ("0.0", Some("never")), ("*", None)]),
        ),
        (
            Tcmalloc,
            &["AGGRESSIVE_DECOMMIT"],
            Words(
                "DECAY",
                &[
                    ("true", Some("0")),
                    ("t", Some("0")),
                    ("1", Some("0")),
                    ("yes", Some("0")),
                    ("*", None),
                ],
            ),
        ),
        (
            Tcmalloc,
            &["DISABLE_MEMORY_RELEASE"],
            Words(
                "DECAY",
                &[
                    ("true", Some("never")),
                    ("t", Some("never")),
                    ("1", Some("never")),
                    ("yes", Some("never")),
                    ("*", None),
                ],
            ),
        ),
        (
            Tcmalloc,
            &[
                "MAX_TOTAL_THREAD_CACHE_BYTES",
                "MAX_PER_CPU_CACHE_SIZE",
                "PER_THREAD_CACHE*",
                "TRANSFER_NUM_OBJ",
                "PERCPU*",
            ],
            Nothing(CACHES),
        ),
        (
            Tcmalloc,
            &[
                "SKIP_MMAP",
                "SKIP_SBRK",
                "DEVMEM_*",
                "MEMFS_*",
                "ENABLE_SIZED_DELETE",
                "MAX_FREE_QUEUE_SIZE",
                "RECLAIM_MEMORY",
            ],
            Nothing(LAYOUT),
        ),
        (
            Tcmalloc,
            &[
                "SAMPLE_PARAMETER",
                "HEAPPROFILE",
                "HEAP_PROFILE_*",
                "HEAPCHECK",
                "HEAP_CHECK_*",
                "LARGE_ALLOC_REPORT_THRESHOLD",
            ],
            Missing(PROFILE),
        ),
        (Tcmalloc, &["PAGE_FENCE*", "PAGEFENCE*"], Missing(NO_CHECKS)),
        (Glibc, &["MALLOC_ARENA_MAX", "MALLOC_ARENA_TEST"], Nothing(POOL)),
        (Glibc, &["MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_"], Nothing(BY_TIME)),
        (Glibc, &["MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_"], Nothing(GROWS)),
        (Glibc, &["MALLOC_TCACHE_COUNT"], Nothing(CACHES)),
        (Glibc, &["MALLOC_PERTURB_", "MALLOC_CHECK_", "MALLOC_TRACE"], Missing(NO_CHECKS)),
        (Tunable, &["glibc.malloc.arena_max", "glibc.malloc.arena_test"], Nothing(POOL)),
        (Tunable, &["glibc.malloc.trim_threshold", "glibc.malloc.top_pad"], Nothing(BY_TIME)),
        (Tunable, &["glibc.malloc.mmap_threshold", "glibc.malloc.mmap_max"], Nothing(GROWS)),
        (Tunable, &["glibc.malloc.tcache_*", "glibc.malloc.mxfast"], Nothing(CACHES)),
        (
            Tunable,
            &["glibc.malloc.hugetlb"],
            Words("HUGE_PAGES", &[("0", None), ("1", Some("on")), ("2", Some("on"))]),
        ),
        (
            Tunable,
            &["glibc.malloc.check", "glibc.malloc.perturb", "glibc.mem.tagging"],
            Missing(NO_CHECKS),
        ),
    ]
};

/// The row of an option.
fn row(family: Family, key: &str) -> Option<&'static How> {
    let fits = |name: &&str| match name.strip_suffix('*') {
        Some(begin) => key.starts_with(begin),
        None => key == *name,
    };
    ROWS.iter()
        .find(|(of, names, _)| *of == family && names.iter().any(&fits))
        .map(|(_, _, how)| how)
}

/// Whether there is such an option.
pub fn has(family: Family, key: &str) -> bool {
    row(family, key).is_some()
}

/// The names of all options.
pub fn names(family: Family) -> impl Iterator<Item = &'static str> {
    let rows = ROWS.iter().filter(move |(of, ..)| *of == family);
    rows.flat_map(|(_, names, _)| names.iter().copied()).filter(|name| !name.ends_with('*'))
}

/// What the option `key` with this value is here.
pub fn meaning(family: Family, key: &str, value: &str) -> Meaning {
    let set =
        |key: &str, value: &str| Meaning::Set(vec![(format!("MASU_{key}"), value.to_owned())], "");
    let Some(how) = row(family, key) else {
        return Meaning::Unknown(near::to(key, names(family)));
    };
    match how {
        Decay => match value.parse::<i64>() {
            Ok(-1) => set("DECAY", "never"),
            Ok(0) => set("DECAY", "0"),
            Ok(ms) if ms > 0 && ms % 1000 == 0 => set("DECAY", &format!("{}s", ms / 1000)),
            Ok(ms) if ms > 0 => set("DECAY", &format!("{ms}ms")),
            _ => Meaning::BadValue("milliseconds, or -1 for never"),
        },
        Switch(key, [on, off]) => match &value.to_ascii_lowercase()[..] {
            "true" | "1" | "yes" | "on" | "2" => set(key, on),
            "false" | "0" | "no" | "off" => set(key, off),
            _ => Meaning::BadValue("true or false"),
        },
        Words(key, words) => match words.iter().find(|(word, _)| *word == value || *word == "*") {
            Some((_, Some(own))) => set(key, own),
            Some((_, None)) => Meaning::Nothing("it is as masu is by itself"),
            None => Meaning::BadValue("another value"),
        },
        Mebibytes(key) => match value.parse::<u64>() {
            Ok(0) => Meaning::Nothing("0 is no limit, as on masu"),
            Ok(number) => set(key, &format!("{number}MiB")),
            Err(_) => Meaning::BadValue("a number of MiB"),
        },
        Kept => {
            let pair = ("MALLOC_CONF".to_owned(), format!("{key}:{value}"));
            Meaning::Set(vec![pair], "masu reads it under this name")
        }
        Nothing(why) => Meaning::Nothing(why),
        Missing(what) => Meaning::Missing(what),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn set(name: &str, value: &str) -> Meaning {
        Meaning::Set(vec![(name.into(), value.into())], "")
    }

    #[test]
    fn values_become_masus() {
        for (family, key, value, expected) in [
            (Family::Jemalloc, "dirty_decay_ms", "2000", set("MASU_DECAY", "2s")),
            (Family::Jemalloc, "dirty_decay_ms", "1500", set("MASU_DECAY", "1500ms")),
            (Family::Jemalloc, "dirty_decay_ms", "-1", set("MASU_DECAY", "never")),
            (
                Family::Jemalloc,
                "dirty_decay_ms",
                "soon",
                Meaning::BadValue("milliseconds, or -1 for never"),
            ),
            (Family::Jemalloc, "background_thread", "false", set("MASU_BACKGROUND_THREAD", "off")),
            (Family::Jemalloc, "thp", "never", set("MASU_HUGE_PAGES", "off")),
            (
                Family::Jemalloc,
                "lg_prof_sample",
                "17",
                Meaning::Set(
                    vec![("MALLOC_CONF".into(), "lg_prof_sample:17".into())],
                    "masu reads it under this name",
                ),
            ),
            (Family::Jemalloc, "prof_leak", "true", Meaning::Missing(PROFILE)),
            (Family::Jemalloc, "narena", "2", Meaning::Unknown(Some("narenas"))),
            (Family::Mimalloc, "PURGE_DELAY", "0", set("MASU_DECAY", "0")),
            (Family::Tcmalloc, "HEAP_LIMIT_MB", "512", set("MASU_LIMIT_HARD", "512MiB")),
            (
                Family::Tcmalloc,
                "RELEASE_RATE",
                "10",
                Meaning::Nothing("it is as masu is by itself"),
            ),
            (Family::Tunable, "glibc.malloc.hugetlb", "1", set("MASU_HUGE_PAGES", "on")),
        ] {
            assert_eq!(meaning(family, key, value), expected, "{key}:{value}");
        }
    }

    /// Whatever a row can come to, the engine takes.
    #[test]
    fn the_engine_takes_what_is_to_be_set() {
        let mut lists = BTreeSet::new();
        for (family, names, how) in ROWS {
            let values: Vec<&str> = match how {
                Decay => vec!["-1", "0", "1", "2000"],
                Switch(..) => vec!["1", "0"],
                Words(_, words) => words.iter().map(|(word, _)| *word).collect(),
                Mebibytes(_) => vec!["5"],
                Kept | Nothing(_) | Missing(_) => continue,
            };
            for value in values {
                if let Meaning::Set(settings, _) = meaning(*family, names[0], value) {
                    lists.extend(settings.iter().map(|(name, value)| {
                        format!("{}:{value}", name.strip_prefix("MASU_").expect("masu's"))
                    }));
                }
            }
        }
        assert!(lists.len() > 8, "{lists:?}");
        for list in lists {
            assert_eq!(crate::conf::mistakes(&list).expect("a list"), [""; 0], "{list}");
        }
    }

    /// No name is in two rows of its allocator.
    #[test]
    fn rows_are_apart() {
        for (index, (family, names, _)) in ROWS.iter().enumerate() {
            for name in names.iter().filter(|name| !name.ends_with('*')) {
                let first = ROWS.iter().position(|(of, names, _)| {
                    let fits = |other: &&str| {
                        other.strip_suffix('*').is_some_and(|begin| name.starts_with(begin))
                            || other == name
                    };
                    of == family && names.iter().any(fits)
                });
                assert_eq!(first, Some(index), "{name}");
            }
        }
    }
}

//! Every known option and its equivalent in masu, one row each.

use self::How::{Decay, If, Kept, Mebibytes, Missing, Nothing, Prefix, Share, Switch, Words};
use crate::near;

/// The allocator that an option belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Jemalloc,
    Mimalloc,
    Tcmalloc,
    Glibc,
    /// Items of `GLIBC_TUNABLES`.
    Tunable,
}

/// The equivalent of an option in masu.
#[derive(Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Variables with their values, and a note.
    Set(Vec<(String, String)>, &'static str),
    /// There is nothing to set, for this reason.
    Nothing(&'static str),
    /// masu does not have it; this is the alternative.
    Missing(&'static str),
    /// The value must have this form.
    BadValue(String),
    /// No such option; perhaps this one was meant.
    Unknown(Option<&'static str>),
}

/// How a value becomes one of masu's.
enum How {
    /// Milliseconds that freed memory stays; -1 means for ever.
    Decay,
    /// Yes or no: the key, and its words for the two.
    Switch(&'static str, [&'static str; 2]),
    /// Certain words, each a value of the key, perhaps `: ` and a note, or nothing.
    Words(&'static str, &'static [(&'static str, Option<&'static str>)]),
    /// If it means yes, the key has this value.
    If(&'static str, &'static str),
    /// One in N; 0 means none.
    Share(&'static str),
    /// A number of MiB.
    Mebibytes(&'static str),
    /// The prefix of file names.
    Prefix(&'static str),
    /// masu reads it under its own name.
    Kept,
    Nothing(&'static str),
    Missing(&'static str),
}

const MOST_MIB: u64 = u64::MAX >> 20;
const ON: [&str; 2] = ["on", "off"];
const ONE: [&str; 2] = ["1", "0"];

const POOL: &str = "memory comes from one pool, and what one thread frees serves all threads";
const CACHES: &str =
    "caches adapt to each thread; MASU_RUN_CACHE bounds those of blocks of 16 KiB to 1 MiB";
const AT_ONCE: &str = "memory is returned at once, not lazily";
const BY_TIME: &str = "memory is returned by its age (MASU_DECAY), wherever it lies";
const NO_RESERVE: &str =
    "nothing is reserved ahead; MASU_POPULATE=1 faults memory in when it is taken";
const PROFILE: &str = "`masu prof -- COMMAND` shows which code allocates the memory in use";
const LEAKS: &str =
    "`masu prof --leaks -- COMMAND` lists what is in use at the end, and can fail a test";
const CHECKS: &str = "a double free is usually found until the block is handed out again, and a free inside a block \
                      always; MASU_POLICY=debug finds overflows and uses after free, MASU_POLICY=hardened also \
                      zeroes blocks";
const STACKS: &str = "stacks are taken from unwinding tables";
const GROWS: &str = "blocks above 1 MiB have pages of their own and grow without being copied";
const ONE_THREAD: &str = "there is at most one background thread";
const LAYOUT: &str = "the layout of memory cannot be set";
const HUGE: &str = "huge pages are used where a program fills them; MASU_HUGE_PAGES=off uses none";
const HUGETLB: &str = "on: hugetlbfs has no counterpart; transparent huge pages are the nearest";

/// The rows; a name that ends in `*` matches as a prefix.
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
                "MASU_SHOW_STATS=json and MASU_STATS_FILE set the format and the file of statistics at exit",
            ),
        ),
        (Jemalloc, &["confirm_conf"], Switch("VERBOSE", ONE)),
        (Jemalloc, &["experimental_infallible_new"], Kept),
        (
            Jemalloc,
            &["narenas", "percpu_arena", "oversize_threshold", "narenas_ratio"],
            Nothing(POOL),
        ),
        (
            Jemalloc,
            &["tcache", "tcache_max", "lg_tcache_*", "tcache_*", "experimental_tcache_gc"],
            Nothing(CACHES),
        ),
        // Before version 5.
        (Jemalloc, &["lg_dirty_mult", "decay_time", "purge"], Nothing(BY_TIME)),
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
            &[
                "metadata_thp",
                "hpa",
                "hpa_*",
                "experimental_hpa_*",
                "huge_arena_pac_thp",
                "background_thread_hpa_*",
            ],
            Nothing(HUGE),
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
                "bin_info_*",
                "disable_large_size_classes",
                "limit_usize_gap",
                "process_madvise_max_batch",
                "experimental_pac_*",
            ],
            Nothing(LAYOUT),
        ),
        (Jemalloc, &["prof", "prof_active", "prof_final", "prof_prefix", "lg_prof_sample"], Kept),
        (Jemalloc, &["prof_leak", "prof_leak_error", "prof_gdump", "lg_prof_interval"], Kept),
        (Jemalloc, &["prof_thread_active_init"], Kept),
        (Jemalloc, &["prof_accum"], Nothing("dumps always have what was allocated in all")),
        (Jemalloc, &["prof_*", "lg_prof_*"], Missing(PROFILE)),
        (
            Jemalloc,
            &["junk", "zero", "san_*", "lg_san_*", "redzone", "quarantine", "valgrind"],
            Missing(CHECKS),
        ),
        (
            Jemalloc,
            &[
                "abort",
                "abort_conf",
                "xmalloc",
                "utrace",
                "log",
                "zero_realloc",
                "debug_double_free_max_scan",
            ],
            Missing(
                "a mistake ends the program with one line on stderr (MASU_ON_ERROR=report continues), and malloc \
                 returns null when memory is out",
            ),
        ),
        (Mimalloc, &["SHOW_STATS"], Switch("SHOW_STATS", ONE)),
        (Mimalloc, &["SHOW_ERRORS"], Switch("SHOW_ERRORS", ONE)),
        (Mimalloc, &["VERBOSE"], Switch("VERBOSE", ONE)),
        (Mimalloc, &["PURGE_DELAY", "RESET_DELAY"], Decay),
        (Mimalloc, &["PURGE_DECOMMITS", "RESET_DECOMMITS", "ALLOW_DECOMMIT"], Nothing(AT_ONCE)),
        (
            Mimalloc,
            &[
                "PURGE_EXTEND_DELAY",
                "DECOMMIT_EXTEND_DELAY",
                "DECOMMIT_DELAY",
                "SEGMENT_DECOMMIT_DELAY",
                "ARENA_PURGE_*",
                "ARENA_RESET_DELAY",
                "MINIMAL_PURGE_SIZE",
                "ABANDONED_PAGE_*",
                "PAGE_RESET",
                "SEGMENT_RESET",
                "CACHE_RESET",
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
                "PAGEMAP_COMMIT",
            ],
            Nothing(NO_RESERVE),
        ),
        (Mimalloc, &["MAX_ERRORS", "MAX_WARNINGS"], Nothing("each mistake is reported once")),
        (Mimalloc, &["GUARDED_SAMPLE_RATE"], Share("GUARD")),
        (
            Mimalloc,
            &["GUARDED_*", "UNSAFE_GUARDED_*"],
            Nothing("guarded blocks are chosen among all small ones, with a guard at either end"),
        ),
        (Mimalloc, &["PROFILE_*"], Missing(PROFILE)),
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
                "MAX_VABITS",
                "SEGMENT_CACHE",
                "STATS_MERGE_*",
                "PAGE_*",
                "ARENA_*",
            ],
            Nothing(LAYOUT),
        ),
        (Tcmalloc, &["HEAP_LIMIT_MB"], Mebibytes("LIMIT_HARD")),
        (
            Tcmalloc,
            &["RELEASE_RATE"],
            Words("DECAY", &[("0", Some("never")), ("0.0", Some("never")), ("*", None)]),
        ),
        (Tcmalloc, &["AGGRESSIVE_DECOMMIT"], If("DECAY", "0")),
        (Tcmalloc, &["DISABLE_MEMORY_RELEASE"], If("DECAY", "never")),
        (Tcmalloc, &["DISABLE_MADV_HUGEPAGE"], If("HUGE_PAGES", "off")),
        (Tcmalloc, &["HPAA_CONTROL", "USERMODE_HUGEPAGE_COLLAPSE"], Nothing(HUGE)),
        (Tcmalloc, &["MALLOCSTATS"], Switch("SHOW_STATS", ONE)),
        (
            Tcmalloc,
            &["MAX_TOTAL_THREAD_CACHE_BYTES", "MAX_PER_CPU_CACHE_SIZE", "TRANSFER_NUM_OBJ"],
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
                "HUGETLB_MMAP_*",
                "COARSE_LFR_TRACKERS",
                "LEGACY_SIZE_CLASSES",
                "NUMA_AWARE",
                "USE_HUGE_REGION_MORE_OFTEN_DISABLE",
            ],
            Nothing(LAYOUT),
        ),
        (Tcmalloc, &["STACKTRACE_METHOD*", "SYMBOLIZE_STACKTRACE"], Nothing(STACKS)),
        (Tcmalloc, &["HEAPPROFILE"], Prefix("PROF_FILE")),
        (Tcmalloc, &["HEAPCHECK", "HEAP_CHECK_*"], Missing(LEAKS)),
        (
            Tcmalloc,
            &[
                "SAMPLE_PARAMETER",
                "HEAPPROFILESIGNAL",
                "HEAP_PROFILE_*",
                "LARGE_ALLOC_REPORT_THRESHOLD",
                "TRACE",
                "TRACE_FILE",
            ],
            Missing(PROFILE),
        ),
        (Tcmalloc, &["PAGE_FENCE"], If("POLICY", "debug")),
        (
            Tcmalloc,
            &["PAGE_FENCE_*", "MAX_FREE_QUEUE_SIZE", "RECLAIM_MEMORY"],
            Nothing(
                "MASU_POLICY=debug, MASU_GUARD_SLOTS and MASU_QUARANTINE_QUEUE set what is checked and for how long",
            ),
        ),
        (Glibc, &["MALLOC_ARENA_MAX", "MALLOC_ARENA_TEST"], Nothing(POOL)),
        (Glibc, &["MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_"], Nothing(BY_TIME)),
        (Glibc, &["MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_"], Nothing(GROWS)),
        (Glibc, &["MALLOC_PERTURB_", "MALLOC_CHECK_"], Missing(CHECKS)),
        (Glibc, &["MALLOC_TRACE"], Missing(LEAKS)),
        (Tunable, &["glibc.malloc.arena_max", "glibc.malloc.arena_test"], Nothing(POOL)),
        (Tunable, &["glibc.malloc.trim_threshold", "glibc.malloc.top_pad"], Nothing(BY_TIME)),
        (Tunable, &["glibc.malloc.mmap_threshold", "glibc.malloc.mmap_max"], Nothing(GROWS)),
        (Tunable, &["glibc.malloc.tcache_*", "glibc.malloc.mxfast"], Nothing(CACHES)),
        (
            Tunable,
            &["glibc.malloc.hugetlb"],
            Words("HUGE_PAGES", &[("0", None), ("1", Some("on")), ("2", Some(HUGETLB))]),
        ),
        (
            Tunable,
            &["glibc.malloc.check", "glibc.malloc.perturb", "glibc.mem.tagging"],
            Missing(CHECKS),
        ),
        (
            Tunable,
            &["glibc.mem.decorate_maps"],
            Nothing("`masu explain` says what each of its mappings holds"),
        ),
    ]
};

/// Returns the row of an option.
fn row(family: Family, key: &str) -> Option<&'static How> {
    let fits = |name: &&str| match name.strip_suffix('*') {
        Some(begin) => key.starts_with(begin),
        None => key == *name,
    };
    ROWS.iter()
        .find(|(of, names, _)| *of == family && names.iter().any(&fits))
        .map(|(_, _, how)| how)
}

/// Whether such an option exists.
pub fn has(family: Family, key: &str) -> bool {
    row(family, key).is_some()
}

/// Yields the names of all options.
pub fn names(family: Family) -> impl Iterator<Item = &'static str> {
    let rows = ROWS.iter().filter(move |(of, ..)| *of == family);
    rows.flat_map(|(_, names, _)| names.iter().copied()).filter(|name| !name.ends_with('*'))
}

/// Returns the equivalent of the option `key` with this value.
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
            _ => Meaning::BadValue("milliseconds, or -1 for never".into()),
        },
        Switch(key, [on, off]) => match truth(value) {
            Some(true) => set(key, on),
            Some(false) => set(key, off),
            None => Meaning::BadValue("true or false".into()),
        },
        If(key, own) => match truth(value) {
            Some(true) => set(key, own),
            Some(false) => Meaning::Nothing("masu does that by default"),
            None => Meaning::BadValue("true or false".into()),
        },
        Share(key) => match value.parse::<u32>() {
            Ok(0) => Meaning::Nothing("0 is none, as on masu"),
            Ok(number) => set(key, &format!("1/{number}")),
            Err(_) => Meaning::BadValue("a number N: one block in N".into()),
        },
        Prefix(_) if value.is_empty() => Meaning::BadValue("the beginning of file names".into()),
        Prefix(key) => set(key, &format!("{value}.%p")),
        Words(key, words) => match words.iter().find(|(word, _)| *word == value || *word == "*") {
            Some((_, Some(own))) => match own.split_once(": ") {
                Some((own, note)) => Meaning::Set(vec![(format!("MASU_{key}"), own.into())], note),
                None => set(key, own),
            },
            Some((_, None)) => Meaning::Nothing("masu does that by default"),
            None => Meaning::BadValue(words.iter().map(|w| w.0).collect::<Vec<_>>().join(" or ")),
        },
        Mebibytes(key) => match value.parse::<u64>() {
            Ok(0) => Meaning::Nothing("0 is no limit, as on masu"),
            Ok(number @ ..=MOST_MIB) => set(key, &format!("{number}MiB")),
            _ => Meaning::BadValue("a number of MiB".into()),
        },
        Kept => {
            let pair = ("MALLOC_CONF".to_owned(), format!("{key}:{value}"));
            Meaning::Set(vec![pair], "masu reads it under this name")
        }
        Nothing(why) => Meaning::Nothing(why),
        Missing(what) => Meaning::Missing(what),
    }
}

/// Parses yes or no; a level above 0 means yes.
fn truth(value: &str) -> Option<bool> {
    match &value.to_ascii_lowercase()[..] {
        "true" | "t" | "yes" | "y" | "on" => Some(true),
        "false" | "f" | "no" | "n" | "off" => Some(false),
        number => number.parse::<i32>().ok().map(|number| number > 0),
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
                Meaning::BadValue("milliseconds, or -1 for never".into()),
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
            (Family::Jemalloc, "narena", "2", Meaning::Unknown(Some("narenas"))),
            (Family::Mimalloc, "PURGE_DELAY", "0", set("MASU_DECAY", "0")),
            (Family::Mimalloc, "VERBOSE", "3", set("MASU_VERBOSE", "1")),
            (Family::Mimalloc, "GUARDED_SAMPLE_RATE", "4000", set("MASU_GUARD", "1/4000")),
            (Family::Tcmalloc, "AGGRESSIVE_DECOMMIT", "t", set("MASU_DECAY", "0")),
            (Family::Tcmalloc, "HEAPPROFILE", "/tmp/heap", set("MASU_PROF_FILE", "/tmp/heap.%p")),
            (Family::Tcmalloc, "HEAP_LIMIT_MB", "512", set("MASU_LIMIT_HARD", "512MiB")),
            (Family::Tcmalloc, "RELEASE_RATE", "10", Meaning::Nothing("masu does that by default")),
            (Family::Tunable, "glibc.malloc.hugetlb", "1", set("MASU_HUGE_PAGES", "on")),
        ] {
            assert_eq!(meaning(family, key, value), expected, "{key}:{value}");
        }
    }

    /// The engine accepts every possible result of a row.
    #[test]
    fn the_engine_takes_what_is_to_be_set() {
        let mut lists = BTreeSet::new();
        for (family, names, how) in ROWS {
            let values: Vec<&str> = match how {
                Decay => vec!["-1", "0", "1", "2000"],
                Switch(..) | If(..) | Share(_) => vec!["1", "0"],
                Prefix(_) => vec!["/tmp/heap"],
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

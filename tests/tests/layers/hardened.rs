//! The same inside `hardened`, the hardened heap.

use super::order::Order;

const HARDENED: Order = Order {
    directory: "hardened",
    files: &[
        ("shape", "classes, and where slots lie in a slab"),
        ("random", "what is drawn"),
        ("state", "who has a slot"),
        ("bin", "slots at hand, and freed ones that wait"),
        ("options", "the settings in force"),
        ("slab", "which slots are taken"),
        ("trailer", "the bytes behind a block"),
        ("quarantine", "freed blocks of a pool that wait"),
        ("pool/record", "a pool: its slabs, and what its lock protects"),
        ("cache/record", "a thread's cache: a bin for each class"),
        ("place", "where all of these lie"),
        ("tags", "tags of small blocks"),
        ("pool", "slots drawn and taken back"),
        ("find", "which slot an address leads to"),
        ("around", "what lies next to it"),
        ("seams", "where the mappings of a large block meet"),
        ("entry", "a large block: of those, its guards and its pages"),
        ("filled", "whether such blocks are filled"),
        ("spares", "addresses that they have left"),
        ("table", "all of them"),
        ("freed", "what a free has done"),
        ("large/record", "the table behind its lock"),
        ("large/waiting", "large blocks that wait for the end of a fork"),
        ("moving", "pages that move"),
        ("large", "large blocks made and freed"),
        ("arenas", "which pool serves a thread"),
        ("cache", "slots between threads and pools"),
        ("fast", "the common requests and frees"),
        ("alloc", "all requests"),
        ("start", "the beginning of all that"),
        ("heaps", "pools of first-class heaps"),
        ("left", "blocks that wait for the end of a fork"),
        ("free", "all frees"),
        ("grow", "large blocks that grow"),
        ("block", "a live block measured and resized"),
        ("pools", "all pools: forks, purges, statistics"),
        ("mod", "declares the files, and what others use of them"),
    ],
};

#[test]
fn files_of_the_hardened_heap_use_only_those_above_them() {
    HARDENED.assert_kept();
}

/// The check itself, on code that breaks the rule.
#[test]
fn broken_rules_inside_the_hardened_heap_are_seen() {
    let up = |file: &str, text: &str| HARDENED.arrows_up(file, text).len();
    assert_eq!(up("hardened/table.rs", "use super::large::LIVE;"), 1);
    assert_eq!(up("hardened/place.rs", "use super::{cache::Cache, pool::Pool};"), 2);
    assert_eq!(up("hardened/pool/record.rs", "use super::Locked;"), 1);
    assert_eq!(up("hardened/large/record.rs", "use crate::hardened::left;"), 1);
    assert_eq!(up("hardened/tags.rs", "fn f() { super::cache::serves(1) }"), 1);
    // What others use is not for the files themselves.
    assert_eq!(up("hardened/left.rs", "use super::{Freed, is_there};"), 2);

    assert_eq!(up("hardened/place.rs", "use super::{cache::record::Cache, pool::record};"), 0);
    assert_eq!(up("hardened/large.rs", "mod record; use record::with; pub use super::entry;"), 0);
    assert_eq!(up("hardened/pool/purge.rs", "use super::{Locked, record::Pool};"), 0);
    assert_eq!(up("hardened/mod.rs", "pub use pools::purge; use super::heap;"), 0);
}

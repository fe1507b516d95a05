//! The same inside further directories of the engine: their files have orders, too.

use super::order::Order;

const ORDERS: &[Order] = &[
    Order {
        directory: "config",
        files: &[
            ("words", "lists of names and units"),
            ("number", "numbers with a unit behind"),
            ("origin", "where a value came from"),
            ("policy", "the policies by name"),
            ("kinds", "how a value is read and shown"),
            ("keys", "which keys there are"),
            ("policy_values", "what each policy sets"),
            ("nearest", "the key that was probably meant"),
            ("environment", "from variables to values, and what is wrong with them"),
            ("mod", "what a user can set"),
        ],
    },
    Order {
        directory: "stats",
        files: &[
            ("counters", "what each heap counts"),
            ("figures", "what there is to know in all"),
            ("tables", "looks at every span and every heap"),
            ("recent", "figures that take such a walk"),
            ("snapshot", "all of them, at this moment"),
            ("print", "and as text"),
            ("outlet", "where that goes at exit"),
            ("mod", "counters and statistics"),
        ],
    },
    Order {
        directory: "space",
        files: &[
            ("window", "units: their numbers and addresses"),
            ("record", "what is known of a range of them"),
            ("map", "how they are mapped, and made clean"),
            ("ranges", "which are free"),
            ("locked", "the same under the lock; ranges that are wanted"),
            ("moved", "pages that move from range to range"),
            ("kept", "when pages go back"),
            ("trim", "tables of free chunks"),
            ("chunk", "chunks, for the pool of pages"),
            ("mod", "ranges of units"),
        ],
    },
    Order {
        directory: "span",
        files: &[
            ("block", "a free block, and where it lies in its span"),
            ("emptied", "how many spans have all blocks back from other threads"),
            ("remote", "the word by which blocks come back"),
            ("record", "the owner's line, of lists and that word"),
            ("bound", "which addresses are blocks"),
            ("list", "lists of spans"),
            ("sleepers", "gives back what has come back to sleeping owners"),
            ("purge", "gives back pages of a span"),
            ("abandoned", "spans without an owner"),
            ("pool", "spans that are free"),
            ("mod", "small blocks"),
        ],
    },
    Order {
        directory: "heap/arena",
        files: &[
            ("gate", "who may touch an arena"),
            ("stats", "what an arena reports"),
            ("tally", "what it counts for that"),
            ("hardened/part", "what it has in the hardened heap"),
            ("hooked/hooks", "functions of the program that provide memory"),
            ("hooked/default", "those of the kernel's memory"),
            ("hooked/list", "lists of chunks"),
            ("hooked/span", "spans in a chunk"),
            ("hooked/chunk", "a chunk of hook memory"),
            ("hooked/map", "the chunk at an address"),
            ("hooked/records", "where chunks are described"),
            ("hooked/records_at", "what is where in those, for readers from outside"),
            ("hooked/extent", "chunks that a hook gave as one"),
            ("hooked/request", "what is wanted of chunks"),
            ("hooked/memory", "the chunks of an arena"),
            ("record", "an arena: of all that"),
            ("services", "its functions, by its record"),
            ("table", "all of them, and whose a block is"),
            ("hooked/commit", "pages that must be committed"),
            ("hooked/purge", "hook memory that goes back"),
            ("hooked/resize", "blocks in it that grow and shrink"),
            ("hooked", "blocks in it"),
            ("hardened", "blocks of the hardened heap"),
            ("large", "medium and huge blocks"),
            ("small", "small blocks"),
            ("leave", "frees, and the way out of the gate"),
            ("life", "from making to end"),
            ("scoped", "an arena that a thread allocates from"),
            ("mod", "heaps that a program makes"),
        ],
    },
    Order {
        directory: "outside",
        files: &[
            ("layout", "what is where in tables"),
            ("mod", "where variables are, and the tables' description"),
        ],
    },
];

#[test]
fn files_of_a_directory_use_only_those_above_them() {
    ORDERS.iter().for_each(Order::assert_kept);
}

/// The check itself, on code that breaks the rule.
#[test]
fn broken_rules_inside_a_directory_are_seen() {
    let up = |file: &str, text: &str| {
        let order = ORDERS.iter().find(|order| file.starts_with(order.directory));
        order.expect("a directory with an order").arrows_up(file, text).len()
    };
    assert_eq!(up("space/record.rs", "use super::moved::APART;"), 1);
    assert_eq!(up("space/map.rs", "use super::{kept, record::Record, chunk};"), 2);
    assert_eq!(up("space/map.rs", "fn f() { super::kept::purge(true) }"), 1);
    assert_eq!(up("span/remote.rs", "use crate::span::record::Span;"), 1);
    assert_eq!(up("config/kinds.rs", "use super::policy_values::TABLE;"), 1);
    assert_eq!(up("outside/layout.rs", "use super::VERSION;"), 1);
    assert_eq!(up("heap/arena/tally.rs", "use super::small::Charge;"), 1);
    assert_eq!(up("heap/arena/hooked/list.rs", "use super::chunk::Chunk;"), 1);
    assert_eq!(up("heap/arena/hooked/memory.rs", "use crate::heap::arena::record::Arena;"), 1);
    assert_eq!(up("heap/arena/hardened/part.rs", "use super::super::table;"), 1);
    // What others use is not for the files themselves.
    assert_eq!(up("space/chunk.rs", "use super::Locked;"), 1);
    assert_eq!(up("span/pool.rs", "use crate::span::{Block, record};"), 1);

    assert_eq!(
        up("space/kept.rs", "use super::map::clean; use crate::ledger; fn f() { map::g() }"),
        0
    );
    assert_eq!(up("space/mod.rs", "pub use chunk::Fresh; use super::region;"), 0);
    assert_eq!(up("outside.rs", "pub use layout::Layout; use crate::span::Span;"), 0);
    assert_eq!(up("heap/arena/hooked/mod.rs", "use super::record::Arena; use chunk::Chunk;"), 0);
    assert_eq!(
        up("heap/arena/small.rs", "pub(in crate::heap::arena) fn f() {} use crate::heap::event;"),
        0
    );
    assert_eq!(up("span/record.rs", "//! See [`super::list`].\npub(super) fn f() {}"), 0);
    assert_eq!(
        up("span/record.rs", "fn f() {}\n#[cfg(test)]\nmod tests { use super::super::list; }"),
        0
    );
}

//! The same inside further directories of the engine: their files have orders, too.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use masu_tests::{rust_files, workspace};

use super::paths;

/// The files of a directory in order, each with what it is for: a file may use itself and those above it, never one
/// below. A file belongs to the longest name that its path begins with. `mod` is the directory's own module, which
/// declares the files and says what others use of them. The tests that lie beside the files may use all of them.
struct Order {
    directory: &'static str,
    files: &'static [(&'static str, &'static str)],
}

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
    let root = workspace().join("crates/masu-core/src");
    for order in ORDERS {
        let (mut wrong, mut found) = (Vec::new(), BTreeSet::new());
        let own = root.join(order.directory).with_extension("rs");
        let mut files = rust_files(&root.join(order.directory));
        files.extend(own.is_file().then_some(own));
        for file in files {
            let inside = file.strip_prefix(&root).expect("below the root");
            if inside
                .components()
                .any(|part| part.as_os_str().to_string_lossy().starts_with("tests"))
            {
                continue;
            }
            let rank = order.rank_of(&module_of(inside));
            found.insert(
                rank.map_or_else(|| panic!("{}", inside.display()), |rank| order.files[rank].0),
            );
            wrong.extend(order.arrows_up(inside, &fs::read_to_string(&file).expect("readable")));
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert_eq!(
            found,
            order.files.iter().map(|(name, _)| *name).collect(),
            "{}",
            order.directory
        );
    }
}

/// The check itself, on code that breaks the rule.
#[test]
fn broken_rules_inside_a_directory_are_seen() {
    let up = |file: &str, text: &str| {
        let order = ORDERS.iter().find(|order| file.starts_with(order.directory));
        order.expect("a directory with an order").arrows_up(Path::new(file), text).len()
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

impl Order {
    /// The arrows in `text`, the content of the engine's file `file`, that point to a file of the directory below.
    fn arrows_up(&self, file: &Path, text: &str) -> Vec<String> {
        let own = module_of(file);
        let rank = self.rank_of(&own).expect("a file of the directory");
        // Tests inside a file come last.
        let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let code =
            code.split("\n#[cfg(all(test, not(loom)))]\nmod tests {").next().unwrap_or_default();
        let targets = paths(code).into_iter().filter_map(|path| self.absolute(&own, &path));
        let inside =
            targets.filter(|target| self.inside(target).is_some_and(|rest| !rest.is_empty()));
        inside
            .filter(|target| self.rank_of(target).is_none_or(|below| below > rank))
            .map(|target| format!("{}: may not use {}", file.display(), target.join("::")))
            .collect()
    }

    /// Where a path in a module leads, if it is one to a module of the engine.
    fn absolute(&self, own: &[String], path: &[String]) -> Option<Vec<String>> {
        let supers = path.iter().take_while(|name| *name == "super").count();
        match path[0].as_str() {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([own, &path[1..]].concat()),
            "super" => Some([&own[..own.len().checked_sub(supers)?], &path[supers..]].concat()),
            // A module inside this one, or something that was imported, and was looked at there.
            _ => {
                let target = [own, path].concat();
                let name = self.inside(&[own, &path[..1]].concat())?;
                (path.len() > 1 && self.files.iter().any(|(file, _)| *file == name))
                    .then_some(target)
            }
        }
    }

    /// The place of what a path leads to, or of a module, among the files; `None` if it is in none of them.
    fn rank_of(&self, path: &[String]) -> Option<usize> {
        let inside = self.inside(path)?;
        let inside = if inside.is_empty() { "mod" } else { &inside };
        let files = self.files.iter().enumerate();
        let holding = files.filter(|(_, (name, _))| Path::new(inside).starts_with(name));
        holding.max_by_key(|(_, (name, _))| name.len()).map(|(rank, _)| rank)
    }

    /// The rest of a path that leads to the directory, or into it.
    fn inside(&self, path: &[String]) -> Option<String> {
        let names: Vec<&str> = self.directory.split('/').collect();
        let (start, rest) = path.split_at_checked(names.len())?;
        start.iter().eq(names).then(|| rest.join("/"))
    }
}

/// The module that is in a file, by the file's path below `src`.
fn module_of(file: &Path) -> Vec<String> {
    let name = file.with_extension("");
    let parts = name.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
    parts.filter(|name| name != "mod").collect()
}

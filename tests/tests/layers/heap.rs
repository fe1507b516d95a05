//! The same inside `heap`, the engine's largest layer: its files have an order, too.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use masu_tests::{rust_files, workspace};

use super::paths;

/// The files of `crates/masu-core/src/heap` in order, each with what it is for: a file may use itself and those above
/// it, never one below. A file belongs to the longest name that its path begins with, so a folder is one of them,
/// except for what has a line of its own. The tests that lie beside the files may use all of them.
const FILES: &[(&str, &str)] = &[
    ("account", "what a thread has allocated and freed, in bytes"),
    ("outbox/slot", "the slots of an outbox"),
    ("sampling/gap", "the distance to the next sample"),
    ("sampling/pace", "and how far apart samples are"),
    ("sampling/state", "which makes what a thread is sampled by"),
    ("record", "a heap: of all that, and of bins and lists of spans"),
    ("tls", "the calling thread's"),
    ("table", "all of them"),
    ("mode", "what goes on around one, and what it keeps because of that"),
    ("fast", "the hot paths"),
    ("hardened", "those of a hardened process"),
    ("retain", "which spans a heap keeps"),
    ("sparse", "which pages it gives back of those"),
    ("left", "blocks of a bin that their span remembers"),
    ("bound", "frees of what is no block of its span"),
    ("sampling/bins", "what bins know of samples"),
    ("event", "what a span's countdown means"),
    ("refill", "blocks from a heap's own spans"),
    ("short", "the same where nothing is to be decided"),
    ("shared_arena", "heaps that lend their blocks"),
    ("push", "freed blocks on the way into spans of others"),
    ("processor_cache", "free blocks of a processor"),
    ("outbox", "freed blocks of a thread, until they go out"),
    ("send", "which of these ways a freed block takes"),
    ("bin", "how what is in a bin goes back"),
    ("tick", "what a thread does once a tick"),
    ("scope", "what becomes of bins while allocations come from an arena"),
    ("handover", "what a thread leaves to the next one"),
    ("exit", "the end of a thread"),
    ("fork", "the end of those that a fork's child does not have"),
    ("birth", "the first allocation of a thread"),
    ("processor_cache/alloc", "blocks for those that need no heap"),
    ("source", "which source serves a request"),
    ("flush", "giving back what a thread keeps for its next requests"),
    ("thread_bytes", "the account, kept and settled"),
    ("thread", "what the layers below ask of a thread"),
    ("arena", "heaps that a program makes"),
    ("unowned", "what the purge does about spans without an owner"),
    ("suspect", "frees that look like mistakes"),
    ("free", "frees of other threads' blocks"),
    ("sampling/blocks", "blocks that are samples"),
    ("block", "what a pointer leads to, and its free"),
    ("sampling", "which blocks are samples"),
    ("mod", "declares the files, and what the layers below use of them"),
];

#[test]
fn files_of_the_heap_use_only_those_above_them() {
    let root = workspace().join("crates/masu-core/src");
    let (mut wrong, mut found) = (Vec::new(), BTreeSet::new());
    for file in rust_files(&root.join("heap")) {
        let inside = file.strip_prefix(&root).expect("below the root");
        if inside.components().any(|part| part.as_os_str().to_string_lossy().starts_with("tests")) {
            continue;
        }
        let module = module_of(inside);
        found.insert(rank_of(&module).map_or_else(|| panic!("{module:?}"), |rank| FILES[rank].0));
        wrong.extend(arrows_up(inside, &fs::read_to_string(&file).expect("readable")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(found, FILES.iter().map(|(name, _)| *name).collect());
}

/// The check itself, on code that breaks the rule.
#[test]
fn broken_rules_inside_the_heap_are_seen() {
    let up = |file: &str, text: &str| arrows_up(Path::new(file), text).len();
    assert_eq!(up("heap/refill.rs", "use super::source::alloc_exact;"), 1);
    assert_eq!(up("heap/refill.rs", "use super::{birth, event, shared_arena};"), 2);
    assert_eq!(up("heap/refill.rs", "fn f() { super::fork::adopt() }"), 1);
    assert_eq!(up("heap/refill.rs", "use crate::heap::{tick, record::Heap};"), 1);
    assert_eq!(up("heap/record.rs", "use super::outbox::Outbox;"), 1);
    assert_eq!(up("heap/sampling/state.rs", "use super::bins;"), 1);
    assert_eq!(up("heap/arena/small.rs", "use super::super::block::Block;"), 1);
    assert_eq!(up("heap/processor_cache/magazine.rs", "use super::super::send;"), 1);
    assert_eq!(up("heap/processor_cache.rs", "mod alloc; fn f() { alloc::alloc(1) }"), 1);
    // What the layers below use is not for the files themselves.
    assert_eq!(up("heap/source.rs", "use super::Heap;"), 1);
    assert_eq!(up("heap/source.rs", "use crate::heap::{Heap, Role, record};"), 2);

    assert_eq!(up("heap/source.rs", "use super::{refill, fork}; use super::record::Heap;"), 0);
    assert_eq!(up("heap/record.rs", "use super::outbox::slot::Outbox; use crate::run;"), 0);
    assert_eq!(up("heap/arena/small.rs", "use super::Arena; use crate::heap::event;"), 0);
    assert_eq!(up("heap/mod.rs", "pub use block::usable_size; use super::span;"), 0);
    assert_eq!(up("heap/left.rs", "//! See [`super::source`].\npub(in crate::heap) fn f() {}"), 0);
    assert_eq!(up("heap/left.rs", "fn f() {}\n#[cfg(test)]\nmod tests { use super::source; }"), 0);
}

/// The arrows in `text`, the content of the engine's file `file`, that point to a file of the heap below.
fn arrows_up(file: &Path, text: &str) -> Vec<String> {
    let own = module_of(file);
    let rank = rank_of(&own).expect("a file of the heap");
    // Tests inside a file come last.
    let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code = code.split("\n#[cfg(all(test, not(loom)))]\nmod tests {").next().unwrap_or_default();
    let targets = paths(code).into_iter().filter_map(|path| absolute(&own, &path));
    let inside = targets.filter(|target| target[0] == "heap" && target.len() > 1);
    inside
        .filter(|target| rank_of(target).is_none_or(|below| below > rank))
        .map(|target| format!("{}: may not use {}", file.display(), target.join("::")))
        .collect()
}

/// The module that is in a file, by the file's path below `src`.
fn module_of(file: &Path) -> Vec<String> {
    let name = file.with_extension("");
    let parts = name.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
    let mut module: Vec<String> = parts.collect();
    if module.len() > 2 && module.last().is_some_and(|name| name == "mod") {
        module.pop();
    }
    module
}

/// Where a path in a module leads, if it is one to a module of the engine.
fn absolute(own: &[String], path: &[String]) -> Option<Vec<String>> {
    let own = if own == ["heap", "mod"] { &own[..1] } else { own };
    let supers = path.iter().take_while(|name| *name == "super").count();
    let (base, rest) = match path[0].as_str() {
        "crate" => (&own[..0], &path[1..]),
        "self" => (own, &path[1..]),
        "super" => (&own[..own.len().checked_sub(supers)?], &path[supers..]),
        // A module inside this one, or something that was imported, and was looked at there.
        _ => {
            let name = [own, &path[..1]].concat()[1..].join("/");
            let is_module = path.len() > 1 && FILES.iter().any(|(file, _)| *file == name);
            return is_module.then(|| [own, path].concat());
        }
    };
    let is_path = rest.iter().any(|name| name != "self");
    is_path.then(|| [base, rest].concat())
}

/// The place of what a path leads to, or of a module, among the files of the heap; `None` if it is in none of them.
fn rank_of(path: &[String]) -> Option<usize> {
    let inside = path[1..].join("/");
    let is_in = |name: &str| Path::new(&inside).starts_with(name);
    let files = FILES.iter().enumerate().filter(|(_, (name, _))| is_in(name));
    files.max_by_key(|(_, (name, _))| name.len()).map(|(rank, _)| rank)
}

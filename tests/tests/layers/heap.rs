//! The same inside `heap`, the engine's largest layer.

use super::order::Order;

const HEAP: Order = Order {
    directory: "heap",
    files: &[
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
        ("pending", "blocks that others have not taken, before memory grows"),
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
    ],
};

#[test]
fn files_of_the_heap_use_only_those_above_them() {
    HEAP.assert_kept();
}

/// The check itself, on code that breaks the rule.
#[test]
fn broken_rules_inside_the_heap_are_seen() {
    let up = |file: &str, text: &str| HEAP.arrows_up(file, text).len();
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

//! Model checks: the concurrent protocols under `loom`, which runs a small program in every interleaving that the
//! memory model allows and fails on the first that breaks an assertion, has a data race or ends in a deadlock.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test -p masu-core --release --lib models
//! ```
//!
//! Under `--cfg loom` the crate consists of the modules that take part in a protocol, as they are in
//! production, on top of a world ([`world`]) that models memory, the kernel and a thread's local words.
//! Each file here begins with the state machine that it checks. `tests/plant-bugs` brings back one bug after another
//! and checks that the named check fails. `MASU_TEST_LONG=1` takes minutes more, for more preemptions in four of them.
//!
//! | file | code under check |
//! |---|---|
//! | [`remote_word`] | `span/remote.rs` |
//! | [`abandoned`] | `span/abandoned.rs`, `span/list.rs`, `span/record.rs` |
//! | [`thread_exit`] | `heap/{exit,bin,left,push,send,free,source,refill,event,fast}.rs` on top of those |
//! | [`outbox`] | `heap/outbox.rs`, on top of those and of `handshake.rs` |
//! | [`handover`] | `heap/handover.rs`, `heap/table.rs`, on top of those |
//! | [`processor_cache`] | `heap/processor_cache{,/alloc}.rs` on top of those, of the shared arena and of `lock/brief.rs` |
//! | [`shared_arena`] | `heap/shared_arena.rs`, `heap/{source,send,unowned}.rs`, on top of those |
//! | [`table`] | `heap/table.rs` |
//! | [`fork`] | `fork.rs`, `heap/fork.rs`, `lock.rs`, on top of all of those |
//! | [`pages`] | `run/{pool,purge,chunk,chunk_set}.rs` |
//! | [`shards`] | `run/{shard,steal}.rs` on top of those |
//! | [`cache`] | `run/cache.rs` on top of those and of `handshake.rs` |
//! | [`gate`] | `heap/arena/gate.rs` on top of `lock.rs` |
//! | [`guard`] | `guard/state.rs` |
//! | [`hardened`] | `hardened/{bin,state}.rs` on top of `lock.rs` |
//! | [`handshake`] | `handshake.rs` |
//! | [`lock`] | `lock.rs`, `lock/brief.rs` |
//! | [`heads`] | `prof/heads.rs` |
//! | [`switch`] | `prof/switch.rs` |
//! | [`turn`] | `turn.rs` |

pub mod world;

#[cfg(test)]
mod abandoned;
#[cfg(test)]
mod cache;
#[cfg(test)]
mod fork;
#[cfg(test)]
mod gate;
#[cfg(test)]
mod guard;
#[cfg(test)]
mod handover;
#[cfg(test)]
mod handshake;
#[cfg(test)]
mod hardened;
#[cfg(test)]
mod heads;
#[cfg(test)]
mod lock;
#[cfg(test)]
mod outbox;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod processor_cache;
#[cfg(test)]
mod remote_word;
#[cfg(test)]
mod shards;
#[cfg(test)]
mod shared_arena;
#[cfg(test)]
mod switch;
#[cfg(test)]
mod table;
#[cfg(test)]
mod thread_exit;
#[cfg(test)]
mod turn;

/// The size of blocks of a class with [`PER_SPAN`] in a span, two freed ones of which make the freeing thread claim it.
/// (Blocks of a page are of the class above, which has fewer.)
#[cfg(test)]
const SIZE: usize = 4000;
#[cfg(test)]
const PER_SPAN: usize = 16;

#[test]
fn a_span_has_as_many_blocks_as_the_models_think() {
    let class = crate::size_class::class_of(SIZE);
    assert_eq!(crate::span::capacity(class) as usize, PER_SPAN);
    assert_eq!(crate::span::threshold(class), 2);
}

/// `usual` preemptions, or `long` ones if minutes may be taken (`MASU_TEST_LONG=1`).
#[cfg(test)]
fn preemptions(usual: usize, long: usize) -> usize {
    if std::env::var_os("MASU_TEST_LONG").is_some_and(|it| it != "0") { long } else { usual }
}

/// Runs `program` in every interleaving with at most `preemptions` preemptions; most bugs need
/// two. A full search of a small program passes `None`.
#[cfg(test)]
fn check(preemptions: impl Into<Option<usize>>, program: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions.into();
    builder.max_branches = 20_000;
    builder.check(program);
}

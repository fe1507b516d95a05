//! A fork: the locks before and after it, and what its child does with heaps whose threads do not exist in it.
//!
//! ```text
//!  parent: at work ──prepare: all locks, in order──▶ forking ──parent: given back──▶ at work
//!  child:                                               └─child: all free─▶ one thread
//!          a heap:  LIVE, another thread's ──▶ ORPHAN ──adopt (cas)──▶ LIVE, no thread's
//!                   a thread inside it, or visiting, is forgotten        │ lists rebuilt, abandoned
//!                                                                        ▼
//!                                                                      FREE
//! ```
//!
//! Invariants: no thread waits for ever, in the parent or in the child, whichever locks other threads hold when a fork
//! begins, the engine's or those that it does not know; meanwhile the thread that forks may allocate and free, and so
//! may threads that have given up waiting, and nothing is lost. In the child each block that was live keeps its
//! contents until it is freed, which works; no live block is handed out; a thread frozen outside the engine loses
//! nothing: when all blocks are freed, every span is in the pool. A thread frozen inside loses what it was handling: a
//! span, and the contents of the outbox that it was using, or blocks of that many spans.
//!
//! How threads are frozen: [`super::world::process`].

use super::world::heap::face::{
    adopt_an_orphan, alloc, begin, exit, free, purge_spans, resume, visit,
};
use super::world::heap::{outbox, shared_arena, table, unowned};
use super::world::process::{self, fork, spawn};
use super::world::{region, settings};
use super::{PER_SPAN, SIZE, check};
use crate::fork::{child, parent, prepare};
use crate::size_class::class_of;
use crate::span::{abandoned, pool};
use loom::sync::{Arc, Mutex};

/// Most spans that a thread frozen inside the engine loses, or loses blocks of: the one that it was handling, and one
/// for each slot of an outbox.
const LOST: usize = 3;

fn start() {
    region::reset();
    settings::set_retain_full(32);
    begin(0);
}

/// A child's work: it uses everything that it was left, and then ends. `inside`: other threads were in the engine when
/// it was forked.
fn inherit(inside: bool) {
    let inherited = region::all_live();
    (0..table::counts().1).for_each(|_| adopt_an_orphan());
    let (live, _) = table::counts();
    assert_eq!(live, 1, "a heap of a thread that does not exist is in use");
    // More than a span, so that the other threads' blocks are used too.
    let mine: Vec<_> = (0..PER_SPAN + 2).map(|_| alloc(SIZE)).collect();
    mine.into_iter().chain(inherited).for_each(free);
    exit();
    visit();
    purge_spans();
    assert_eq!(outbox::total().holders(), 0, "an outbox is said to hold something");
    let lost = pool::in_use();
    assert!(lost <= if inside { LOST } else { 0 }, "{lost} spans are lost");
}

/// The purge takes locks inside locks, other threads take one or two, while a thread forks.
#[test]
fn nobody_waits_for_ever_in_the_parent() {
    check(2, || {
        start();
        let blocks = [alloc(SIZE), alloc(SIZE), alloc(SIZE)];
        exit();
        let purge = spawn(|| {
            purge_spans();
        });
        // Without a heap: it borrows from the shared arena.
        let other = spawn(move || {
            free(alloc(SIZE));
            blocks.into_iter().for_each(free);
        });
        prepare();
        // SAFETY: prepared.
        unsafe { parent() };
        purge.join().unwrap();
        other.join().unwrap();
        purge_spans();
        assert_eq!(pool::in_use(), 0);
    });
}

/// Two threads that fork at the same time.
#[test]
fn forks_wait_for_each_other() {
    check(2, || {
        start();
        let forks = || {
            prepare();
            // SAFETY: prepared.
            unsafe { parent() };
        };
        let other = spawn(forks);
        forks();
        other.join().unwrap();
        free(alloc(SIZE));
    });
}

/// Handlers of the program run in between: they allocate and free, on the thread that forks.
#[test]
fn who_forks_allocates_and_frees_meanwhile() {
    check(2, || {
        start();
        let theirs = alloc(SIZE);
        let other = spawn(move || {
            begin(1);
            let mine = alloc(SIZE);
            free(theirs);
            free(mine);
            exit();
        });
        prepare();
        let blocks: Vec<_> = (0..PER_SPAN + 1).map(|_| alloc(SIZE)).collect();
        blocks.into_iter().for_each(free);
        purge_spans();
        unowned::rest_lenders(true);
        // SAFETY: prepared.
        unsafe { parent() };
        other.join().unwrap();
        exit();
        purge_spans();
        assert_eq!(pool::in_use(), 0);
    });
}

/// Forks beside a thread that acts under a lock which the engine does not know, and for which the fork waits after its
/// `prepare`, such as one of stdio.
fn fork_waits_for(act: impl FnOnce() + 'static) {
    let outer = Arc::new(Mutex::new(()));
    let other = spawn({
        let outer = Arc::clone(&outer);
        move || {
            let held = outer.lock().unwrap();
            act();
            drop(held);
        }
    });
    prepare();
    drop(outer.lock().unwrap());
    // SAFETY: prepared.
    unsafe { parent() };
    other.join().unwrap();
}

/// The holder of such a lock uses the engine: it fills spans, and frees blocks that others allocated.
#[test]
fn a_fork_waits_for_who_uses_the_engine() {
    check(2, || {
        start();
        let theirs = [alloc(SIZE), alloc(SIZE)];
        fork_waits_for(move || {
            begin(1);
            let mine = alloc(SIZE);
            theirs.into_iter().for_each(free);
            free(mine);
            exit();
        });
        adopt_an_orphan();
        exit();
        purge_spans();
        assert_eq!(pool::in_use(), 0, "spans are lost");
        assert_eq!(table::counts().0, 0, "a heap is lost");
    });
}

/// The same, if the lock's holder lives on the shared arena, and if it purges.
#[test]
fn a_fork_waits_for_who_has_no_heap_and_who_purges() {
    check(2, || {
        start();
        let theirs = [alloc(SIZE), alloc(SIZE), alloc(SIZE)];
        fork_waits_for(move || {
            free(alloc(SIZE));
            theirs.into_iter().for_each(free);
            visit();
            purge_spans();
        });
        exit();
        purge_spans();
        assert_eq!(pool::in_use(), 0, "spans are lost");
    });
}

/// A free claims the one span, which is on the list of abandoned ones, while the fork has the list's lock.
fn claim_while_a_fork_waits(claim: impl FnOnce() + 'static) {
    assert_eq!(abandoned::count(class_of(SIZE)), 1);
    fork_waits_for(claim);
    adopt_an_orphan();
    purge_spans();
    assert_eq!(pool::in_use(), 0, "spans are lost");
    assert_eq!(abandoned::count(class_of(SIZE)), 0);
}

/// The first free into the span, or, if the thread has no heap, the second one.
#[test]
fn a_listed_span_is_claimed_while_a_fork_waits() {
    check(2, || {
        start();
        let blocks: Vec<_> = (0..3).map(|_| alloc(SIZE)).collect();
        // Published, with three blocks in use.
        exit();
        claim_while_a_fork_waits(move || {
            begin(1);
            blocks.into_iter().for_each(free);
            exit();
        });
    });
}

/// A chain that was begun while the span had an owner.
#[test]
fn a_listed_span_is_claimed_by_a_chain_while_a_fork_waits() {
    check(2, || {
        start();
        let [a, b, c] = [alloc(SIZE), alloc(SIZE), alloc(SIZE)];
        begin(1);
        free(a);
        free(b);
        resume(0);
        exit();
        claim_while_a_fork_waits(move || {
            resume(1);
            free(c);
            exit();
        });
    });
}

/// A heap with each kind of memory: active span and bin, partial, full, and blocks in its outbox.
fn busy(theirs: [usize; 2]) {
    begin(1);
    let mut blocks: Vec<_> = (0..PER_SPAN + 1).map(|_| alloc(SIZE)).collect();
    theirs.into_iter().for_each(free);
    free(blocks.swap_remove(3));
    free(blocks.swap_remove(3));
    // The rest stays, as with a thread that lives on.
}

#[test]
fn a_child_of_a_thread_that_stands_still() {
    check(None, || {
        start();
        let theirs = [alloc(SIZE), alloc(SIZE)];
        spawn(move || busy(theirs)).join().unwrap();
        fork(|| inherit(false));
    });
}

/// Borrows more from the shared arena than it uses: the second batch has two blocks.
fn borrow() -> [usize; 2] {
    // Two earlier heaps, which do not borrow.
    begin(1);
    begin(2);
    begin(3);
    [alloc(512), alloc(512)]
}

#[test]
fn a_child_of_a_thread_that_has_borrowed() {
    check(None, || {
        start();
        spawn(|| {
            borrow();
        })
        .join()
        .unwrap();
        fork(|| inherit(false));
    });
}

/// Frees a chain of another thread's blocks, and takes it back for one of its own.
fn take_back(theirs: [usize; 4]) -> usize {
    begin(1);
    theirs.into_iter().for_each(free);
    alloc(SIZE)
}

#[test]
fn a_child_of_a_thread_that_has_taken_a_chain_back() {
    check(None, || {
        start();
        let theirs = [alloc(SIZE), alloc(SIZE), alloc(SIZE), alloc(SIZE)];
        alloc(SIZE);
        spawn(move || {
            take_back(theirs);
        })
        .join()
        .unwrap();
        fork(|| inherit(false));
    });
}

/// The other thread is frozen while it takes the chain back, and while it frees it again.
#[test]
fn a_child_of_a_thread_that_takes_a_chain_back() {
    check(1, || {
        start();
        let theirs = [alloc(SIZE), alloc(SIZE), alloc(SIZE), alloc(SIZE)];
        alloc(SIZE);
        process::interrupt_anywhere();
        let other = spawn(move || {
            free(take_back(theirs));
            exit();
        });
        fork(|| inherit(process::calls() != 0));
        other.join().unwrap();
    });
}

/// The other thread is frozen while it borrows, and while it gives back.
#[test]
fn a_child_of_a_thread_that_borrows() {
    check(1, || {
        start();
        process::interrupt_anywhere();
        let other = spawn(|| {
            borrow().into_iter().for_each(free);
            exit();
        });
        fork(|| inherit(process::calls() != 0));
        other.join().unwrap();
    });
}

/// The other thread is frozen at any step of a short life.
#[test]
fn a_child_of_a_thread_at_work() {
    check(2, || {
        start();
        process::interrupt_anywhere();
        let theirs = [alloc(SIZE), alloc(SIZE)];
        let other = spawn(move || {
            begin(1);
            let (a, b) = (alloc(SIZE), alloc(SIZE));
            theirs.into_iter().for_each(free);
            free(a);
            let c = alloc(SIZE);
            free(b);
            free(c);
            exit();
        });
        fork(|| inherit(process::calls() != 0));
        other.join().unwrap();
    });
}

/// The other thread fills a span, goes on to the next and comes back to freed blocks.
#[test]
fn a_child_of_a_thread_that_fills_spans() {
    check(1, || {
        start();
        process::interrupt_anywhere();
        let other = spawn(move || {
            begin(1);
            let blocks: Vec<_> = (0..PER_SPAN + 1).map(|_| alloc(SIZE)).collect();
            blocks.into_iter().for_each(free);
            exit();
        });
        fork(|| inherit(process::calls() != 0));
        other.join().unwrap();
    });
}

/// The purge is frozen while it purges free pages, and while it empties outboxes: that of the thread that forks, and
/// that of another.
#[test]
fn a_child_of_a_purge() {
    check(2, || {
        start();
        process::interrupt_anywhere();
        let mut blocks = [alloc(SIZE), alloc(SIZE), alloc(512), alloc(512)];
        begin(1);
        free(blocks[0]);
        free(blocks[2]);
        begin(2);
        free(blocks[1]);
        blocks[3] = alloc(512);
        let purge = spawn(|| {
            visit();
            purge_spans();
        });
        fork(|| {
            let inside = process::calls() != 0;
            free(blocks[3]);
            inherit(inside);
        });
        purge.join().unwrap();
    });
}

/// The child of a child, whose parent was frozen while it took a heap apart.
#[test]
fn a_child_of_a_child_that_takes_a_heap_apart() {
    check(2, || {
        start();
        let theirs = [alloc(SIZE), alloc(SIZE)];
        spawn(move || busy(theirs)).join().unwrap();
        prepare();
        // SAFETY: prepared; the other thread is gone, and its heap is as if it existed.
        unsafe { child() };
        process::interrupt_anywhere();
        let other = spawn(adopt_an_orphan);
        fork(|| inherit(process::calls() != 0));
        other.join().unwrap();
    });
}

/// In the child a purge looks into the outbox of a heap that another thread is taking apart, and that a third thread
/// gets afterwards.
#[test]
fn a_childs_purge_against_who_takes_a_heap_apart() {
    check(2, || {
        start();
        let [a, b] = [alloc(SIZE), alloc(SIZE)];
        begin(1);
        free(a);
        resume(0);
        prepare();
        // SAFETY: prepared; no thread uses the other heap any more.
        unsafe { child() };
        let purge = spawn(visit);
        let other = spawn(move || {
            begin(2);
            free(b);
            exit();
        });
        adopt_an_orphan();
        purge.join().unwrap();
        other.join().unwrap();
        exit();
        visit();
        assert_eq!(pool::in_use(), 0, "spans are lost");
    });
}

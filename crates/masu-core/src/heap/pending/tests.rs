//! Threads that follow each other, each while the one before sleeps.

use super::*;
use crate::heap::tls::current;
use crate::own_process::alone;
use crate::region::GRANULE;
use crate::{alloc, dealloc};
use std::collections::BTreeSet;
use std::sync::mpsc::channel;
use std::thread;

const SIZE: usize = 256;
/// Blocks of a thread: those of 16 spans.
const MANY: usize = 16 * GRANULE / SIZE;
/// Threads.
const FOLLOWING: usize = 8;

/// Addresses of live blocks.
type Table = Vec<usize>;

/// Replaces each block of a table, in a mixed order, and checks what is in it. Returns how many fresh spans that took.
fn replace(table: &mut Table) -> u64 {
    // SAFETY: a block that no other code knows. The thread now has a heap.
    unsafe { dealloc(alloc(SIZE)) };
    let before = current().counters.fresh_spans.get();
    for i in 0..table.len() {
        let at = i * 31 % table.len();
        let p = table[at] as *mut usize;
        // SAFETY: a live block, which has its own address in it; freed once.
        unsafe {
            assert_eq!(*p, p.addr(), "another owner wrote to it");
            dealloc(p.cast());
        }
        let fresh: *mut usize = alloc(SIZE).cast();
        // SAFETY: allocated just now.
        unsafe { *fresh = fresh.addr() };
        table[at] = fresh.addr();
    }
    current().counters.fresh_spans.get() - before
}

fn table() -> Table {
    (0..MANY)
        .map(|_| {
            let p: *mut usize = alloc(SIZE).cast();
            // SAFETY: allocated just now.
            unsafe { *p = p.addr() };
            p.addr()
        })
        .collect()
}

fn free_all(table: Table) {
    let distinct: BTreeSet<usize> = table.iter().copied().collect();
    assert_eq!(distinct.len(), MANY, "a block has two owners");
    for p in table {
        // SAFETY: a live block, freed once.
        unsafe { dealloc(p as *mut u8) };
    }
}

/// Each thread replaces the blocks of the one before, and then sleeps until the last one is done.
fn follow() -> Vec<u64> {
    thread::scope(|scope| {
        let mut table = scope.spawn(table).join().unwrap();
        let mut sleepers = Vec::new();
        let mut fresh = Vec::new();
        for _ in 0..FOLLOWING {
            let (wake, asleep) = channel::<()>();
            let (done, taken) = channel();
            let mut own = table;
            scope.spawn(move || {
                let n = replace(&mut own);
                done.send((own, n)).unwrap();
                // Until the sender goes.
                assert!(asleep.recv().is_err());
            });
            let n;
            (table, n) = taken.recv().unwrap();
            fresh.push(n);
            sleepers.push(wake);
        }
        drop(sleepers);
        scope.spawn(|| free_all(table)).join().unwrap();
        fresh
    })
}

#[test]
fn a_thread_whose_predecessor_sleeps_takes_what_it_frees() {
    alone!(a_thread_whose_predecessor_sleeps_takes_what_it_frees, || {
        // There are other threads.
        let here = alloc(SIZE);
        let fresh = follow();
        // SAFETY: the block from above.
        unsafe { dealloc(here) };
        // Without that they take nine each.
        assert!(fresh.iter().sum::<u64>() < 6 * FOLLOWING as u64, "{fresh:?}");
    });
}

#[test]
fn a_sampled_process_takes_them_too() {
    alone!(a_sampled_process_takes_them_too, || {
        let here = alloc(SIZE);
        crate::profile::start(4096).unwrap();
        let fresh = follow();
        crate::profile::stop();
        // SAFETY: the block from above.
        unsafe { dealloc(here) };
        assert!(fresh.iter().sum::<u64>() < 6 * FOLLOWING as u64, "{fresh:?}");
    });
}

/// A chain of all blocks is the purge's, a short one the owner's, and one of another class nobody's who wants this.
#[test]
fn only_long_chains_of_the_class_are_taken() {
    alone!(only_long_chains_of_the_class_are_taken, || {
        let here = alloc(SIZE);
        let (give, given) = channel();
        let (wake, asleep) = channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                let table: Table = (0..GRANULE / SIZE).map(|_| alloc(SIZE).addr()).collect();
                give.send(table).unwrap();
                assert!(asleep.recv().is_err());
            });
            let table = given.recv().unwrap();
            scope
                .spawn(move || {
                    let span = span::span_at(table[0] as *const u8);
                    let of_span = |p: &usize| span::span_at(*p as *const u8) == span;
                    let mine: Table = table.into_iter().filter(of_span).collect();
                    let class = crate::size_class::class_of(SIZE);
                    let least = span::threshold(class) as usize;
                    let push = |blocks: &[usize]| {
                        for &p in blocks {
                            // SAFETY: a live block, freed once.
                            unsafe { dealloc(p as *mut u8) };
                        }
                        current().outbox.drain(current());
                    };
                    push(&mine[..least - 1]);
                    assert!(chain_of(span, class).is_none(), "too short");
                    push(&mine[least - 1..least]);
                    assert!(chain_of(span, class + 1).is_none(), "of another class");
                    let (first, n) = chain_of(span, class).expect("a long one");
                    assert_eq!(n as usize, least);
                    // SAFETY: taken just now.
                    unsafe { send::give_back(first) };
                    current().outbox.drain(current());
                    push(&mine[least..]);
                    if mine.len() == GRANULE / SIZE {
                        assert!(chain_of(span, class).is_none(), "all of them");
                    }
                })
                .join()
                .unwrap();
            drop(wake);
        });
        // SAFETY: the block from above.
        unsafe { dealloc(here) };
    });
}

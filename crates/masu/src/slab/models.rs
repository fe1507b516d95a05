//! Model checks, on the production types, of every interleaving and of every value that a relaxed
//! load may see.
//!
//! `RUSTFLAGS='--cfg loom' cargo test --package masu --lib --release models`. The first page has
//! one slot here, so that growth is covered.

use super::key::Key;
use super::shared::{SharedSlab, TakeError};
use super::stack::IndexStack;
use super::sync::{AtomicU32, AtomicUsize, Ordering};
use crate::pool::SharedPool;
use alloc::vec::Vec;
use loom::sync::Arc;
use loom::thread;

/// Counts its drops. The number must be the one written; otherwise the value was seen half made.
struct Value(Arc<AtomicUsize>, u32);

impl Drop for Value {
    fn drop(&mut self) {
        assert!(self.1 != 0, "dropped twice");
        self.1 = 0;
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn drops() -> Arc<AtomicUsize> {
    Arc::new(AtomicUsize::new(0))
}

#[test]
fn the_stack_hands_each_index_to_one() {
    loom::model(|| {
        let shared = Arc::new((IndexStack::new(), [0, 1].map(AtomicU32::new)));
        for index in 0..2 {
            shared.0.push(index, &shared.1[index as usize]);
        }
        // One thread takes both and puts the first back: a thread that read the top before that and
        // continues after it sees nothing changed.
        let both = {
            let shared = shared.clone();
            thread::spawn(move || {
                let pop = || shared.0.pop(|index| &shared.1[index as usize]);
                let (first, second) = (pop(), pop());
                if let Some(index) = first {
                    shared.0.push(index, &shared.1[index as usize]);
                }
                second
            })
        };
        let mine = shared.0.pop(|index| &shared.1[index as usize]);
        let mut seen: Vec<_> = [mine, both.join().unwrap()].into_iter().flatten().collect();
        while let Some(index) = shared.0.pop(|index| &shared.1[index as usize]) {
            seen.push(index);
        }
        seen.sort_unstable();
        assert_eq!(seen, [0, 1]);
    });
}

#[test]
fn a_removed_value_is_dropped_once_and_not_under_a_reader() {
    loom::model(|| {
        let count = drops();
        let slab = Arc::new(SharedSlab::new());
        let key = slab.insert(Value(count.clone(), 7));
        let reader = {
            let slab = slab.clone();
            thread::spawn(move || {
                if let Some(guard) = slab.get(key) {
                    assert_eq!(guard.1, 7);
                }
            })
        };
        let remover = {
            let slab = slab.clone();
            thread::spawn(move || slab.remove(key))
        };
        let here = slab.remove(key);
        reader.join().unwrap();
        assert_ne!(here, remover.join().unwrap(), "removed by one of them");
        assert_eq!(count.load(Ordering::Relaxed), 1);
        assert!(slab.is_empty());
    });
}

#[test]
fn an_old_key_never_finds_the_next_value() {
    loom::model(|| {
        let count = drops();
        let slab = Arc::new(SharedSlab::new());
        let old = slab.insert(Value(count.clone(), 1));
        let reader = {
            let slab = slab.clone();
            thread::spawn(move || {
                if let Some(guard) = slab.get(old) {
                    assert_eq!(guard.1, 1);
                }
            })
        };
        slab.remove(old);
        let new = slab.insert(Value(count.clone(), 2));
        assert_ne!(old, new);
        assert_eq!(slab.get(new).unwrap().1, 2);
        reader.join().unwrap();
        drop(slab);
        assert_eq!(count.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn a_key_that_came_by_no_synchronisation_finds_a_whole_value() {
    loom::model(|| {
        let slab = Arc::new(SharedSlab::new());
        let reader = {
            let slab = slab.clone();
            // The first key of all, guessed.
            thread::spawn(move || slab.get(Key::new(0, 1)).map(|guard| assert_eq!(*guard, 9)))
        };
        slab.insert(9);
        reader.join().unwrap();
    });
}

#[test]
fn insertions_grow_together_and_get_slots_of_their_own() {
    loom::model(|| {
        let slab = Arc::new(SharedSlab::new());
        let insert = |number: u32| {
            let slab = slab.clone();
            move || {
                let key = slab.insert(number);
                assert_eq!(*slab.get(key).unwrap(), number);
                key
            }
        };
        let other = thread::spawn(insert(1));
        let mine = insert(2)();
        let other = other.join().unwrap();
        assert_ne!(mine.index(), other.index());
        assert_eq!((*slab.get(other).unwrap(), *slab.get(mine).unwrap()), (1, 2));
        assert_eq!(slab.len(), 2);
    });
}

#[test]
fn a_taken_value_is_nobody_elses() {
    loom::model(|| {
        let count = drops();
        let slab = Arc::new(SharedSlab::new());
        let key = slab.insert(Value(count.clone(), 3));
        let reader = {
            let slab = slab.clone();
            thread::spawn(move || slab.get(key).map(|guard| assert_eq!(guard.1, 3)).is_some())
        };
        match slab.take(key) {
            Ok(value) => assert_eq!(value.1, 3),
            Err(error) => assert_eq!(error, TakeError::Busy),
        }
        reader.join().unwrap();
        drop(slab);
        assert_eq!(count.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_pool_leases_an_object_to_one_at_a_time() {
    loom::model(|| {
        let count = drops();
        let made = count.clone();
        let pool = Arc::new(SharedPool::bounded(move || Value(made.clone(), 5), 1));
        let work = |pool: &SharedPool<_>| {
            if let Some(mut lease) = pool.try_lease() {
                let lease: &mut Value = &mut lease;
                // Written through the lease, so the model checker detects any concurrent access.
                lease.1 += 1;
            }
        };
        let other = {
            let pool = pool.clone();
            thread::spawn(move || work(&pool))
        };
        work(&pool);
        other.join().unwrap();
        assert!(pool.len() == 1);
        drop(pool);
        assert_eq!(count.load(Ordering::Relaxed), 1);
    });
}

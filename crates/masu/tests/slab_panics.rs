//! What becomes of a `masu::Slab` when a drop, a clone or a closure panics.

use masu::Slab;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Counts its drops, and panics in the chosen one.
struct Counted<'a> {
    drops: &'a Cell<usize>,
    panics: bool,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.drops.set(self.drops.get() + 1);
        assert!(!self.panics, "in drop");
    }
}

fn of_ten(drops: &Cell<usize>, bad: usize) -> Slab<Counted<'_>> {
    (0..10).map(|i| (i, Counted { drops, panics: i == bad })).collect()
}

#[test]
fn a_panic_in_a_drop_loses_no_other_value() {
    let drops = Cell::new(0);
    let unwinds = |f: &mut dyn FnMut()| assert!(catch_unwind(AssertUnwindSafe(f)).is_err());

    let slab = of_ten(&drops, 3);
    let mut slab = Some(slab);
    unwinds(&mut || drop(slab.take()));
    assert_eq!(drops.replace(0), 10);

    let mut slab = of_ten(&drops, 3);
    unwinds(&mut || slab.clear());
    assert_eq!(drops.replace(0), 10);
    assert!(slab.is_empty());
    assert_eq!(slab.vacant_key(), 0);

    let mut slab = of_ten(&drops, 3);
    unwinds(&mut || drop(slab.drain()));
    assert_eq!(drops.replace(0), 10);
    assert!(slab.is_empty());

    let mut slab = of_ten(&drops, 3);
    unwinds(&mut || assert!(slab.discard(3)));
    assert_eq!((drops.get(), slab.len(), slab.vacant_key()), (1, 9, 3));
    drop(slab);
    assert_eq!(drops.replace(0), 10);

    let mut slab = of_ten(&drops, 3);
    unwinds(&mut || slab.retain(|key, _| key != 3));
    assert_eq!((drops.get(), slab.len()), (1, 9));
    drop(slab);
    assert_eq!(drops.replace(0), 10);

    let slab = of_ten(&drops, 3);
    let mut iter = Some(slab.into_iter());
    std::mem::forget(iter.as_mut().unwrap().next());
    unwinds(&mut || drop(iter.take()));
    assert_eq!(drops.replace(0), 9);
}

#[test]
fn a_panic_in_a_closure_leaves_the_slab_whole() {
    let mut slab: Slab<_> = (0..10).map(|i| (i, i)).collect();
    let retain = catch_unwind(AssertUnwindSafe(|| {
        slab.retain(|key, _| {
            assert!(key < 5);
            key % 2 == 0
        });
    }));
    assert!(retain.is_err());
    assert_eq!(slab.iter().map(|(key, _)| key).collect::<Vec<_>>(), [0, 2, 4, 5, 6, 7, 8, 9]);
    assert_eq!(slab.upcoming_keys().take(2).collect::<Vec<_>>(), [3, 1]);

    let array = catch_unwind(AssertUnwindSafe(|| {
        slab.insert_array_with::<2>(|_| panic!("in make"));
    }));
    assert!(array.is_err());
    // SAFETY: nothing is initialised, and nothing is claimed to be, as it panics.
    let entry = catch_unwind(AssertUnwindSafe(|| unsafe {
        slab.vacant_entry().insert_in_place(|p| {
            p.write(77);
            panic!("in init")
        });
    }));
    assert!(entry.is_err());
    assert_eq!(slab.len(), 8);
    assert_eq!((slab.insert(0), slab.insert(0), slab.insert(0)), (3, 1, 10));
}

#[test]
fn a_panic_in_a_closure_leaves_a_fresh_slot_vacant() {
    for filled in (0..20).step_by(if cfg!(miri) { 5 } else { 1 }) {
        let mut slab = Slab::with_capacity(4);
        slab.extend_to(filled);
        // SAFETY: nothing is claimed to be initialised, as it panics.
        let entry = catch_unwind(AssertUnwindSafe(|| unsafe {
            slab.vacant_entry().insert_in_place(|p| {
                p.write(u64::MAX);
                panic!("in init")
            });
        }));
        assert!(entry.is_err());
        slab.extend_to(filled + 20);
        assert!(
            slab.iter()
                .map(|(key, value)| (key as u64, *value))
                .eq((0..filled + 20).map(|n| (n, n)))
        );
    }
}

trait Numbers {
    fn extend_to(&mut self, len: u64);
}

impl Numbers for Slab<u64> {
    /// Inserts the numbers of their keys.
    fn extend_to(&mut self, len: u64) {
        for n in self.len() as u64..len {
            assert_eq!(self.insert(n), n as usize);
        }
    }
}

#[test]
fn a_clone_that_panics_drops_what_it_made() {
    struct Picky<'a>(u32, &'a Cell<i32>);
    impl Clone for Picky<'_> {
        fn clone(&self) -> Self {
            assert_ne!(self.0, 2, "will not");
            self.1.set(self.1.get() + 1);
            Picky(self.0, self.1)
        }
    }
    impl Drop for Picky<'_> {
        fn drop(&mut self) {
            self.1.set(self.1.get() - 1);
        }
    }
    let live = Cell::new(5);
    let slab: Slab<_> = (0..5).map(|i| (i, Picky(i as u32, &live))).collect();
    let mut target = Slab::new();
    assert!(catch_unwind(AssertUnwindSafe(|| target.clone_from(&slab))).is_err());
    assert_eq!(live.get(), 5 + target.len() as i32);
    drop(target);
    assert_eq!(live.get(), 5);
    drop(slab);
    assert_eq!(live.get(), 0);
}

/// A closure of `compact` that panics, on a slab whose pages have gone back to the system in part.
fn compact_with_a_panic(slab: &mut Slab<u64>) {
    let compact = AssertUnwindSafe(|| slab.compact(|_, _, _| panic!("in the closure")));
    assert!(catch_unwind(compact).is_err());
}

#[test]
fn a_panic_while_compacting_leaves_released_pages_alone() {
    // Page 0 has gone back; its only value left is the one that moves, on the next page.
    let mut slab: Slab<u64> = Slab::with_capacity(64);
    (0..65).for_each(|i| assert_eq!(slab.insert(i), i as usize));
    (0..64).for_each(|key| assert_eq!(slab.remove(key), key as u64));
    assert_eq!(slab.release_empty_pages(), 1);
    let of_64 = || (0..64).map(|key| (key as usize, 1000 + key)).collect::<Slab<u64>>();
    let others: Vec<_> = (0..4).map(|_| of_64()).collect();
    compact_with_a_panic(&mut slab);
    assert_eq!((slab.len(), slab.capacity()), (0, 0));
    let keys: Vec<_> = (0..64).map(|i| slab.insert(i)).collect();
    assert!(keys.iter().all(|&key| slab[key] == key as u64));
    assert!(
        others.iter().all(|other| other.iter().all(|(key, &value)| value == 1000 + key as u64))
    );

    // The page before the last has gone back, and the last one loses its only value.
    let mut slab: Slab<u64> = Slab::with_capacity(64);
    (0..129).for_each(|i| assert_eq!(slab.insert(i), i as usize));
    (1..128).for_each(|key| assert_eq!(slab.remove(key), key as u64));
    assert_eq!(slab.release_empty_pages(), 1);
    compact_with_a_panic(&mut slab);
    assert_eq!((slab.len(), slab.capacity()), (1, 64));
    let keys: Vec<_> = (0..300).map(|i| slab.insert(i)).collect();
    assert!(keys.iter().enumerate().all(|(i, &key)| slab[key] == i as u64));
}

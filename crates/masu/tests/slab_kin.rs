//! `GenSlab`, `PinSlab` and `SharedSlab`.

use masu::slab::{Key, TakeError};
use masu::{GenSlab, PinSlab, SharedSlab};
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::marker::PhantomPinned;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

#[test]
fn a_key_is_never_given_out_twice() {
    let mut slab = GenSlab::with_capacity(4);
    let mut seen = HashSet::new();
    let mut live: HashMap<Key, u32> = HashMap::new();
    let mut gone = Vec::new();
    let mut random = 1u32;
    for round in 0..if cfg!(miri) { 300 } else { 20_000 } {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        match random >> 24 {
            0..140 => {
                let key = slab.insert(round);
                assert!(seen.insert(key), "given out twice: {key:?}");
                live.insert(key, round);
            }
            140..230 => {
                if let Some(&key) = live.keys().next() {
                    let value = live.remove(&key);
                    match random & 1 {
                        0 => assert_eq!(slab.remove(key), value),
                        _ => assert!(slab.discard(key)),
                    }
                    gone.push(key);
                }
            }
            230..235 => {
                slab.clear();
                gone.extend(live.drain().map(|(key, _)| key));
            }
            235..240 => {
                slab.retain(|_, value| *value % 2 == 0);
                gone.extend(live.extract_if(|_, value| *value % 2 == 1).map(|(key, _)| key));
            }
            240..245 => drop(slab.release_empty_pages()),
            245..250 => slab.shrink_to_fit(),
            _ => slab = slab.clone(),
        }
        assert_eq!(slab.len(), live.len());
        for key in gone.iter().rev().take(20) {
            assert_eq!((slab.get(*key), slab.contains(*key)), (None, false));
        }
    }
    assert_eq!(slab.iter().map(|(key, value)| (key, *value)).collect::<HashMap<_, _>>(), live);
    for (_, value) in slab.iter_mut() {
        *value += 1;
    }
    assert!(live.iter().all(|(key, value)| slab[*key] == value + 1));
    assert!(gone.len() > 50);
    for key in gone {
        assert!(slab.remove(key).is_none() && !slab.discard(key) && slab.get_mut(key).is_none());
    }
}

#[test]
#[should_panic(expected = "invalid key")]
fn an_old_key_as_an_index_panics() {
    let mut slab = GenSlab::new();
    let key = slab.insert(1);
    slab.remove(key);
    slab.insert(2);
    let _ = slab[key];
}

#[test]
fn keys_are_small() {
    assert_eq!(size_of::<Key>(), 8);
    assert_eq!(size_of::<Option<Key>>(), 8);
}

#[test]
fn pinned_values_stay() {
    struct Node(usize, PhantomPinned);
    let mut slab = PinSlab::new();
    let keys: Vec<_> = (0..500).map(|i| slab.insert(Node(i, PhantomPinned))).collect();
    let addresses: Vec<_> = slab.iter().map(|(_, node)| std::ptr::from_ref(&*node)).collect();
    slab.retain(|key, _| key % 3 != 0);
    slab.release_empty_pages();
    slab.reserve(5000);
    for (&key, &address) in keys.iter().zip(&addresses) {
        match slab.get(key) {
            Some(node) => {
                assert_eq!((node.0, std::ptr::from_ref(&*node)), (key, address));
                assert!(key % 3 != 0);
            }
            None => assert!(key % 3 == 0),
        }
    }
    assert!(slab.discard(1) && !slab.discard(1));
    assert_eq!(slab.iter_mut().next_back().map(|(key, node)| (key, node.0)), Some((499, 499)));
}

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// Contains its value twice, so that a torn or dropped one is noticed.
struct Pair(u64, Box<u64>);

impl Pair {
    fn new(n: u64) -> Self {
        LIVE.fetch_add(1, Ordering::Relaxed);
        Pair(n, Box::new(!n))
    }

    fn check(&self, n: u64) {
        assert_eq!((self.0, *self.1), (n, !n));
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.check(self.0);
        self.0 = !self.0;
        LIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Threads insert, read each other's values, remove them and take them, all over the same keys.
#[test]
fn many_threads_share_a_slab() {
    let rounds = if cfg!(miri) { 60 } else { 20_000 };
    let slab = SharedSlab::new();
    let keys: Mutex<Vec<(Key, u64)>> = Mutex::default();
    let removed = AtomicUsize::new(0);
    std::thread::scope(|s| {
        for thread in 0..4u64 {
            let (slab, keys, removed) = (&slab, &keys, &removed);
            s.spawn(move || {
                let mut random = thread as u32 + 1;
                for round in 0..rounds {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let n = thread << 32 | round;
                    let known = {
                        let keys = keys.lock().unwrap();
                        keys.get((random >> 8) as usize % keys.len().max(1)).copied()
                    };
                    match (random >> 28, known) {
                        (0..6, _) | (_, None) => {
                            let key = slab.insert(Pair::new(n));
                            keys.lock().unwrap().push((key, n));
                        }
                        (6..11, Some((key, n))) => {
                            if let Some(guard) = slab.get(key) {
                                guard.check(n);
                                std::thread::yield_now();
                                guard.check(n);
                            }
                        }
                        (11..14, Some((key, _))) => {
                            removed.fetch_add(slab.remove(key).into(), Ordering::Relaxed);
                        }
                        (_, Some((key, n))) => match slab.take(key) {
                            Ok(value) => {
                                value.check(n);
                                removed.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(error) => {
                                assert!(matches!(error, TakeError::Busy | TakeError::Vacant))
                            }
                        },
                    }
                }
            });
        }
    });
    let keys = keys.into_inner().unwrap();
    assert_eq!(keys.iter().map(|(key, _)| key).collect::<HashSet<_>>().len(), keys.len());
    let left = keys.iter().filter(|(key, n)| slab.get(*key).map(|pair| pair.check(*n)).is_some());
    assert_eq!(left.count(), keys.len() - removed.load(Ordering::Relaxed));
    assert_eq!(slab.len(), keys.len() - removed.load(Ordering::Relaxed));
    assert_eq!(LIVE.load(Ordering::Relaxed), slab.len());
    drop(slab);
    assert_eq!(LIVE.load(Ordering::Relaxed), 0);
}

#[test]
fn a_guard_that_is_forgotten_keeps_its_value() {
    let mut slab = SharedSlab::new();
    let key = slab.insert(String::from("kept"));
    std::mem::forget(slab.get(key));
    assert_eq!(slab.take(key), Err(TakeError::Busy));
    assert!(slab.remove(key));
    assert!(!slab.contains(key) && !slab.remove(key));
    let other = slab.insert(String::from("other"));
    assert_ne!(other.index(), key.index());
    let mut seen = Vec::new();
    slab.for_each_mut(|value| seen.push(std::mem::take(value)));
    assert_eq!(seen, ["other"]);
}

#[test]
fn a_panic_in_a_shared_drop_frees_the_slot() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("in drop");
        }
    }
    let slab = SharedSlab::new();
    let key = slab.insert(Bad);
    assert!(catch_unwind(AssertUnwindSafe(|| slab.remove(key))).is_err());
    assert!(slab.is_empty());
    // One of eight shards takes a value, by the stack's address, which Miri changes at each call.
    let mut made = vec![slab.insert(Bad)];
    while made[made.len() - 1].index() % 8 != key.index() % 8 {
        assert!(made.len() < 1000, "the shard never comes again");
        made.push(slab.insert(Bad));
    }
    let again = made[made.len() - 1];
    assert_eq!((again.index(), again.generation()), (key.index(), key.generation() + 1));
    made.into_iter().for_each(|key| std::mem::forget(slab.take(key)));
}

#[test]
fn keys_of_nowhere_find_nothing() {
    let slab = SharedSlab::new();
    let key = slab.insert(1);
    for bits in [1 << 32, u64::MAX, key.to_bits() + 8, key.to_bits() + 1, key.to_bits() + (1 << 32)]
    {
        if let Some(other) = Key::from_bits(bits).filter(|other| *other != key) {
            assert!(slab.get(other).is_none() && !slab.remove(other), "{other:?}");
        }
    }
    assert_eq!(*slab.get(key).unwrap(), 1);
}

#[test]
fn values_that_may_be_sent_may_be_changed_on_another_thread() {
    let mut slab = GenSlab::new();
    let key = slab.insert(Cell::new(1));
    let values = slab.iter_mut();
    thread::scope(|s| {
        s.spawn(move || values.for_each(|(_, value)| value.set(2)));
    });
    assert_eq!(slab[key].get(), 2);
}

//! `masu::Slab` against the `slab` crate: the same calls give the same keys, values, panics and
//! iteration order, and no address changes.

use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

#[derive(Clone, Debug)]
enum Op {
    Insert,
    InsertEntry,
    LookAtEntry,
    Remove(usize),
    TryRemove(usize),
    Discard(usize),
    Get(usize),
    Swap(usize, usize),
    Disjoint([usize; 3]),
    Retain(u32),
    Reserve(usize),
    ReserveExact(usize),
    Shrink,
    Compact { refuse: u32, panic: u32 },
    Clear,
    Drain(usize, usize),
    Clone,
    CloneFrom,
    Iterate(u64),
    IterMut,
    FromIterator(Vec<usize>),
    Release,
}

fn op() -> impl Strategy<Value = Op> {
    // Few keys: most are in use, or have been.
    let key = || 0usize..48;
    prop_oneof![
        20 => Just(Op::Insert),
        4 => Just(Op::InsertEntry),
        1 => Just(Op::LookAtEntry),
        8 => key().prop_map(Op::Remove),
        4 => key().prop_map(Op::TryRemove),
        4 => key().prop_map(Op::Discard),
        4 => key().prop_map(Op::Get),
        1 => (key(), key()).prop_map(|(a, b)| Op::Swap(a, b)),
        1 => [key(), key(), key()].prop_map(Op::Disjoint),
        1 => any::<u32>().prop_map(Op::Retain),
        1 => (0usize..100).prop_map(Op::Reserve),
        1 => (0usize..100).prop_map(Op::ReserveExact),
        1 => Just(Op::Shrink),
        1 => (0u32..8, 0u32..8).prop_map(|(refuse, panic)| Op::Compact { refuse, panic }),
        1 => Just(Op::Clear),
        1 => (0usize..10, 0usize..10).prop_map(|(front, back)| Op::Drain(front, back)),
        1 => Just(Op::Clone),
        1 => Just(Op::CloneFrom),
        2 => any::<u64>().prop_map(Op::Iterate),
        1 => Just(Op::IterMut),
        1 => proptest::collection::vec(0usize..40, 0..20).prop_map(Op::FromIterator),
        1 => Just(Op::Release),
    ]
}

/// A value that is counted, so that leaks and second drops are noticed. As large as `N` words.
#[derive(Debug)]
struct Value<const N: usize> {
    number: u32,
    live: Rc<RefCell<HashMap<u32, i32>>>,
    _padding: [usize; N],
}

impl<const N: usize> Value<N> {
    fn new(number: u32, live: &Rc<RefCell<HashMap<u32, i32>>>) -> Self {
        *live.borrow_mut().entry(number).or_default() += 1;
        Value { number, live: live.clone(), _padding: [0; N] }
    }
}

impl<const N: usize> Clone for Value<N> {
    fn clone(&self) -> Self {
        Value::new(self.number, &self.live)
    }
}

impl<const N: usize> Drop for Value<N> {
    fn drop(&mut self) {
        let mut live = self.live.borrow_mut();
        let count = live.get_mut(&self.number).expect("dropped but never made");
        *count -= 1;
        assert!(*count >= 0, "dropped twice: {}", self.number);
    }
}

struct Both<const N: usize> {
    ours: masu::Slab<Value<N>>,
    theirs: slab::Slab<u32>,
    live: Rc<RefCell<HashMap<u32, i32>>>,
    next: u32,
    addresses: HashMap<usize, usize>,
}

impl<const N: usize> Both<N> {
    fn value(&mut self) -> (Value<N>, u32) {
        self.next += 1;
        (Value::new(self.next, &self.live), self.next)
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Insert => {
                let (ours, theirs) = self.value();
                assert_eq!(self.ours.insert(ours), self.theirs.insert(theirs));
            }
            Op::InsertEntry => {
                let (ours, theirs) = self.value();
                let (a, b) = (self.ours.vacant_entry(), self.theirs.vacant_entry());
                assert_eq!(a.key(), b.key());
                assert_eq!(a.insert(ours).number, *b.insert(theirs));
            }
            Op::LookAtEntry => {
                assert_eq!(self.ours.vacant_entry().key(), self.theirs.vacant_entry().key());
            }
            Op::Remove(key) => {
                let ours = catch_unwind(AssertUnwindSafe(|| self.ours.remove(key).number));
                let theirs = catch_unwind(AssertUnwindSafe(|| self.theirs.remove(key)));
                assert_eq!(message(ours), message(theirs));
                self.addresses.remove(&key);
            }
            Op::TryRemove(key) => {
                let ours = self.ours.try_remove(key).map(|value| value.number);
                assert_eq!(ours, self.theirs.try_remove(key));
                self.addresses.remove(&key);
            }
            Op::Discard(key) => {
                assert_eq!(self.ours.discard(key), self.theirs.try_remove(key).is_some());
                self.addresses.remove(&key);
            }
            Op::Get(key) => {
                let number = |value: &Value<N>| value.number;
                assert_eq!(self.ours.get(key).map(number), self.theirs.get(key).copied());
                assert_eq!(self.ours.contains(key), self.theirs.contains(key));
                if let Some(value) = self.ours.get(key) {
                    assert_eq!(self.ours.key_of(value), key);
                }
            }
            Op::Swap(a, b) => {
                // Theirs panics over keys never used, where ours returns `None`.
                let last = self.theirs.iter().next_back().map_or(0, |(key, _)| key);
                let (a, b) = (a.min(last), b.min(last));
                let ours = catch_unwind(AssertUnwindSafe(|| {
                    self.ours.get2_mut(a, b).map(|(x, y)| std::mem::swap(x, y))
                }));
                let theirs = catch_unwind(AssertUnwindSafe(|| {
                    self.theirs.get2_mut(a, b).map(|(x, y)| std::mem::swap(x, y))
                }));
                assert_eq!(ours.is_err(), theirs.is_err());
                assert_eq!(ours.ok(), theirs.ok());
            }
            Op::Disjoint(keys) => {
                let ours = self.ours.get_disjoint_mut(keys).map(|v| v.map(|v| v.number));
                let theirs = self.theirs.get_disjoint_mut(keys).map(|v| v.map(|v| *v));
                assert_eq!(
                    ours.map_err(|error| format!("{error:?}")),
                    theirs.map_err(|error| format!("{error:?}"))
                );
            }
            Op::Retain(mask) => {
                let keep =
                    |key: usize, number: u32| (mask >> ((key as u32 + number) % 32)) & 1 == 1;
                self.ours.retain(|key, value| keep(key, value.number));
                self.theirs.retain(|key, value| keep(key, *value));
                self.addresses.retain(|key, _| self.theirs.contains(*key));
            }
            Op::Reserve(n) => {
                self.ours.reserve(n);
                self.theirs.reserve(n);
                assert!(self.ours.capacity() - self.ours.len() >= n);
            }
            Op::ReserveExact(n) => {
                self.ours.reserve_exact(n);
                self.theirs.reserve_exact(n);
                assert!(self.ours.capacity() - self.ours.len() >= n);
            }
            Op::Shrink => {
                self.ours.shrink_to_fit();
                self.theirs.shrink_to_fit();
                if self.ours.is_empty() {
                    assert_eq!(self.ours.capacity(), 0);
                }
            }
            Op::Compact { refuse, panic } => {
                let mut left = (refuse, panic);
                let mut decide = move || {
                    left = (left.0.wrapping_sub(1), left.1.wrapping_sub(1));
                    assert_ne!(left.1, 0, "as asked");
                    left.0 != 0
                };
                let (mut moves, mut decide_too) = (Vec::new(), decide);
                let ours = catch_unwind(AssertUnwindSafe(|| {
                    self.ours.compact(|value, from, to| {
                        moves.push((value.number, from, to));
                        decide()
                    });
                }));
                let mut their_moves = Vec::new();
                let theirs = catch_unwind(AssertUnwindSafe(|| {
                    self.theirs.compact(|value, from, to| {
                        their_moves.push((*value, from, to));
                        decide_too()
                    });
                }));
                assert_eq!(moves, their_moves);
                assert_eq!(ours.is_err(), theirs.is_err());
                self.addresses.clear();
            }
            Op::Clear => {
                self.ours.clear();
                self.theirs.clear();
                self.addresses.clear();
            }
            Op::Drain(front, back) => {
                let (mut a, mut b) = (self.ours.drain(), self.theirs.drain());
                for _ in 0..front {
                    assert_eq!(a.next().map(|value| value.number), b.next());
                }
                for _ in 0..back {
                    assert_eq!(a.next_back().map(|value| value.number), b.next_back());
                }
                assert_eq!(a.len(), b.len());
                drop((a, b));
                self.addresses.clear();
            }
            Op::Clone => {
                (self.ours, self.theirs) = (self.ours.clone(), self.theirs.clone());
                self.addresses.clear();
            }
            Op::CloneFrom => {
                let (mut ours, mut theirs) = (masu::Slab::new(), slab::Slab::new());
                for _ in 0..self.ours.len() / 2 + 3 {
                    let (a, b) = self.value();
                    ours.insert(a);
                    theirs.insert(b);
                }
                ours.clone_from(&self.ours);
                theirs.clone_from(&self.theirs);
                (self.ours, self.theirs) = (ours, theirs);
                self.addresses.clear();
            }
            Op::Iterate(mut from_back) => {
                let (mut a, mut b) = (self.ours.iter(), self.theirs.iter());
                loop {
                    assert_eq!(a.len(), b.len());
                    let (x, y) = match from_back & 1 {
                        1 => (a.next_back(), b.next_back()),
                        _ => (a.next(), b.next()),
                    };
                    from_back = from_back.rotate_right(1);
                    assert_eq!(x.map(|(key, value)| (key, value.number)), y.map(|(k, v)| (k, *v)));
                    if x.is_none() {
                        break;
                    }
                }
            }
            Op::IterMut => {
                // All held at once: the references must not overlap.
                let ours: Vec<_> = self.ours.iter_mut().collect();
                let theirs: Vec<_> = self.theirs.iter_mut().collect();
                assert_eq!(ours.len(), theirs.len());
                for ((a, x), (b, y)) in ours.into_iter().zip(theirs) {
                    assert_eq!((a, x.number), (b, *y));
                }
            }
            Op::FromIterator(keys) => {
                let mut pairs = Vec::new();
                for key in keys {
                    pairs.push((key, self.value()));
                }
                self.theirs = pairs.iter().map(|(key, (_, value))| (*key, *value)).collect();
                self.ours = pairs.into_iter().map(|(key, (value, _))| (key, value)).collect();
                self.addresses.clear();
            }
            Op::Release => {
                // The order of reuse changes, but only if a page goes.
                if self.ours.release_empty_pages() != 0 {
                    (self.ours, self.theirs) = (masu::Slab::new(), slab::Slab::new());
                    self.addresses.clear();
                }
            }
        }
    }

    fn check(&mut self) {
        assert_eq!(self.ours.len(), self.theirs.len());
        assert_eq!(self.ours.is_empty(), self.theirs.is_empty());
        assert_eq!(self.ours.vacant_key(), self.theirs.vacant_key());
        assert_eq!(
            self.ours.upcoming_keys().next().unwrap_or(self.ours.capacity()),
            self.theirs.vacant_key()
        );
        let live = self.live.borrow().values().sum::<i32>();
        assert_eq!(live as usize, self.ours.len(), "leaked or lost");
        for (key, value) in &self.ours {
            assert!(key < self.ours.capacity());
            let address = std::ptr::from_ref(value).addr();
            assert_eq!(*self.addresses.entry(key).or_insert(address), address, "moved: {key}");
            assert_eq!(self.ours.as_ptr(key).unwrap().addr().get(), address);
            assert_eq!(value.number, self.theirs[key]);
        }
    }
}

fn message<T>(result: std::thread::Result<T>) -> Result<T, String> {
    result.map_err(|payload| match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload.downcast_ref::<&str>().unwrap().to_string(),
    })
}

fn run<const N: usize>(capacity: Option<usize>, ops: Vec<Op>) {
    let mut both = Both::<N> {
        ours: capacity.map_or_else(masu::Slab::new, masu::Slab::with_capacity),
        theirs: capacity.map_or_else(slab::Slab::new, slab::Slab::with_capacity),
        live: Rc::default(),
        next: 0,
        addresses: HashMap::new(),
    };
    for op in ops {
        both.apply(op);
        both.check();
    }
    let Both { ours, theirs, live, .. } = both;
    // The rest by value, but only half; the iterator drops the others.
    let half = ours.len() / 2;
    let ours: Vec<_> =
        ours.into_iter().take(half).map(|(key, value)| (key, value.number)).collect();
    assert_eq!(ours, theirs.into_iter().take(half).collect::<Vec<_>>());
    assert_eq!(live.borrow().values().sum::<i32>(), 0, "leaked");
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 128 },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn small_values(
        capacity in proptest::option::of(0usize..30),
        ops in proptest::collection::vec(op(), 1..if cfg!(miri) { 40 } else { 300 }),
    ) {
        quietly(|| run::<0>(capacity, ops));
    }

    #[test]
    fn large_values(
        capacity in proptest::option::of(0usize..30),
        ops in proptest::collection::vec(op(), 1..if cfg!(miri) { 40 } else { 200 }),
    ) {
        quietly(|| run::<100>(capacity, ops));
    }
}

/// Many panics are expected here; their messages would fill the screen.
fn quietly(test: impl FnOnce()) {
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let payload = info.payload();
            let literal = payload.downcast_ref::<&str>().copied();
            let text = literal
                .or(payload.downcast_ref::<String>().map(String::as_str))
                .unwrap_or_default();
            if text != "invalid key" && !text.contains("as asked") && !text.contains("key1 != key2")
            {
                default(info);
            }
        }));
    });
    test();
}

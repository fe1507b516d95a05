//! What is timed: batches of a hundred objects.
//!
//! Making the store, and warming it up, is part of the batch; so is the vector of handles. A cold
//! store of the first pattern is made anew for each object.

use rand::{RngExt, rngs::StdRng};
use serde::{Deserialize, Serialize};

use super::stores::Store;

/// Objects of a batch.
pub const BATCH: usize = 100;
/// Steps of a random batch.
const STEPS: usize = 2 * BATCH;

/// The order in which objects come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Each is given back before the next is taken.
    Immediate,
    /// All are taken; the last goes first.
    Lifo,
    /// All are taken; the first goes first.
    Fifo,
    /// A slot is chosen; it is emptied if it is full and filled if it is empty.
    Random,
}

impl Pattern {
    /// All of them.
    pub const ALL: [Pattern; 4] =
        [Pattern::Immediate, Pattern::Lifo, Pattern::Fifo, Pattern::Random];

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Immediate => "immediate",
            Pattern::Lifo => "lifo",
            Pattern::Fifo => "fifo",
            Pattern::Random => "random",
        }
    }

    /// By name.
    pub fn named(name: &str) -> Option<Self> {
        Pattern::ALL.into_iter().find(|pattern| pattern.name() == name)
    }
}

/// One batch with a store of its own.
pub fn batch<S: Store>(pattern: Pattern, warm: bool, rng: &mut StdRng) {
    let make = |objects| if warm { S::warm(objects) } else { S::new() };
    match pattern {
        Pattern::Immediate if warm => {
            let store = make(1);
            for _ in 0..BATCH {
                store.take(store.put());
            }
        }
        Pattern::Immediate => {
            for _ in 0..BATCH {
                let store = make(1);
                store.take(store.put());
            }
        }
        Pattern::Lifo => {
            let store = make(BATCH);
            let mut handles = Vec::with_capacity(BATCH);
            (0..BATCH).for_each(|_| handles.push(store.put()));
            while let Some(handle) = handles.pop() {
                store.take(handle);
            }
        }
        Pattern::Fifo => {
            let store = make(BATCH);
            let mut handles = Vec::with_capacity(BATCH);
            (0..BATCH).for_each(|_| handles.push(store.put()));
            handles.into_iter().for_each(|handle| store.take(handle));
        }
        Pattern::Random => {
            let store = make(BATCH);
            let mut slots: Vec<Option<S::Handle<'_>>> =
                std::iter::repeat_with(|| None).take(BATCH).collect();
            for _ in 0..STEPS {
                let slot = rng.random_range(0..BATCH);
                slots[slot] = match slots[slot].take() {
                    Some(handle) => {
                        store.take(handle);
                        None
                    }
                    None => Some(store.put()),
                };
            }
            slots.into_iter().flatten().for_each(|handle| store.take(handle));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use rand::SeedableRng;

    use super::*;

    thread_local! {
        static LOG: Cell<(usize, usize, usize, bool)> = const { Cell::new((0, 0, 0, false)) };
    }

    /// Counts what is made, put and taken, and whether the last put was the first taken.
    struct Logged(RefCell<Vec<usize>>);

    impl Store for Logged {
        type Handle<'s> = usize;
        fn new() -> Self {
            let (made, put, taken, lifo) = LOG.get();
            LOG.set((made + 1, put, taken, lifo));
            Logged(RefCell::default())
        }
        fn warm(_: usize) -> Self {
            Logged::new()
        }
        fn put(&self) -> usize {
            let (made, put, taken, lifo) = LOG.get();
            LOG.set((made, put + 1, taken, lifo));
            self.0.borrow_mut().push(put);
            put
        }
        fn take(&self, handle: usize) {
            let (made, put, taken, lifo) = LOG.get();
            let mut held = self.0.borrow_mut();
            let place = held.iter().position(|&held| held == handle).expect("it is held");
            let last = place + 1 == held.len();
            LOG.set((made, put, taken + 1, if taken == 0 { last } else { lifo }));
            held.remove(place);
        }
    }

    #[test]
    fn every_pattern_takes_back_what_it_put() {
        let run = |pattern, warm| {
            LOG.set((0, 0, 0, false));
            batch::<Logged>(pattern, warm, &mut StdRng::seed_from_u64(42));
            LOG.get()
        };
        assert_eq!(run(Pattern::Immediate, true), (1, 100, 100, true));
        assert_eq!(run(Pattern::Immediate, false), (100, 100, 100, true));
        assert_eq!(run(Pattern::Lifo, false), (1, 100, 100, true));
        assert_eq!(run(Pattern::Fifo, false), (1, 100, 100, false));
        let (made, put, taken, _) = run(Pattern::Random, true);
        assert_eq!((made, put), (1, taken));
        assert!((100..200).contains(&put), "{put}");
    }
}

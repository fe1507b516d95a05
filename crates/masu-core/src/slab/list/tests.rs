//! The list of slabs against a deque.

use super::*;
use crate::region;
use crate::slab::pool;
use proptest::prelude::*;
use std::collections::VecDeque;

/// Slabs from the pool, this test's alone until they are dropped.
struct Slabs(Vec<u32>);

impl Slabs {
    fn new(n: usize) -> Self {
        region::init().expect("address space");
        Slabs((0..n).map(|_| pool::take(false, None).expect("memory")).collect())
    }
}

impl Drop for Slabs {
    fn drop(&mut self) {
        // SAFETY: the slabs have no blocks, and the list that they were in is gone.
        self.0.iter().for_each(|slab| unsafe { pool::give(*slab) });
    }
}

#[derive(Clone, Debug)]
enum Step {
    PushFront,
    PushBack,
    PopFront,
    Remove(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::PushFront),
        Just(Step::PushBack),
        Just(Step::PopFront),
        any::<prop::sample::Index>().prop_map(Step::Remove),
    ]
}

fn agrees(list: &List, model: &VecDeque<u32>) {
    assert_eq!(list.len() as usize, model.len());
    assert_eq!(list.front(), model.front().copied());
    assert_eq!(list.back(), model.back().copied());
    let mut found = VecDeque::new();
    let mut at = list.front();
    while let Some(slab) = at {
        found.push_back(slab);
        assert!(found.len() <= model.len(), "the list does not end");
        // SAFETY: a member of the test's list.
        at = unsafe { list.after(slab) };
    }
    assert_eq!(&found, model);
}

proptest! {
    #[test]
    fn a_list_is_a_deque(steps in prop::collection::vec(step(), 1..80)) {
        let slabs = Slabs::new(12);
        let mut unused: Vec<u32> = slabs.0.clone();
        let (mut list, mut model) = (List::new(), VecDeque::new());
        for step in steps {
            // SAFETY: the slabs and the list are the test's; what is pushed is in no list, and what
            // is removed is in this one.
            unsafe {
                match step {
                    Step::PushFront => {
                        if let Some(slab) = unused.pop() {
                            list.push_front(slab);
                            model.push_front(slab);
                        }
                    }
                    Step::PushBack => {
                        if let Some(slab) = unused.pop() {
                            list.push_back(slab);
                            model.push_back(slab);
                        }
                    }
                    Step::PopFront => {
                        let popped = list.pop_front();
                        prop_assert_eq!(popped, model.pop_front());
                        unused.extend(popped);
                    }
                    Step::Remove(pick) => {
                        if !model.is_empty() {
                            let slab = model.remove(pick.index(model.len())).expect("an index");
                            list.remove(slab);
                            unused.push(slab);
                        }
                    }
                }
            }
            agrees(&list, &model);
        }
    }
}

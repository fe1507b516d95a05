//! The list of spans against a deque.

use super::*;
use crate::region;
use crate::run::Home;
use crate::span::pool;
use proptest::prelude::*;
use std::collections::VecDeque;

/// Spans from the pool, this test's alone until they are dropped.
struct Spans(Vec<u32>);

impl Spans {
    fn new(n: usize) -> Self {
        region::init().expect("address space");
        Spans((0..n).map(|_| pool::take(false, None, Home::ANY).expect("memory")).collect())
    }
}

impl Drop for Spans {
    fn drop(&mut self) {
        // SAFETY: the spans have no blocks, and their list is gone.
        self.0.iter().for_each(|span| unsafe { pool::give(*span) });
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
    while let Some(span) = at {
        found.push_back(span);
        assert!(found.len() <= model.len(), "the list does not end");
        // SAFETY: a member of the test's list.
        at = unsafe { list.after(span) };
    }
    assert_eq!(&found, model);
}

proptest! {
    #[test]
    fn a_list_is_a_deque(steps in prop::collection::vec(step(), 1..80)) {
        let spans = Spans::new(12);
        let mut unused: Vec<u32> = spans.0.clone();
        let (list, mut model) = (List::new(), VecDeque::new());
        for step in steps {
            // SAFETY: the spans and the list are the test's; what is pushed is on no list, and what
            // is removed is on this one.
            unsafe {
                match step {
                    Step::PushFront => {
                        if let Some(span) = unused.pop() {
                            list.push_front(span);
                            model.push_front(span);
                        }
                    }
                    Step::PushBack => {
                        if let Some(span) = unused.pop() {
                            list.push_back(span);
                            model.push_back(span);
                        }
                    }
                    Step::PopFront => {
                        let popped = list.pop_front();
                        prop_assert_eq!(popped, model.pop_front());
                        unused.extend(popped);
                    }
                    Step::Remove(pick) => {
                        if !model.is_empty() {
                            let span = model.remove(pick.index(model.len())).expect("an index");
                            list.remove(span);
                            unused.push(span);
                        }
                    }
                }
            }
            agrees(&list, &model);
        }
    }
}

//! Which span a thread takes on a machine with several nodes.

use super::*;
use crate::ledger::MORE_SHARDS;
use crate::own_process::alone;
use crate::region;
use crate::run::seen_on;
use crate::span::{pool, record::init};

/// Gives up a span of a shard, with a block in use.
fn give_up(class: usize, shard: usize) -> u32 {
    let span = pool::take(false, None, Home::of(shard)).expect("memory");
    // SAFETY: from the pool, this thread's alone until it is published.
    unsafe {
        init(span, class, u32::MAX - 1);
        (*record(span)).carve(span, 1).expect("it has room");
        assert!(publish(span, false));
    }
    span
}

#[test]
fn the_first_of_few_that_is_near_is_adopted() {
    alone!(the_first_of_few_that_is_near_is_adopted, || {
        const CLASS: usize = 4;
        region::init().expect("address space");
        assert!(region::map_shards(2));
        MORE_SHARDS.store(1, Ordering::Relaxed);
        let adopt = |home| adopt(CLASS, Home::of(home)).map(|(span, _)| span);
        let [near, far] = [0, 1].map(|shard| give_up(CLASS, shard));
        assert_eq!(adopt(0), Some(far), "on one node the last one that was given up");
        seen_on(1);
        let behind = [1; NEAR_LOOKED_AT].map(|shard| give_up(CLASS, shard));
        assert_eq!(adopt(1), behind.last().copied());
        assert_eq!(adopt(0), Some(near));
        assert_eq!(adopt(0), Some(behind[NEAR_LOOKED_AT - 2]), "any, if none is near");
        let near = give_up(CLASS, 0);
        let before = [1; NEAR_LOOKED_AT + 1].map(|shard| give_up(CLASS, shard));
        assert_eq!(adopt(0), Some(before[0]), "the next, if none of the first is near");
        assert_eq!(adopt(0), Some(near));
    });
}

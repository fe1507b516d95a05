//! Chains that are whole, and others.

use super::*;
use crate::run::Home;
use crate::span::{Block, pool, record};
use core::ptr::null_mut;

/// A chain of blocks of 16 bytes, backwards in steps of three, in a span that is this thread's alone.
fn link(span: u32, count: u32) -> Chain {
    let at = |n: u32| (count - n) * 3;
    for n in 0..count {
        let next = if n + 1 == count { null_mut() } else { block_at(span, at(n + 1)) };
        // SAFETY: memory of the span.
        unsafe { Block::make_free(block_at(span, at(n)), next) };
    }
    Chain { head: at(0), tail: at(count - 1), count }
}

/// What `malloc` finds instead, as such a link leads to no block.
const LEFT_TO_MALLOC: u64 = 0b1010;

#[test]
fn a_chain_is_whole_if_no_bit_of_a_link_has_changed() {
    crate::region::init().expect("address space");
    let span = pool::take(false, None, Home::ANY).expect("memory");
    // Links that other tests left in it could lead a changed one back into the chain.
    // SAFETY: memory of the span, which is this thread's alone.
    unsafe { block_at(span, 0).cast::<u8>().write_bytes(0, GRANULE) };
    for count in [2, 3, 8, 9, 15, 16, 22, 32, 63, 64] {
        let chain = link(span, count);
        // SAFETY: blocks of the span, this thread's alone.
        unsafe {
            assert!(chain.is_whole(span), "{count}");
            assert!(!Chain { count: count + 1, ..chain }.is_whole(span), "{count}");
            assert!(!Chain { count: count - 1, ..chain }.is_whole(span), "{count}");
            for n in 0..count {
                let word = block_at(span, (count - n) * 3).cast::<u64>();
                for bit in 0..64 {
                    *word ^= 1 << bit;
                    let whole = n + 1 != count && 1 << bit & LEFT_TO_MALLOC != 0;
                    assert_eq!(chain.is_whole(span), whole, "{count}, {n}, {bit}");
                    *word ^= 1 << bit;
                }
            }
            // As a flag that programs reset in each of them changes them.
            let word = |n| block_at(span, n * 3).cast::<u32>().add(1);
            let before = *word(2);
            for n in 2..=count {
                *word(n) = 7;
            }
            assert!(!chain.is_whole(span), "{count}");
            for n in 2..=count {
                *word(n) = before;
            }
        }
    }
    // SAFETY: from the pool, and nothing of it is in use. It was written to.
    unsafe {
        (*record(span)).set_touched(GRANULE as u32);
        pool::give(span);
    }
}

//! Magazines: lists of free blocks of a class, as long as the number of processors admits.

use super::super::push;
use crate::size_class::{LAST_CLASS, SIZES, SMALL_MAX, row};
use crate::span::{self, Block};
use crate::sync::{AtomicU32, Ordering, rolled, shared_static};
use crate::tuning::{MAGAZINE_BLOCKS, WHOLE_MAGAZINES_UP_TO};
use core::ptr::null_mut;

/// A list of free blocks of a class.
#[derive(Clone, Copy)]
pub struct Magazine {
    pub first: *mut Block,
    pub n: u32,
}

pub const EMPTY: Magazine = Magazine { first: null_mut(), n: 0 };

shared_static! {
    /// How often magazines are halved. Written before caches are in use.
    static SHIFT: AtomicU32 = AtomicU32::new(0);
}

/// Most blocks in a magazine, by class: no more bytes than one of the longest blocks has.
pub static MOST: [u8; LAST_CLASS + 1] = {
    let mut most = [0; LAST_CLASS + 1];
    let mut class = 1;
    while class <= LAST_CLASS {
        let n = SMALL_MAX / SIZES[class] as usize;
        most[class] = if n < MAGAZINE_BLOCKS { n as u8 } else { MAGAZINE_BLOCKS as u8 };
        class += 1;
    }
    most
};

/// Most blocks in a magazine of a class: less where there are many processors, which all have some.
#[inline]
pub fn most(class: usize) -> u32 {
    (u32::from(MOST[row(class)]) >> SHIFT.load(Ordering::Relaxed)).max(1)
}

/// Sets how long magazines are on this many processors.
pub fn bound(processors: u32) {
    let shift = (processors / WHOLE_MAGAZINES_UP_TO).max(1).ilog2();
    SHIFT.store(shift, Ordering::Relaxed);
}

impl Magazine {
    /// Gives the blocks back to their spans: those of a span in one push. Returns whether a purge may have something to do
    /// now.
    ///
    /// # Safety
    /// The magazine must be the caller's alone.
    #[cold]
    #[inline(never)]
    pub unsafe fn give_back(self, class: usize) -> bool {
        let mut all = [null_mut::<Block>(); MAGAZINE_BLOCKS];
        let (mut n, mut next) = (0, self.first);
        for place in all.iter_mut().take(self.n as usize) {
            rolled();
            *place = next;
            // SAFETY: invariant 2 of `heap::processor_cache`, and passed on.
            next = unsafe { (*next).next };
            n += 1;
        }
        let Some(blocks) = all.get_mut(..n) else { return false };
        // By address, so that those of a span come together.
        for end in 1..n {
            let sorted = blocks.iter_mut().take(end + 1).rev();
            sorted.reduce(|later, earlier| {
                rolled();
                if *earlier > *later {
                    core::mem::swap(earlier, later);
                }
                earlier
            });
        }
        let (mut chain, mut released) = (Chain::begin(null_mut()), false);
        for &block in blocks.iter().rev() {
            if chain.n == 0 || chain.span != span::span_at(block.cast()) {
                // SAFETY: as above: linked just now, and given up here.
                released |= unsafe { chain.push(class) };
                chain = Chain::begin(block);
            }
            // SAFETY: as above.
            unsafe { Block::make_free(block, chain.first) };
            (chain.first, chain.n) = (block, chain.n + 1);
        }
        // SAFETY: as above.
        released | unsafe { chain.push(class) }
    }
}

/// Blocks of one span, linked in the order of their addresses.
struct Chain {
    span: u32,
    first: *mut Block,
    last: *mut Block,
    n: u32,
}

impl Chain {
    /// An empty one, whose last block will be this one.
    fn begin(last: *mut Block) -> Self {
        Chain { span: span::span_at(last.cast()), first: null_mut(), last, n: 0 }
    }

    /// Gives it back. Returns as [`Magazine::give_back`].
    ///
    /// # Safety
    /// The blocks must be the caller's.
    unsafe fn push(&self, class: usize) -> bool {
        let ends = (span::sixteenths(self.first), span::sixteenths(self.last));
        // SAFETY: passed on: freed blocks of the span.
        self.n != 0 && unsafe { push::push(None, self.span, class, ends, self.n) }
    }
}

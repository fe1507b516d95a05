//! What an outbox is: its slots, and how many blocks the chain of one may have.

use crate::holder::Holder;
use crate::region::{GRANULE, NIL};
use crate::size_class::{LAST_CLASS, SIZES};
use crate::span::Block;
use crate::sync::{Cell, array_of, const_unless_loom};
use crate::tuning::{CHAIN, CHAIN_OF_SMALL, SLOTS};
#[cfg(not(loom))]
use core::mem::offset_of;

/// Most blocks in a chain of a class: a row for all slots, and one for an oversubscribed process.
pub static MOST: [[u8; LAST_CLASS + 1]; 2] = [most_of(CHAIN.1), most_of(CHAIN_OF_SMALL.1)];

const fn most_of(bytes: usize) -> [u8; LAST_CLASS + 1] {
    let mut out = [0; LAST_CLASS + 1];
    let mut class = 1;
    while class <= LAST_CLASS {
        let size = SIZES[class] as usize;
        let (few, many) = (bytes / size, CHAIN_OF_SMALL.1 / size);
        let few = if few > CHAIN.0 as usize { CHAIN.0 as usize } else { few };
        let many = if many > MOST_OF_ALL as usize { MOST_OF_ALL as usize } else { many };
        let n = if few > many { few } else { many };
        out[class] = if n == 0 { 1 } else { n as u8 };
        class += 1;
    }
    out
}

/// Most blocks in a chain of a class, in a process that is not oversubscribed.
#[inline(always)]
pub fn most_usual(class: usize) -> u32 {
    debug_assert!(class <= LAST_CLASS);
    // SAFETY: invariant 1 of `span::bound`.
    unsafe { *MOST[0].get_unchecked(class) }.into()
}

/// A thread's outbox.
pub struct Outbox {
    /// Notes when a block was put into an empty outbox.
    pub(super) holder: Holder,
    /// Slots in use, a power of two, less one.
    pub(super) mask: Cell<u32>,
    /// The slot that was last looked at, in a count that goes on.
    pub(super) hand: Cell<u32>,
    /// A bit for each class of which there has been a chain. Owner only.
    pub(super) classes: Cell<u64>,
    /// Blocks and bytes that the purge has sent and that are not counted yet.
    pub(super) visited: (Cell<u64>, Cell<u64>),
    pub(super) slots: [Slot; SLOTS],
    /// For each slot's chain, the last block's offset / 16.
    pub(super) ends: [Cell<u16>; SLOTS],
}

impl Outbox {
    /// Where the mask and the slots are, and in a slot the chain and the span.
    #[cfg(not(loom))]
    pub const FIELDS: [usize; 4] = [
        offset_of!(Outbox, mask),
        offset_of!(Outbox, slots),
        offset_of!(Slot, left),
        offset_of!(Slot, span),
    ];
    /// Bytes of a slot.
    #[cfg(not(loom))]
    pub const SLOT: usize = size_of::<Slot>();
    /// Of the word that begins a slot, the bits that say what a chain still takes, 0 if there is
    /// none.
    #[cfg(not(loom))]
    pub const LEFT_MASK: usize = 0xff;

    const_unless_loom! {
        /// An empty outbox.
        pub fn new() -> Self {
            Outbox {
                holder: Holder::new(),
                mask: Cell::new(SLOTS as u32 - 1),
                hand: Cell::new(0),
                classes: Cell::new(0),
                visited: (Cell::new(0), Cell::new(0)),
                slots: array_of!(Slot::new(); SLOTS),
                ends: array_of!(Cell::new(0); SLOTS),
            }
        }
    }
}

/// A slot, eight bytes, so that a free into its chain takes few loads and stores. Only a handover asks where the chain
/// ends: see [`Outbox`].
#[repr(C)]
pub struct Slot {
    /// Whose chain it is, or was last; `NIL` before that. Only the owner writes it, and may read it outside the
    /// handshake, too.
    pub span: Cell<u32>,
    /// The lower half of the first block's address, which lies in the span.
    pub first: Cell<u16>,
    /// How many more blocks the chain takes; 0 if there is no chain.
    pub left: Cell<u8>,
    /// What `left` was at the last look at the slot.
    pub seen: Cell<u8>,
}

impl Slot {
    const_unless_loom! {
        /// A slot without a chain.
        pub fn new() -> Self {
            Slot {
                span: Cell::new(NIL),
                first: Cell::new(0),
                left: Cell::new(0),
                seen: Cell::new(0),
            }
        }
    }

    /// Puts a block in front of the chain: a link is the block's own address with the offset of the one before it.
    ///
    /// # Safety
    /// It must be a freed block of the chain's span, which the caller gives up.
    #[inline(always)]
    pub unsafe fn push(&self, block: *mut Block) {
        // SAFETY: passed on.
        unsafe { self.link(block) };
        self.first.set(block.addr() as u16);
    }

    /// Links a block to the chain, of which it is no part yet.
    ///
    /// # Safety
    /// As for [`push`](Self::push).
    #[inline(always)]
    pub unsafe fn link(&self, block: *mut Block) {
        let first = usize::from(self.first.get());
        // SAFETY: as the caller says.
        unsafe { Block::make_free(block, block.map_addr(|at| at & !(GRANULE - 1) | first)) };
    }
}

/// Most blocks in any chain.
const MOST_OF_ALL: u32 = CHAIN_OF_SMALL.0;

const _: () = assert!(size_of::<Slot>() == 8 || cfg!(loom));
const _: () =
    assert!(CHAIN.0 <= MOST_OF_ALL && MOST_OF_ALL <= i8::MAX as u32 && GRANULE == 1 << 16);

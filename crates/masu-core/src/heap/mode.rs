//! The circumstances of a heap, and what the heap keeps because of them.
//!
//! A span that a heap gives up serves the thread that needs one first, or the purge. But its own thread then
//! frees into it as if it were another's, and others put their blocks there. So a heap whose blocks stay with
//! its thread keeps much, and one whose blocks cross to other threads keeps little.
//!
//! The mode is looked up where something is decided, and not noted once a tick: threads come and go, and
//! blocks begin to cross, a thousand times faster than the clock ticks.

use super::record::{Heap, Role};
use super::table;
use crate::size_class::row;
use crate::tuning::{BATCHES, NEVER_BORROW};

/// What goes on around a heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// No second thread has ever allocated, so no other thread could use what is given up, or freed a block, so nothing
    /// comes back from others; or it is a first-class heap, which never gives up spans.
    Alone,
    /// No block has lately crossed between the heap's thread and others.
    Private,
    /// Some blocks have.
    Sharing,
    /// There are many more threads than processors, so most of them sleep on what they have.
    Oversubscribed,
    /// It is the shared arena, whose blocks are all freed by others.
    Lending,
}

/// What a heap keeps, by `docs/experiments.md`, §2. Beyond that it gives up the oldest, unless its thread claims them
/// back (`retain`).
pub struct Retention {
    /// Full spans of a class.
    pub full_of_class: u32,
    /// Partial spans of a class.
    pub partial: u32,
    /// Whether it keeps what was not used for two ticks.
    pub rested: bool,
}

const ALL: u32 = u32::MAX;

/// Much, but not everything: it is out of others' reach when the thread rests and another thread frees all that lies in
/// it, as a garbage collector does.
const MUCH: Retention = Retention { full_of_class: ALL, partial: 256, rested: true };
/// The threads of a server's pool work in turns and sleep in between: each would keep spans for every class
/// that it ever used, while the thread whose turn it is takes fresh ones.
const LITTLE: Retention =
    Retention { full_of_class: 8, partial: if cfg!(loom) { 1 } else { 4 }, rested: false };
const NO_FULL: Retention = Retention { full_of_class: 0, ..LITTLE };

impl Mode {
    /// What a heap keeps; `None` if everything.
    #[inline]
    pub fn retention(self) -> Option<&'static Retention> {
        match self {
            Mode::Alone => None,
            Mode::Private => Some(&MUCH),
            Mode::Sharing | Mode::Oversubscribed => Some(&LITTLE),
            Mode::Lending => Some(&NO_FULL),
        }
    }
}

impl Heap {
    /// What goes on around it.
    #[inline]
    pub(crate) fn mode(&self) -> Mode {
        if table::is_alone() { Mode::Alone } else { self.mode_among_others() }
    }

    /// Whether it may have taken blocks from the shared arena.
    #[inline]
    pub(crate) fn may_borrow(&self) -> bool {
        self.index.get() >= NEVER_BORROW
    }

    /// Whether it still takes its blocks of the class from the shared arena.
    pub(crate) fn borrows(&self, class: usize) -> bool {
        self.may_borrow()
            && (self.borrowed[row(class)].get() < BATCHES || self.mode() == Mode::Oversubscribed)
    }

    #[inline(never)]
    fn mode_among_others(&self) -> Mode {
        match self.role.get() {
            Role::Arena => Mode::Alone,
            Role::SharedArena => Mode::Lending,
            _ if table::is_oversubscribed() => Mode::Oversubscribed,
            _ if self.is_shared() => Mode::Sharing,
            _ => Mode::Private,
        }
    }
}

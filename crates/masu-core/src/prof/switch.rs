//! Whether a profile is being taken, and who switches it: the program, or a command that writes to the process from
//! outside.
//!
//! ```text
//!  outside, [`ask`]                          inside
//!    rate = 0
//!    guest = its process
//!    session = 0
//!    rate = what it wants ─────────────────▶ the next slow path finds a rate and no session: [`Switch::answer`]
//!    waits for a session  ◀───────────────── makes the table ready, session = the next number
//!    reads the table …
//!    rate = 0, guest = 0
//! ```
//!
//! Invariants:
//! 1. a request is answered once: what a session has sampled is not cleared by another answer to the same request.
//! 2. an answer takes the rate that was asked for with it, not that of a command that was killed and has left its rate
//!    on: that is 0 before the session is.
//! 3. a thread that sees a session's number sees the table that was made ready for it.
//!
//! | word | written with | read with |
//! |---|---|---|
//! | `session` | release; outside by a system call of its own | acquire, and again under the table's lock |
//! | `rate`, `guest` | relaxed, before that; the wanted rate after it | relaxed |

use crate::sync::{AtomicU32, AtomicUsize, Ordering, const_unless_loom};

/// The words that are written from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// Mean distance of sample points, 64 bits.
    Rate,
    /// The session, 32 bits.
    Session,
    /// The process that asks, 32 bits.
    Guest,
}

/// The switch; all zero is off.
#[repr(C)]
pub struct Switch {
    /// Mean distance of sample points in bytes; 0 if off.
    rate: AtomicUsize,
    /// The number of the start that is in force, from 1; 0 if one is asked for from outside.
    session: AtomicU32,
    /// The process outside that has switched the profile on; 0 if the program has.
    guest: AtomicU32,
    /// The process that has answered it.
    host: AtomicU32,
    /// Starts so far.
    sessions: AtomicU32,
}

/// Asks for a profile from outside; `write` writes a word there.
///
/// # Errors
/// Those of `write`.
pub fn ask<E>(
    guest: u32,
    rate: u64,
    mut write: impl FnMut(Word, u64) -> Result<(), E>,
) -> Result<(), E> {
    write(Word::Rate, 0)?;
    write(Word::Guest, guest.into())?;
    write(Word::Session, 0)?;
    write(Word::Rate, rate)
}

impl Switch {
    const_unless_loom! {
        /// Off.
        pub fn new() -> Self {
            Switch {
                rate: AtomicUsize::new(0),
                session: AtomicU32::new(0),
                guest: AtomicU32::new(0),
                host: AtomicU32::new(0),
                sessions: AtomicU32::new(0),
            }
        }
    }

    /// Where the words that are written from outside lie.
    #[cfg(not(loom))]
    pub const WORDS: [usize; 3] = [
        core::mem::offset_of!(Switch, rate),
        core::mem::offset_of!(Switch, session),
        core::mem::offset_of!(Switch, guest),
    ];

    /// Mean distance of sample points in bytes; 0 if off.
    #[inline(always)]
    pub fn rate(&self) -> usize {
        self.rate.load(Ordering::Relaxed)
    }

    /// The number of the start that is in force; 0 if one is to be answered.
    #[inline(always)]
    pub fn session(&self) -> u32 {
        self.session.load(Ordering::Acquire)
    }

    /// Whether a profile was asked for from outside, and the request is still unanswered.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.session() == 0 && self.rate() != 0
    }

    /// Switches the profile on, or to another rate, by the program itself.
    pub fn start(&self, rate: usize) {
        self.guest.store(0, Ordering::Relaxed);
        self.begin();
        self.rate.store(rate, Ordering::Release);
    }

    /// Switches the profile off.
    pub fn stop(&self) {
        self.rate.store(0, Ordering::Relaxed);
    }

    fn begin(&self) {
        let number = self.sessions.fetch_add(1, Ordering::Relaxed) + 1;
        self.session.store(number, Ordering::Release);
    }

    /// Answers a request from outside: `enter` takes the table's lock, `ready` makes the table ready. Returns `false`
    /// if that is not possible now.
    pub fn answer<G>(
        &self,
        process: u32,
        enter: impl FnOnce(usize) -> Option<G>,
        ready: impl FnOnce(&G, usize),
    ) -> bool {
        let rate = self.rate();
        if rate == 0 {
            return false;
        }
        let Some(guard) = enter(rate) else { return false };
        // Another thread may have been first (invariant 1).
        if self.session() == 0 {
            ready(&guard, rate);
            self.host.store(process, Ordering::Relaxed);
            self.begin();
        }
        true
    }

    /// Whether this process is a fork's child whose parent's profile was switched on from outside, by a command that
    /// knows nothing of the child: then it stops the profile here. (A process with one thread has no handlers that a
    /// fork would call.)
    pub fn is_left_behind(&self, process: impl FnOnce() -> u32) -> bool {
        let left = self.guest.load(Ordering::Relaxed) != 0
            && self.host.load(Ordering::Relaxed) != process();
        if left {
            self.guest.store(0, Ordering::Relaxed);
            self.stop();
        }
        left
    }

    /// Writes a word as a command outside does.
    #[cfg(test)]
    pub fn write(&self, word: Word, value: u64) {
        match word {
            Word::Rate => self.rate.store(value as usize, Ordering::Relaxed),
            Word::Session => self.session.store(value as u32, Ordering::Release),
            Word::Guest => self.guest.store(value as u32, Ordering::Relaxed),
        }
    }
}

//! What a thread, or all threads without a heap on a processor, are sampled by: the distances to what is drawn next.

use super::gap::{FAR, Gap};
use super::pace::Pace;
use crate::features;
use crate::guard;
use crate::prof::{self, Draw};
use crate::sys::time;
use core::cell::Cell;
use core::ptr::from_ref;

/// What a request can be drawn for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Drawn {
    /// The profile, with the step that its coin was thrown at.
    pub sample: Option<u8>,
    /// A place between guards.
    pub guarded: bool,
}

impl Drawn {
    /// Nothing.
    pub const NOTHING: Drawn = Drawn { sample: None, guarded: false };
}

/// The state of a thread, or of a processor's threads without a heap. All zero bytes are a valid one, whose first look
/// draws.
pub struct Sampling {
    /// The number of the start that `sample` was drawn for; 0 if there is none.
    session: Cell<u32>,
    /// Distance to the profile's next sample, in bytes, which the pace stretches.
    sample: Gap,
    /// By how much.
    pace: Pace,
    /// Distance to the next guarded block, in small blocks.
    pub guarded: Gap,
    /// State of the generator from which distances are drawn.
    pub generator: Cell<u64>,
    /// Bit per class: its next request is a sample.
    pub samples: Cell<u64>,
    /// Bit per class: its next request is to be guarded.
    pub guards: Cell<u64>,
    /// What the request that is being served was drawn for.
    pub hit: Cell<Drawn>,
    /// The thread does not take part in profiles.
    pub muted: Cell<bool>,
    /// Where every block is recorded, the site of the request that is being served; 0 if it is not known
    /// yet.
    pub site: Cell<u32>,
}

impl Sampling {
    /// Nothing drawn.
    pub const fn new() -> Self {
        Sampling {
            session: Cell::new(0),
            sample: Gap::new(),
            pace: Pace::new(),
            guarded: Gap::new(),
            generator: Cell::new(0),
            samples: Cell::new(0),
            guards: Cell::new(0),
            hit: Cell::new(Drawn::NOTHING),
            muted: Cell::new(false),
            site: Cell::new(0),
        }
    }

    /// Sets the distances to those of the current start and rates.
    #[inline]
    pub fn follow(&self) {
        let session = if prof::rate() == 0 { 0 } else { prof::session() };
        if self.session.get() != session || self.guarded.rate.get() != guard::rate() {
            self.begin(session);
        }
    }

    #[cold]
    fn begin(&self, session: u32) {
        if self.generator.get() == 0 {
            self.generator
                .set(Draw::new(from_ref(self).addr() as u64 ^ time::nanoseconds()).state());
        }
        if self.session.replace(session) != session {
            self.samples.set(0);
            self.sample.rate.set(prof::rate().max(1));
            self.pace.begin();
            self.redraw_sample();
        }
        if self.guarded.rate.replace(guard::rate()) != guard::rate() {
            self.guards.set(0);
            self.redraw_guarded();
        }
        self.hit.set(Drawn::NOTHING);
    }

    /// Forgets the start that the thread takes part in, and the samples to come: the next look draws anew.
    pub fn leave_session(&self) {
        self.session.set(0);
        self.samples.set(0);
        self.sample.left.set(FAR);
    }

    /// Becomes that of another thread. A thread that a fork has left behind may have stopped in the middle of a request:
    /// what that was drawn for is not for the next one.
    pub fn end(&self) {
        self.hit.set(Drawn::NOTHING);
        self.site.set(0);
        if self.muted.replace(false) {
            self.leave_session();
        }
    }

    fn redraw_sample(&self) {
        // Without a start there is nothing yet in which samples could be kept.
        if self.muted.get() || self.session.get() == 0 {
            return self.sample.left.set(FAR);
        }
        let mut draw = Draw::of(self.generator.get());
        self.sample.left.set(draw.distance(self.rate_at(self.pace.step())));
        self.generator.set(draw.state());
    }

    /// The mean distance of samples at a step.
    pub fn rate_at(&self, step: u8) -> usize {
        self.sample.rate.get() << step
    }

    /// A sample was taken: later ones may have to be further apart, or closer.
    pub fn keep_pace(&self) {
        let (rate, left) = (self.sample.rate.get(), self.sample.left.get());
        if self.session.get() != 0 && left != FAR {
            self.sample.left.set(self.pace.sampled(rate, left));
        }
    }

    /// A tick has passed. Always inlined, because every program gets here, and few need the rest of this file.
    #[inline(always)]
    pub fn on_tick(&self) {
        if features::PROF && self.pace.step() != 0 && self.session.get() != 0 {
            self.sample.left.set(self.pace.on_tick(self.sample.left.get()));
        }
    }

    pub fn redraw_guarded(&self) {
        if self.guarded.rate.get() == 0 {
            return self.guarded.left.set(FAR);
        }
        let mut draw = Draw::of(self.generator.get());
        self.guarded.left.set(draw.blocks(self.guarded.rate.get()));
        self.generator.set(draw.state());
    }

    /// Throws the profile's coin for a block of `size` bytes that is handed out.
    fn throw(&self, size: usize) -> bool {
        self.follow();
        let drawn = self.sample.pass(size as u64);
        if drawn {
            self.redraw_sample();
        }
        drawn
    }

    /// The same. Returns the rate at which the block was drawn, 0 if it was not.
    #[inline(never)]
    pub fn draw(&self, size: usize) -> usize {
        if self.passes(size as u64) { 0 } else { self.draw_if_thrown(size) }
    }

    #[cold]
    #[inline(never)]
    fn draw_if_thrown(&self, size: usize) -> usize {
        if !self.throw(size) || self.session.get() == 0 {
            return 0;
        }
        let rate = self.rate_at(self.pace.step());
        self.keep_pace();
        rate
    }

    /// Whether no sample lies in this many bytes of blocks: then they are passed. If guards are drawn too, the answer is
    /// no.
    #[inline(always)]
    pub fn passes(&self, bytes: u64) -> bool {
        let left = self.sample.left.get();
        let passes = left >= bytes
            && self.session.get() == prof::session()
            && guard::rate() | self.guarded.rate.get() == 0;
        if passes {
            self.sample.left.set(left - bytes);
        }
        passes
    }

    /// Throws the coins for `n` small blocks in a row. Returns how many come before the first that is drawn, and
    /// what it is drawn for.
    pub fn throw_many(&self, size: usize, n: u32) -> (u32, Drawn) {
        self.follow();
        let (bytes, blocks) = (u64::from(n) * size as u64, u64::from(n));
        if self.sample.left.get() >= bytes && self.guarded.left.get() >= blocks {
            self.sample.pass(bytes);
            self.guarded.pass(blocks);
            return (n, Drawn::NOTHING);
        }
        let before = self.sample.before(size, n).min(self.guarded.before(1, n));
        let passed = u64::from(n.min(before + 1));
        let drawn = Drawn {
            sample: self.sample.pass(passed * size as u64).then_some(self.pace.step()),
            guarded: self.guarded.pass(passed),
        };
        if drawn.sample.is_some() {
            self.redraw_sample();
        }
        if drawn.guarded {
            self.redraw_guarded();
        }
        (before, drawn)
    }

    /// Bit per class: its next request was drawn.
    #[inline]
    pub fn marks(&self) -> u64 {
        self.samples.get() | self.guards.get()
    }

    pub fn is_marked(&self, class: usize) -> bool {
        self.marks() >> class & 1 != 0
    }

    pub fn mark(&self, class: usize, drawn: Drawn) {
        if let Some(step) = drawn.sample {
            self.pace.mark(class, step);
        }
        for (marks, is) in [(&self.samples, drawn.sample.is_some()), (&self.guards, drawn.guarded)]
        {
            marks.set(marks.get() | u64::from(is) << class);
        }
    }

    /// Takes a class's marks away.
    #[inline]
    pub fn unmark(&self, class: usize) {
        for marks in [&self.samples, &self.guards] {
            marks.set(marks.get() & !(1 << class));
        }
    }

    /// What a class's marks say.
    pub fn marked(&self, class: usize) -> Drawn {
        let is_in = |marks: &Cell<u64>| marks.get() >> class & 1 != 0;
        let sample = is_in(&self.samples).then(|| self.pace.of_mark(class));
        Drawn { sample, guarded: is_in(&self.guards) }
    }
}

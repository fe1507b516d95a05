//! One thread's share of the work.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use fastrand::Rng;

use crate::Options;
use crate::block::Block;
use crate::calls::{Fault, How};
use crate::exchange::Exchange;
use crate::model::Model;
use crate::sizes::{Mood, alignment, log_uniform};

/// What all threads share.
pub struct Shared {
    pub options: Options,
    pub seed: u64,
    pub model: Model,
    pub exchange: Exchange,
    /// How often each operation was done, in the order of [`OPERATIONS`].
    pub totals: [AtomicU64; OPERATIONS.len()],
    deadline: Instant,
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Allocate,
    Calloc,
    Align,
    Free,
    Realloc,
    Reallocarray,
    Overflow,
    Extend,
    Inspect,
    Send,
    Receive,
    Trim,
    Fork,
    Exit,
}

/// Every operation.
pub const OPERATIONS: [Operation; 14] = [
    Operation::Allocate,
    Operation::Calloc,
    Operation::Align,
    Operation::Free,
    Operation::Realloc,
    Operation::Reallocarray,
    Operation::Overflow,
    Operation::Extend,
    Operation::Inspect,
    Operation::Send,
    Operation::Receive,
    Operation::Trim,
    Operation::Fork,
    Operation::Exit,
];

impl Shared {
    /// Nothing is live.
    pub fn new(options: Options, seed: u64, deadline: Instant) -> Self {
        let exchange = Exchange::new(options.threads);
        let totals = Default::default();
        Self { options, seed, model: Model::new(), exchange, totals, deadline }
    }

    /// Print a fault and how to reproduce it, and abort.
    pub fn report(&self, fault: &str, place: &str) -> ! {
        let Options { threads, largest, live_mib, natural_alignment, .. } = self.options;
        let text = format!(
            "fault: {fault}\n  at {place}\n  again: fuzz_ops --seed {} --threads {threads} \
             --largest {largest} --live-mib {live_mib} --natural-alignment {natural_alignment}\n",
            self.seed
        );
        // SAFETY: the text is as long as stated. No lock is taken: another thread of a forked
        // child's parent may have held it.
        unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
        std::process::abort();
    }
}

/// Blocks that a thread frees while its thread-local storage is torn down.
struct Last(RefCell<Vec<(Arc<Shared>, Block)>>);

impl Drop for Last {
    fn drop(&mut self) {
        for (shared, block) in self.0.take() {
            shared.retire(block).unwrap_or_else(|f| shared.report(&f, "a thread's teardown"));
        }
    }
}

thread_local! {
    static LAST: Last = const { Last(RefCell::new(Vec::new())) };
}

/// How a worker ended.
pub struct Ended {
    /// Whether the slot's work is over.
    pub over: bool,
    /// Steps done in the slot.
    pub steps: u64,
}

/// A thread at work.
pub struct Worker {
    pub shared: Arc<Shared>,
    pub blocks: Vec<Block>,
    pub random: Rng,
    /// The high half of the ids it gives out.
    pub name: u64,
    /// Whether this is a forked child, which has no other threads to exchange blocks with.
    pub alone: bool,
    slot: usize,
    bytes: usize,
    given: u64,
    steps: u64,
    mood: Mood,
}

impl Worker {
    /// The worker of one generation in a slot.
    pub fn new(shared: Arc<Shared>, slot: usize, generation: u64, steps: u64) -> Self {
        let name = (slot as u64) << 24 | generation;
        let mut random = Rng::with_seed(shared.seed ^ name.wrapping_mul(0xd129_42f4_23bb_3a2d));
        let mood = Mood::draw(&mut random, shared.options.largest);
        let blocks = Vec::new();
        Self { shared, blocks, random, name, alone: false, slot, bytes: 0, given: 0, steps, mood }
    }

    /// Work until the time is up, the steps are done, or it is this thread's turn to be replaced.
    pub fn run(mut self) -> Ended {
        let limit = self.shared.options.ops;
        let over = loop {
            if limit > 0 && self.steps >= limit
                || self.steps.is_multiple_of(256) && Instant::now() >= self.shared.deadline
            {
                break true;
            }
            if self.step() == Operation::Exit {
                break false;
            }
        };
        let steps = self.steps;
        self.leave();
        Ended { over, steps }
    }

    /// One operation. A fault ends the program.
    pub fn step(&mut self) -> Operation {
        self.steps += 1;
        let operation = self.choose();
        self.attempt(operation).unwrap_or_else(|fault| {
            let Self { slot, steps, name, .. } = self;
            let child = if self.alone { " of a forked child" } else { "" };
            let place = format!("{operation:?}, step {steps} in slot {slot}, id {name:#x}{child}");
            self.shared.report(&fault, &place)
        });
        self.shared.totals[operation as usize].fetch_add(1, Ordering::Relaxed);
        operation
    }

    fn choose(&mut self) -> Operation {
        if self.mood.steps == 0 {
            self.mood = Mood::draw(&mut self.random, self.shared.options.largest);
        }
        self.mood.steps -= 1;
        let full = self.bytes > self.shared.options.live_mib << 20;
        let grow = !full && self.blocks.len() < self.mood.target;
        match self.random.u32(0..100_000) {
            0..8 if !self.shared.options.no_fork => Operation::Fork,
            8..20 => Operation::Trim,
            20..60 => Operation::Exit,
            60..500 => Operation::Overflow,
            500..6_000 => Operation::Extend,
            6_000..14_000 => Operation::Inspect,
            14_000..22_000 => Operation::Send,
            22_000..28_000 => Operation::Receive,
            28_000..40_000 => Operation::Realloc,
            40_000..44_000 => Operation::Reallocarray,
            44_000..60_000 if grow => Operation::Free,
            60_000..68_000 if grow => Operation::Align,
            68_000..78_000 if grow => Operation::Calloc,
            _ if grow => Operation::Allocate,
            44_000..52_000 if !full => Operation::Allocate,
            52_000..54_000 if !full => Operation::Align,
            54_000..58_000 if !full => Operation::Calloc,
            _ => Operation::Free,
        }
    }

    fn attempt(&mut self, operation: Operation) -> Result<(), Fault> {
        match operation {
            Operation::Allocate => {
                let null = self.random.u32(0..16) == 0;
                self.allocate(if null { How::ReallocNull } else { How::Malloc })
            }
            Operation::Calloc => {
                let members = 1 + log_uniform(&mut self.random, 100);
                self.allocate(How::Calloc(members))
            }
            Operation::Align => {
                let align = alignment(&mut self.random);
                let hows = [How::PosixMemalign, How::AlignedAlloc, How::Memalign];
                let how = hows[self.random.usize(0..hows.len())];
                self.allocate(how(align))
            }
            Operation::Realloc => self.reallocate(false),
            Operation::Reallocarray => self.reallocate(true),
            Operation::Trim => {
                // SAFETY: malloc_trim may be called at any time.
                #[cfg(target_env = "gnu")]
                unsafe {
                    libc::malloc_trim(0)
                };
                Ok(())
            }
            Operation::Fork if !self.alone => self.fork(),
            Operation::Receive if !self.alone => self.receive(),
            Operation::Fork | Operation::Receive | Operation::Exit => Ok(()),
            Operation::Free => self.take().map_or(Ok(()), |block| self.shared.retire(block)),
            Operation::Overflow => self.look(Shared::overflow),
            Operation::Inspect => self.look(Shared::check),
            Operation::Extend => {
                let Some(block) = self.take() else { return Ok(()) };
                let block = self.shared.extend(block)?;
                self.hold(block);
                Ok(())
            }
            Operation::Send => {
                let slots = self.shared.options.threads;
                let to = self.random.usize(0..slots);
                match self.take() {
                    Some(block) if self.alone => self.shared.retire(block)?,
                    Some(block) => self.shared.exchange.send(to, block),
                    None => (),
                }
                Ok(())
            }
        }
    }

    fn allocate(&mut self, how: How) -> Result<(), Fault> {
        let size = self.mood.size(&mut self.random, self.shared.options.largest);
        let sampled = size > 16 << 10 && self.random.u32(0..8) != 0;
        let id = self.id();
        let block = self.shared.allocate(how, size, id, sampled)?;
        self.hold(block);
        Ok(())
    }

    fn reallocate(&mut self, array: bool) -> Result<(), Fault> {
        let largest = self.shared.options.largest;
        let Some(block) = self.take() else { return Ok(()) };
        let size = match self.random.u32(0..10) {
            0..3 => self.mood.size(&mut self.random, largest),
            3..5 => block.len * 2,
            5 => block.len / 2,
            6 => block.len + block.len / 2,
            7 => block.len.saturating_sub(self.random.usize(1..64)),
            _ => block.len + self.random.usize(1..64),
        };
        let members = array.then(|| 1 + log_uniform(&mut self.random, 100));
        let id = self.id();
        if let Some(block) = self.shared.reallocate(block, size.min(largest), members, id)? {
            self.hold(block);
        }
        Ok(())
    }

    /// Take what others sent; free most of it and keep the rest.
    fn receive(&mut self) -> Result<(), Fault> {
        let most = 1 + log_uniform(&mut self.random, 64);
        for block in self.shared.exchange.receive(self.slot, most) {
            if self.random.u32(0..4) == 0 {
                self.hold(block);
            } else {
                self.shared.retire(block)?;
            }
        }
        Ok(())
    }

    /// A thread that ends leaves blocks to others, and some to its thread-local destructors.
    fn leave(mut self) {
        let slots = self.shared.options.threads;
        for block in std::mem::take(&mut self.blocks) {
            match self.random.u32(0..16) {
                0 => LAST.with(|last| last.0.borrow_mut().push((self.shared.clone(), block))),
                1..8 => self.shared.exchange.send(self.random.usize(0..slots), block),
                _ => self
                    .shared
                    .retire(block)
                    .unwrap_or_else(|fault| self.shared.report(&fault, "a thread's end")),
            }
        }
    }

    /// A fresh id.
    pub fn id(&mut self) -> u64 {
        self.given += 1;
        self.name << 32 | self.given
    }

    /// Take ownership of a block.
    pub fn hold(&mut self, block: Block) {
        self.bytes += block.len;
        self.blocks.push(block);
    }

    /// Give up a random block.
    pub fn take(&mut self) -> Option<Block> {
        let index = self.random.usize(0..self.blocks.len().max(1));
        let block = (index < self.blocks.len()).then(|| self.blocks.swap_remove(index))?;
        self.bytes -= block.len;
        Some(block)
    }

    /// Apply a check to a random block.
    fn look(&mut self, at: fn(&Shared, &Block) -> Result<(), Fault>) -> Result<(), Fault> {
        let index = self.random.usize(0..self.blocks.len().max(1));
        self.blocks.get(index).map_or(Ok(()), |block| at(&self.shared, block))
    }
}

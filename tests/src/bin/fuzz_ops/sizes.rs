//! Which sizes are asked for.
//!
//! Uniformly random operations keep an allocator in one comfortable state. Instead, a worker goes
//! through moods: for a while it uses sizes of one kind and drives the number of blocks it holds
//! up or down, so that spans fill, empty, change class, and chunks merge and split.

use fastrand::Rng;

/// The kind of sizes that a worker uses for a while.
#[derive(Clone, Copy)]
enum Kind {
    /// All sizes up to the largest, small ones much more often.
    Mixed,
    /// One size, give or take a little.
    One(usize),
    /// Up to this many bytes, each doubling as often as any other.
    UpTo(usize),
}

/// A mood.
pub struct Mood {
    kind: Kind,
    /// The number of blocks that the worker drifts towards.
    pub target: usize,
    /// Steps until the next mood.
    pub steps: u32,
}

impl Mood {
    /// The next mood.
    pub fn draw(random: &mut Rng, largest: usize) -> Self {
        let (kind, most) = match random.u32(0..10) {
            0..4 => (Kind::Mixed, 4000),
            4..7 => (Kind::One(log_uniform(random, 9000)), 6000),
            7 => (Kind::UpTo(1024), 8000),
            8 => (Kind::UpTo(256 << 10), 500),
            _ => (Kind::UpTo(largest), 50),
        };
        // Often none at all: where everything is freed, memory is given back.
        let target = if random.u32(0..3) == 0 { 0 } else { random.usize(0..most) };
        Self { kind, target, steps: random.u32(100..4000) }
    }

    /// A size.
    pub fn size(&self, random: &mut Rng, largest: usize) -> usize {
        let size = match self.kind {
            Kind::Mixed => {
                let limit = match random.u32(0..1000) {
                    0..750 => 4 << 10,
                    750..950 => 64 << 10,
                    950..995 => 1 << 20,
                    _ => largest,
                };
                log_uniform(random, limit)
            }
            Kind::One(size) => size + random.usize(0..8),
            Kind::UpTo(limit) => log_uniform(random, limit),
        };
        size.min(largest)
    }
}

/// From 0 to `limit`; each doubling is as likely as any other.
pub fn log_uniform(random: &mut Rng, limit: usize) -> usize {
    let bits = random.u32(0..=limit.max(1).ilog2());
    (random.usize(0..1 << bits) | (1 << bits) >> 1).min(limit)
}

/// A power of two from the least that `posix_memalign` takes to 64 KiB, seldom up to 1 MiB.
pub fn alignment(random: &mut Rng) -> usize {
    let most = if random.u32(0..64) == 0 { 20 } else { 16 };
    1 << random.u32(3..=most)
}

//! The allocator that the programs of this package use, and what they have in common.

#[cfg(feature = "masu")]
#[global_allocator]
static GLOBAL: masu::Masu = masu::Masu;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(feature = "snmalloc")]
#[global_allocator]
static GLOBAL: snmalloc_rs::SnMalloc = snmalloc_rs::SnMalloc;

/// The allocator's name.
pub const ALLOCATOR: &str = if cfg!(feature = "masu") {
    "masu"
} else if cfg!(feature = "jemalloc") {
    "jemalloc"
} else if cfg!(feature = "mimalloc") {
    "mimalloc"
} else if cfg!(feature = "snmalloc") {
    "snmalloc"
} else {
    "system"
};

/// Ends a program: which allocator it had, and the checksum of what it did, the same with each.
pub fn finish(sum: u64) {
    println!("allocator {ALLOCATOR}\nsum {sum}");
}

/// How much there is to do: the first argument, in percent.
pub fn scaled(n: u64) -> u64 {
    let percent = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100);
    (n * percent / 100).max(1)
}

/// SplitMix64: the same numbers in every run.
pub struct Random(pub u64);

impl Random {
    /// The next number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// The sum of bytes, for a checksum that depends on contents.
pub fn total(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(*byte)).sum()
}

/// Adds a number to a checksum in which order does not matter.
pub fn mix(value: u64) -> u64 {
    Random(value).below(u64::MAX)
}

//! A heap that ages, as a cache's does in hours of use: it is filled, parts of it are freed, it rests, and it is filled
//! again, in so many cycles. At each turn it says what is resident, how much of that lies in huge pages, how long it
//! takes to read one of the blocks, and how many of a thousand reads walk the page tables in a model of a TLB.

use std::fs;
use std::hint::black_box;
use std::thread::sleep;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::tlb::{HugePages, Tlb};

/// Blocks in a group that is freed together, at most; every twentieth block goes anyway.
const GROUP: usize = 4000;
/// Reads that are timed together, and how often that is done: the fastest counts.
const READS: usize = 1_000_000;
const TIMES: usize = 7;

struct Heap {
    blocks: Vec<Option<Box<[u8]>>>,
    random: Rng,
}

/// Ages a heap of `mib` MiB, and prints a line at each turn. A rest is so many seconds long.
pub fn age(mib: usize, cycles: usize, rest: u64) {
    let mut heap = Heap { blocks: Vec::new(), random: Rng::with_seed(1) };
    let mut bytes = 0;
    while bytes < mib << 20 {
        let block = heap.block();
        bytes += block.len();
        heap.blocks.push(Some(block));
    }
    heap.say("filled");
    for cycle in 1..=cycles {
        heap.drop_some();
        sleep(Duration::from_secs(rest));
        heap.say(&format!("rested-{cycle}"));
        for i in 0..heap.blocks.len() {
            if heap.blocks[i].is_none() {
                heap.blocks[i] = Some(heap.block());
            }
        }
        heap.say(&format!("refilled-{cycle}"));
    }
    sleep(Duration::from_secs(rest));
    heap.say("in-use");
}

impl Heap {
    /// A block of 16 to 4,095 bytes, as many of each power of two.
    fn block(&mut self) -> Box<[u8]> {
        let power = 1 << self.random.usize(4..12);
        vec![1; power + self.random.usize(0..power)].into_boxed_slice()
    }

    /// Frees two of five groups of blocks that were allocated in a row, and one in twenty of the others.
    fn drop_some(&mut self) {
        let (mut left, mut all_go) = (0, false);
        for block in &mut self.blocks {
            if left == 0 {
                left = self.random.usize(GROUP / 20..GROUP);
                all_go = self.random.usize(0..5) < 2;
            }
            left -= 1;
            if all_go || self.random.usize(0..20) == 0 {
                *block = None;
            }
        }
    }

    fn say(&mut self, moment: &str) {
        let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
        let field = |key: &str| {
            let line = rollup.lines().find_map(|line| line.strip_prefix(key));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0u64)
        };
        let (resident, huge) = (field("Rss:"), field("AnonHugePages:"));
        let read = self.read_ns();
        let walks = self.walks_per_thousand().map_or_else(|| "-".into(), |n| format!("{n:.1}"));
        println!("{moment} {resident} {huge} {read:.1} {walks}");
    }

    /// Of a thousand such reads, how many walk the page tables: twice at most, for the table of blocks and for the block.
    /// `None` where the kernel does not say which pages are huge.
    fn walks_per_thousand(&mut self) -> Option<f64> {
        let huge = HugePages::of_this_process().ok()?;
        let mut tlb = Tlb::new();
        let mut read = |address: u64| u64::from(tlb.walks(address, huge.have(address)));
        let mut walks = 0;
        // The first half only fills the TLB.
        for i in 0..2 * READS {
            let place = &self.blocks[self.random.usize(0..self.blocks.len())];
            let block = place.as_ref().map_or(0, |block| read(block.as_ptr() as u64));
            let n = read(std::ptr::from_ref(place) as u64) + block;
            walks += if i < READS { 0 } else { n };
        }
        Some(walks as f64 * 1000.0 / READS as f64)
    }

    /// Nanoseconds to find and read a block, each after the one before.
    fn read_ns(&mut self) -> f64 {
        let time = (0..TIMES).map(|_| {
            let (begun, mut sum) = (Instant::now(), 0);
            for _ in 0..READS {
                let place = self.random.usize(0..self.blocks.len() - 1) + (sum & 1);
                sum += self.blocks[place].as_ref().map_or(0, |block| usize::from(block[0]));
            }
            black_box(sum);
            begun.elapsed()
        });
        time.min().unwrap_or_default().as_secs_f64() * 1e9 / READS as f64
    }
}

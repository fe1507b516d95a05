//! The workloads: bounded, seeded programs, each of which stresses malloc in one way.
//!
//! Each does a fixed amount of work, writes every block it gets, checks every block it gives back,
//! and ends with a checksum that depends on what it read, never on addresses or timing. Under any
//! two allocators the same workload must therefore print the same checksum; the runner checks that
//! it does.
//!
//! Adding one: write `run(&Input) -> Outcome` in a file of this directory and name it in
//! [`ALL`]. If it has operations that somebody waits for (a request, a task), let each thread
//! take a recorder from [`Input::recorder`] and pass the operations through
//! [`Recorder::time`]; the report then has their percentiles, and the timed runs pay nothing.

#![cfg_attr(not(feature = "work"), allow(dead_code, reason = "a runner only reads the lists"))]

mod aging;
mod alloc_test;
mod arrays;
mod barnes;
mod binary_trees;
mod block;
mod buffers;
mod burst;
mod cache_tests;
mod cfrac;
mod churn;
mod columnar;
mod cubes;
mod cxx;
mod documents;
mod exchange;
mod frag;
mod glibc_simple;
mod glibc_thread;
mod graph;
mod idle;
mod images;
mod json;
mod larson;
pub mod latency;
pub mod launch;
mod lru_strings;
mod malloc_large;
mod maps;
#[cfg(feature = "memalloc")]
pub mod memalloc;
mod memory;
mod mleak;
mod mstress;
mod mt_local;
#[cfg(feature = "work")]
pub mod pairs;
mod phases;
mod prefork;
#[cfg(feature = "work")]
pub mod probe;
mod prodcons;
#[cfg(feature = "work")]
pub mod program;
pub mod programs;
mod queue;
mod quoting;
mod regexes;
mod rptest;
mod server;
mod sh_bench;
mod sizes;
mod small;
mod syntax;
mod tasks;
mod team;
mod threads;
mod tlb;
mod variation;
mod xmalloc_test;

pub use latency::Recorder;
pub use memory::Memory;
pub use variation::{Key, Variation, keys};

/// What a workload is given.
#[derive(Debug, Clone, Copy)]
pub struct Input {
    /// Where its random choices start.
    pub seed: u64,
    /// A factor on the amount of work; 1 is what is raced.
    pub scale: f64,
    /// How it differs from what is raced.
    pub variation: Variation,
}

impl Input {
    /// The workload as it is raced.
    pub fn new(seed: u64, scale: f64) -> Self {
        Input { seed, scale, variation: Variation::default() }
    }

    /// Times the operations of the calling thread, if the runner asks for that.
    pub fn recorder(&self) -> Recorder {
        Recorder::new()
    }

    /// `count` of something, scaled, never none.
    fn scaled(&self, count: usize) -> usize {
        ((count as f64 * self.scale) as usize).max(1)
    }

    /// How many threads work at the same time, of what is `usual`.
    fn threads(&self, usual: usize) -> usize {
        self.variation.threads.unwrap_or(usual)
    }

    /// The size of a block that is usually so large.
    fn size(&self, usual: usize) -> usize {
        ((usual as f64 * self.variation.sizes) as usize).max(block::SMALLEST)
    }

    /// How many blocks live, of what is `usual`; never none.
    fn live(&self, usual: usize) -> usize {
        ((usual as f64 * self.variation.live) as usize).max(1)
    }

    /// A generator for the part of the work called `stream`.
    fn rng(&self, stream: u64) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// What a workload reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Depends on everything that was read back.
    pub checksum: u64,
    /// Memory of the process at the moment the workload is about, in KiB.
    pub settled_kib: Option<u64>,
}

impl Outcome {
    /// An outcome that is only its checksum.
    fn of(checksum: u64) -> Self {
        Outcome { checksum, settled_kib: None }
    }

    /// With the anonymous memory that is resident now.
    fn settled_now(mut self) -> Self {
        self.settled_kib = Some(Memory::now().anonymous_kib);
        self
    }
}

/// One program of the race.
#[derive(Debug)]
pub struct Workload {
    /// The name on the command line and in tables.
    pub name: &'static str,
    /// What it imitates.
    pub about: &'static str,
    /// True if it sleeps, so that its wall time says nothing.
    pub sleeps: bool,
    /// The factor on its work in a suite. The fastest of the known allocators then takes some 50 ms
    /// on a processor of 2020: long enough that neither the start of the process nor a single
    /// interruption decides, and short enough for many rounds. Whoever sleeps reports its memory, and
    /// that does not need to last.
    pub brief: f64,
    /// Does the work.
    pub run: fn(&Input) -> Outcome,
}

/// Every workload, in the order of the table.
pub const ALL: &[Workload] = &[
    // One thread, blocks.
    listed(churn::CHURN),
    listed(alloc_test::ONE),
    listed(glibc_simple::GLIBC_SIMPLE),
    listed(sh_bench::SH6BENCH),
    listed(burst::BURST),
    listed(small::SMALL),
    listed(buffers::MEDIUM),
    listed(buffers::GROW),
    listed(malloc_large::MALLOC_LARGE),
    // One thread, what programs are made of.
    listed(cfrac::CFRAC),
    listed(cubes::CUBES),
    listed(barnes::BARNES),
    listed(graph::GRAPH),
    listed(binary_trees::ONE),
    listed(lru_strings::LRU_STRINGS),
    listed(json::JSON),
    listed(syntax::SYNTAX_TREES),
    listed(maps::BTREE_STRINGS),
    listed(maps::HASH_STRINGS),
    listed(regexes::REGEX_COMPILE),
    listed(columnar::COLUMNAR),
    listed(columnar::COLUMNAR_64),
    listed(arrays::ARRAYS),
    // Threads that keep to themselves.
    listed(alloc_test::FOUR),
    listed(glibc_thread::GLIBC_THREAD),
    listed(mt_local::MT_LOCAL),
    listed(churn::CHURN_BESIDE),
    listed(binary_trees::TWO),
    listed(images::IMAGES),
    listed(cache_tests::CACHE_THRASH),
    listed(cache_tests::CACHE_SCRATCH),
    // Threads that free each other's blocks.
    listed(larson::LARSON),
    listed(larson::LARSON_SIZED),
    listed(exchange::EXCHANGE),
    listed(server::SERVER),
    listed(prodcons::ONE_TO_ONE),
    listed(prodcons::TWO_TO_TWO),
    listed(xmalloc_test::XMALLOC_TEST),
    listed(sh_bench::SH8BENCH),
    listed(mstress::MSTRESS),
    listed(rptest::RPTEST),
    listed(quoting::QUOTING),
    listed(documents::DOCUMENTS),
    listed(tasks::ASYNC_TASKS),
    // Many threads, many processes.
    listed(mleak::MLEAK),
    listed(threads::THREADS_100),
    listed(threads::THREADS_1000),
    listed(threads::THREADS_10000),
    listed(prefork::PREFORK),
    // What stays resident.
    listed(frag::FRAG),
    listed(phases::PHASE_CHANGE),
    listed(idle::IDLE),
    listed(idle::REMOTE_IDLE),
    listed(idle::IDLE_THREADS),
];

/// The workload as the list has it. A runner starts the program that does the work: its own list leads to none, so that
/// the work is not compiled.
const fn listed(workload: Workload) -> Workload {
    #[cfg(not(feature = "work"))]
    let workload = Workload { run: left_out, ..workload };
    workload
}

/// In the place of work that is left out.
#[cfg(not(feature = "work"))]
fn left_out(_: &Input) -> Outcome {
    unreachable!("only masu-work runs workloads");
}

/// The workload called `name`.
pub fn named(name: &str) -> Option<&'static Workload> {
    ALL.iter().find(|workload| workload.name == name)
}

#[cfg(all(test, feature = "work"))]
mod tests {
    use super::*;

    #[test]
    fn every_workload_gives_the_same_checksum_twice() {
        for workload in ALL.iter().filter(|workload| !workload.sleeps) {
            let input = Input::new(7, 0.01);
            let first = (workload.run)(&input).checksum;
            let second = (workload.run)(&input).checksum;
            assert_eq!(first, second, "{}", workload.name);
        }
    }

    #[test]
    fn another_seed_gives_another_checksum() {
        for workload in ALL.iter().filter(|workload| !workload.sleeps) {
            let sum = |seed| (workload.run)(&Input::new(seed, 0.01)).checksum;
            assert_ne!(sum(1), sum(2), "{}", workload.name);
        }
    }

    #[test]
    fn workloads_that_sleep_give_the_same_checksum_twice_too() {
        let sum = |workload: &Workload, seed| (workload.run)(&Input::new(seed, 0.01)).checksum;
        // All at the same time, since each takes two seconds.
        std::thread::scope(|scope| {
            for workload in ALL.iter().filter(|workload| workload.sleeps) {
                scope.spawn(move || {
                    let [first, second, other] = [7, 7, 8].map(|seed| sum(workload, seed));
                    assert_eq!(first, second, "{}", workload.name);
                    assert_ne!(first, other, "{}", workload.name);
                });
            }
        });
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = ALL.iter().map(|workload| workload.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }
}

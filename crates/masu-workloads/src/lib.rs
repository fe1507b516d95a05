//! The workloads: bounded, seeded programs that lean on malloc in one way each.
//!
//! Every one does a fixed amount of work, writes every block it gets, checks every block
//! it gives back, and ends with a checksum that depends on what it read, never on
//! addresses or timing. Two allocators that run the same workload must therefore print
//! the same checksum; the runner holds them to it.
//!
//! Adding one: write `run(&Input) -> Outcome` in a file of this directory and name it in
//! [`ALL`]. If it has operations that somebody waits for (a request, a task), let each thread
//! take a recorder from [`Input::recorder`] and pass the operations through
//! [`Recorder::time`]; the report then has their percentiles, and the timed runs pay nothing.

mod block;
mod buffers;
mod burst;
mod churn;
pub mod documents;
mod frag;
mod idle;
pub mod latency;
mod memory;
mod mt_local;
pub mod pairs;
pub mod probe;
mod prodcons;
pub mod program;
mod server;
mod sizes;
mod small;
mod threads;

pub use latency::Recorder;
pub use memory::Memory;

/// What a workload is given.
#[derive(Debug, Clone, Copy)]
pub struct Input {
    /// Where its random choices start.
    pub seed: u64,
    /// A factor on the amount of work; 1 is what is raced.
    pub scale: f64,
}

impl Input {
    /// Times the operations of the calling thread, if the runner asks for that.
    pub fn recorder(&self) -> Recorder {
        Recorder::new()
    }

    /// `count` of something, scaled, never none.
    fn scaled(&self, count: usize) -> usize {
        ((count as f64 * self.scale) as usize).max(1)
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
pub struct Workload {
    /// The name on the command line and in tables.
    pub name: &'static str,
    /// What it imitates.
    pub about: &'static str,
    /// True if it sleeps, so that its wall time says nothing.
    pub sleeps: bool,
    /// Does the work.
    pub run: fn(&Input) -> Outcome,
}

/// Every workload, in the order of the table.
pub const ALL: &[Workload] = &[
    churn::CHURN,
    server::SERVER,
    prodcons::ONE_TO_ONE,
    prodcons::TWO_TO_TWO,
    burst::BURST,
    buffers::GROW,
    buffers::MEDIUM,
    threads::THREADS_100,
    small::SMALL,
    mt_local::MT_LOCAL,
    documents::DOCUMENTS,
    frag::FRAG,
    idle::IDLE,
    idle::REMOTE_IDLE,
];

/// The workload called `name`.
pub fn named(name: &str) -> Option<&'static Workload> {
    ALL.iter().find(|workload| workload.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_gives_the_same_checksum_twice() {
        for workload in ALL.iter().filter(|workload| !workload.sleeps) {
            let input = Input { seed: 7, scale: 0.01 };
            let first = (workload.run)(&input).checksum;
            let second = (workload.run)(&input).checksum;
            assert_eq!(first, second, "{}", workload.name);
        }
    }

    #[test]
    fn another_seed_gives_another_checksum() {
        for workload in ALL.iter().filter(|workload| !workload.sleeps) {
            let sum = |seed| (workload.run)(&Input { seed, scale: 0.01 }).checksum;
            assert_ne!(sum(1), sum(2), "{}", workload.name);
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = ALL.iter().map(|workload| workload.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }
}

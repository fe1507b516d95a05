//! Programs whose memory is watched from outside, one scenario per run.
//!
//! Each allocates through the C allocator (whichever is preloaded), stops at named
//! points with [`marks::mark`], and says there how many bytes it holds.

mod age;
mod blocks;
mod marks;
mod prefork;
mod returning;
mod shapes;
mod threads;

use clap::Parser;

/// Number of bytes in a MiB.
const MIB: usize = 1 << 20;

/// The scenarios.
#[derive(Parser)]
enum Scenario {
    /// Threads fill memory with blocks of all sizes, free them, and sleep.
    Burst {
        /// How many threads; 0 does the work in the main thread.
        #[arg(long, default_value_t = 8)]
        threads: usize,
        /// How much all of them allocate together.
        #[arg(long, default_value_t = 1024)]
        mib: usize,
        /// How much the main thread holds throughout.
        #[arg(long, default_value_t = 32)]
        keep_mib: usize,
        /// Call `malloc_trim(0)` at the end.
        #[arg(long)]
        trim: bool,
    },
    /// One thread allocates, another frees, both wait on a futex.
    Handoff {
        #[arg(long, default_value_t = 1024)]
        mib: usize,
        /// Smallest size.
        #[arg(long, default_value_t = 16)]
        low: usize,
        /// Largest size.
        #[arg(long, default_value_t = 256 << 10)]
        high: usize,
    },
    /// Many threads use many size classes once, then sleep.
    Sleepers {
        #[arg(long, default_value_t = 100)]
        threads: usize,
        #[arg(long, default_value_t = 512)]
        kib_per_class: usize,
    },
    /// A few very large blocks are written and freed.
    Huge {
        #[arg(long, default_value_t = 8)]
        count: usize,
        #[arg(long, default_value_t = 128)]
        mib: usize,
        /// How often that is done.
        #[arg(long, default_value_t = 1)]
        times: usize,
    },
    /// Two blocks grow by turns, in small steps.
    Grow {
        #[arg(long, default_value_t = 256)]
        mib: usize,
    },
    /// Memory is filled and freed again and again, with short pauses.
    Cycle {
        #[arg(long, default_value_t = 64)]
        mib: usize,
        #[arg(long, default_value_t = 20)]
        times: usize,
    },
    /// Blocks are allocated in one thread, freed in another, and the first one dies.
    Relay {
        #[arg(long, default_value_t = 4)]
        pairs: usize,
        /// How much is on its way at any time.
        #[arg(long, default_value_t = 64)]
        mib: usize,
        /// How much passes through.
        #[arg(long, default_value_t = 2048)]
        through: usize,
    },
    /// One thread after the other allocates and frees the same medium blocks; all stay alive.
    Medium {
        #[arg(long, default_value_t = 32)]
        threads: usize,
    },
    /// Very many threads are born and die in waves, each freeing what one before it left.
    Churn {
        #[arg(long, default_value_t = 50_000)]
        threads: usize,
    },
    /// Very many threads live at once, each holding a block in every one of 20 classes.
    Crowd {
        #[arg(long, default_value_t = 10_000)]
        threads: usize,
        /// Size of the largest class.
        #[arg(long, default_value_t = 1024)]
        largest: usize,
    },
    /// All but one in a hundred small objects are freed.
    Sparse {
        #[arg(long, default_value_t = 200)]
        mib: usize,
    },
    /// The amount held stays the same while the sizes change.
    Phases {
        #[arg(long, default_value_t = 100)]
        mib: usize,
    },
    /// A parent forks children that read its memory and do a little work of their own.
    Prefork {
        #[arg(long, default_value_t = 64)]
        children: usize,
        #[arg(long, default_value_t = 50)]
        mib: usize,
    },
    /// A heap ages: blocks that were allocated together are freed, it rests, and is filled again.
    Age {
        #[arg(long, default_value_t = 192)]
        mib: usize,
        /// A child shares its memory at last.
        #[arg(long)]
        fork: bool,
    },
    /// Free a pointer that no allocator gave out, then allocate on.
    Foreign,
}

fn main() {
    match Scenario::parse() {
        Scenario::Burst { threads, mib, keep_mib, trim } => {
            returning::burst(threads, mib * MIB, keep_mib * MIB, trim)
        }
        Scenario::Handoff { mib, low, high } => returning::handoff(mib * MIB, low, high),
        Scenario::Sleepers { threads, kib_per_class } => {
            threads::sleepers(threads, kib_per_class << 10)
        }
        Scenario::Huge { count, mib, times } => returning::huge(count, mib * MIB, times),
        Scenario::Grow { mib } => shapes::grow(mib * MIB),
        Scenario::Cycle { mib, times } => returning::cycle(mib * MIB, times),
        Scenario::Relay { pairs, mib, through } => threads::relay(pairs, mib * MIB, through * MIB),
        Scenario::Medium { threads } => threads::medium(threads),
        Scenario::Churn { threads } => threads::churn(threads),
        Scenario::Crowd { threads, largest } => threads::crowd(threads, largest),
        Scenario::Sparse { mib } => shapes::sparse(mib * MIB),
        Scenario::Phases { mib } => shapes::phases(mib * MIB),
        Scenario::Prefork { children, mib } => prefork::prefork(children, mib * MIB),
        Scenario::Age { mib, fork } => age::age(mib * MIB, fork),
        Scenario::Foreign => shapes::foreign(),
    }
}

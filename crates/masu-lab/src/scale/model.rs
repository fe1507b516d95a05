//! The scale model: what allocators fight over on machines with more cores than this one.
//!
//! ```text
//! trace     what a workload asked its allocator for, recorded on this machine
//! machine   cores with clocks, cache lines and locks that move between them
//! nodes     of which node a core is, and on which one a page of memory lies
//! what      what a line holds, for whoever asks which one everybody waits for
//! design    masu's protocol, a lock for each arena, pages with a compare-and-swap
//! ```
//!
//! A trace of a few threads is replayed in as many copies as it takes to fill the simulated cores;
//! the copies share the allocator and nothing else, as independent lanes of one process do. The
//! model *counts*: lines that move, locks that change hands, atomic operations, remote frees. From these
//! it derives a throughput, by charging a fixed time for each: no core and no line is busy for longer
//! than the whole takes. The first half of a trace only fills the allocator; the second half counts.
//!
//! What it does not know: waiting that comes from bad luck (it gives the best that any interleaving
//! could reach), the time the kernel takes (page faults, its own locks on a process' address
//! space), distances between nodes and memory bandwidth, false sharing in the application, the blocks' own cache
//! misses except the first line of one that another core had, and how threads block each other in
//! the application. It takes every core for equal and every transfer for equally long. So it says
//! where a design stops to scale and why, not how fast it is; [`machine::COSTS`] are stated,
//! and the speed-up from one core to two is compared with a measured one before the rest is believed
//! ([`predict`]).

pub mod design;
pub mod machine;
pub mod nodes;
pub mod predict;
pub mod trace;
pub mod what;

use masu_bench::scale::{Curve, Point};
use masu_core::config::{Config, Delay};

use design::{Caller, Design, Tally};
use machine::{COSTS, Costs, Machine};
use nodes::{Layout, Nodes, Spread};
use trace::{Op, Trace};

/// The numbers of cores that are simulated.
pub const CORES: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// One curve for each design.
pub fn curves(trace: &Trace, designs: &[Design], cores: &[u32]) -> Vec<Curve> {
    let curve = |design: &Design| {
        let alone = replay(trace, *design, 1, COSTS).point;
        let point = |&cores: &u32| {
            let run =
                if cores == 1 { alone.clone() } else { replay(trace, *design, cores, COSTS).point };
            Point { speedup: run.speedup / alone.speedup, ..run }
        };
        Curve {
            workload: trace.workload.clone(),
            design: design.name(),
            points: cores.iter().map(point).collect(),
        }
    };
    designs.iter().map(curve).collect()
}

/// What a replay gave.
pub struct Replayed {
    /// The speed-up of it is operations per nanosecond.
    pub point: Point,
    /// What the allocator counted from first to last.
    pub tally: Tally,
    /// Operations from first to last.
    pub operations: u64,
    /// What lay on another node, or came from there.
    pub far: Far,
}

/// What comes from other nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Far {
    /// The part of the bytes allocated.
    pub bytes: f64,
    /// Allocations with such bytes, in an operation.
    pub blocks: f64,
    /// Cache lines, in an operation.
    pub lines: f64,
}

/// Replays a trace on so many cores of one node.
pub fn replay(trace: &Trace, design: Design, cores: u32, costs: Costs) -> Replayed {
    replay_on(trace, design, cores, costs, Layout::ONE)
}

/// The same on a machine with more nodes.
pub fn replay_on(
    trace: &Trace,
    design: Design,
    cores: u32,
    costs: Costs,
    layout: Layout,
) -> Replayed {
    let cores = cores as usize;
    let copies = (cores / trace.threads.max(1)).max(1);
    let places = places(trace, copies, cores);
    let mut machine = Machine::new(cores, costs);
    machine.nodes = Nodes::new(layout.nodes, layout.of_cores(cores, trace.threads, &places));
    let mut allocator = design.start(copies * trace.threads, cores);
    let mut blocks: Vec<Option<Live>> = vec![None; copies * trace.blocks];
    let (mut before, mut operations, mut remote) = (0u64, 0u64, 0u64);
    // Event by event through all copies at once: none of them runs ahead.
    for (at, event) in trace.events.iter().enumerate() {
        if at % (WINDOW * trace.threads) == 0 {
            machine.meet();
        }
        if at == trace.events.len() / 2 {
            machine.begin();
            if layout.spread == Spread::Moved {
                machine.nodes.shift();
            }
            allocator.tick();
            (before, operations, remote) = (operations, 0, 0);
        }
        for copy in 0..copies {
            let thread = copy * trace.threads + usize::from(event.thread);
            let core = places[thread];
            let caller = &mut Caller { machine: &mut machine, core, thread };
            if event.op == Op::Replace {
                allocator.replace(caller);
                continue;
            }
            caller.machine.work(core);
            operations += 1;
            match event.op {
                Op::Alloc { block, size } => {
                    let live = Live { block: allocator.alloc(caller, size), core };
                    blocks[copy * trace.blocks + block as usize] = Some(live);
                }
                Op::Free { block } => {
                    let place = &mut blocks[copy * trace.blocks + block as usize];
                    let Some(live) = place.take() else { continue };
                    remote += u64::from(live.core != core);
                    allocator.free(caller, live.block);
                }
                Op::Replace => {}
            }
        }
    }
    let each = |count: u64| count as f64 / operations.max(1) as f64;
    let (line, busy) = machine.busiest_line();
    let counts = machine.counts;
    let far = Far {
        bytes: counts.far_bytes as f64 / counts.bytes.max(1) as f64,
        blocks: each(counts.far_blocks),
        lines: each(counts.far_lines),
    };
    let seconds = machine.end() / 1e9;
    let point = Point {
        cores: cores as u32,
        transfers: each(counts.transfers),
        written: each(counts.written),
        locks: each(counts.locks),
        hand_overs: each(counts.hand_overs),
        atomics: each(counts.atomics),
        remote_frees: each(remote),
        discards: each(counts.discards),
        stale: allocator.stale_ranges() as f64 * ticks_per_second(),
        busiest: line.words().into(),
        demand: busy / machine.busiest_core(),
        throughput: operations as f64 / seconds,
        speedup: operations as f64 / machine.end(),
    };
    Replayed { point, tally: allocator.tally(), operations: before + operations, far }
}

/// How often the engine looks what has been free for long, unless somebody sets another decay time.
fn ticks_per_second() -> f64 {
    match Config::DEFAULT.decay {
        Delay::Millis(decay) => 2_000.0 / decay as f64,
        _ => 0.0,
    }
}

/// Calls of each thread after which no core is ahead of the others. In the recorded order threads
/// that run at once take turns of a few calls; so while only one of them calls, the others wait.
const WINDOW: usize = 1024;

/// A core for each thread of each copy: those that call most come first, each to the core with the
/// least to do, as a scheduler would have it in the end.
fn places(trace: &Trace, copies: usize, cores: usize) -> Vec<usize> {
    let mut calls = vec![0u64; trace.threads];
    trace.events.iter().for_each(|event| calls[usize::from(event.thread)] += 1);
    let mut threads: Vec<usize> = (0..copies * trace.threads).collect();
    threads.sort_by_key(|thread| std::cmp::Reverse(calls[thread % trace.threads]));
    let mut busy = vec![0u64; cores];
    let mut places = vec![0; threads.len()];
    for thread in threads {
        let idlest = (0..cores).min_by_key(|&core| busy[core]).expect("there is a core");
        busy[idlest] += calls[thread % trace.threads];
        places[thread] = idlest;
    }
    places
}

/// A block in use.
#[derive(Debug, Clone, Copy)]
struct Live {
    block: u32,
    core: usize,
}

#[cfg(test)]
mod tests;

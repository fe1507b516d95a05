//! What it costs to be rid of a million nodes: one by one, or with the heap that they live in.
//!
//! Each way makes a linked list of nodes of 48 bytes, walks it, and lets go of it; nodes that are freed one
//! by one are freed in a random order, as a program's are that has used them for a while. The ways are
//! interleaved, round by round, each round in an order of its own, and the first one runs a second time as
//! the null arm: what it differs from itself is the noise. Figures are medians of nanoseconds per node.
//!
//! The second table is about sharing: two threads that allocate and free from one heap, and from a heap
//! each.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::ptr::NonNull;
use std::thread;
use std::time::Instant;

use allocator_api2::alloc::Allocator;
use anyhow::{Result, ensure};
use clap::Args;
use masu::{Heap, Masu};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use serde::Serialize;

use super::files::{Files, markdown};
use super::middle;
use crate::race::machine::Machine;
use crate::race::{self, plan};

/// Options of the experiment.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// How often each way is taken; a round takes about two seconds
    #[arg(long, value_name = "N", default_value_t = 11)]
    rounds: usize,
    /// How many nodes
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    nodes: usize,
    /// Three rounds of a tenth of the nodes, to see that it works: a second; all files go to results/quick
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    files: Files,
}

/// A node of the list.
#[repr(C)]
struct Node {
    next: *mut Node,
    value: [u64; 5],
}

const NODE: Layout = Layout::new::<Node>();

/// A way to have nodes and be rid of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    System,
    SystemAgain,
    Masu,
    HeapOneByOne,
    HeapReset,
    HeapDropped,
}

const WAYS: [(Way, &str); 6] = [
    (Way::System, "system allocator, one by one"),
    (Way::Masu, "masu, one by one"),
    (Way::HeapOneByOne, "masu heap, one by one"),
    (Way::HeapReset, "masu heap, reset"),
    (Way::HeapDropped, "masu heap, dropped"),
    (Way::SystemAgain, "system allocator again (null)"),
];

/// What was found.
#[derive(Debug, Serialize)]
struct Results {
    date: String,
    machine: Machine,
    nodes: usize,
    ways: Vec<Found>,
    threads: Vec<Sharing>,
}

#[derive(Debug, Serialize)]
struct Found {
    way: String,
    /// Nanoseconds per node to make the list, of each round.
    make_ns: Vec<f64>,
    /// Nanoseconds per node to be rid of it, of each round.
    free_ns: Vec<f64>,
}

#[derive(Debug, Serialize)]
struct Sharing {
    what: String,
    /// Nanoseconds per pair of allocation and free, of each round.
    pair_ns: Vec<f64>,
}

/// Runs the experiment and writes `heaps.md` and `heaps.json`.
pub fn run(options: &Options) -> Result<()> {
    let (rounds, nodes) = match options.quick {
        true => (3, options.nodes / 10),
        false => (options.rounds, options.nodes),
    };
    ensure!(rounds > 0 && nodes > 0, "there is nothing to measure");
    let (date, machine) = (race::now(), Machine::here());
    let found = |what: &str| Found { way: what.to_owned(), make_ns: vec![], free_ns: vec![] };
    let mut ways: Vec<Found> = WAYS.iter().map(|(_, what)| found(what)).collect();
    let mut threads: Vec<Sharing> = Pair::ALL
        .iter()
        .map(|(_, what)| Sharing { what: (*what).to_owned(), pair_ns: vec![] })
        .collect();
    let mut order: Vec<usize> = (0..nodes).collect();
    order.shuffle(&mut SmallRng::seed_from_u64(1));
    // Whoever comes first in the process finds no memory: it is not counted.
    take(Way::System, &order)?;
    for round in 0..rounds {
        for at in plan::order(WAYS.len(), round, 0) {
            let (make, free) = take(WAYS[at].0, &order)?;
            ways[at].make_ns.push(make);
            ways[at].free_ns.push(free);
        }
        for at in plan::order(Pair::ALL.len(), round, 1) {
            threads[at].pair_ns.push(Pair::ALL[at].0.run(nodes)?);
        }
    }
    let results = Results { date, machine, nodes, ways, threads };
    let text = report(&results);
    println!("{text}");
    let files = options.files.first_look(options.quick);
    files.json("heaps.json", &results)?;
    files.text("heaps.md", &text)
}

/// Makes a list and lets go of it. Returns nanoseconds per node for each.
fn take(way: Way, order: &[usize]) -> Result<(f64, f64)> {
    let mut heap = Heap::new()?;
    let begun = Instant::now();
    let nodes = make(order.len(), |_| match way {
        // SAFETY: a node's size is not 0.
        Way::System | Way::SystemAgain => unsafe { System.alloc(NODE) },
        // SAFETY: as above.
        Way::Masu => unsafe { Masu.alloc(NODE) },
        _ => (&heap).allocate(NODE).map_or(std::ptr::null_mut(), |p| p.as_ptr().cast()),
    })?;
    let made = begun.elapsed();
    ensure!(sum(nodes[0]) == order.len() as u64, "a node was lost");
    let begun = Instant::now();
    match way {
        Way::System | Way::SystemAgain => free_all(&nodes, order, |p| {
            // SAFETY: a live node, freed once with its layout, here and below.
            unsafe { System.dealloc(p.as_ptr(), NODE) }
        }),
        Way::Masu => free_all(&nodes, order, |p| {
            // SAFETY: as above.
            unsafe { Masu.dealloc(p.as_ptr(), NODE) }
        }),
        Way::HeapOneByOne => free_all(&nodes, order, |p| {
            // SAFETY: as above.
            unsafe { (&heap).deallocate(p, NODE) }
        }),
        Way::HeapReset => heap.reset()?,
        Way::HeapDropped => drop(heap),
    }
    let freed = begun.elapsed();
    let per_node = |time: std::time::Duration| time.as_secs_f64() * 1e9 / order.len() as f64;
    Ok((per_node(made), per_node(freed)))
}

/// A list of nodes, and their addresses.
fn make(n: usize, mut alloc: impl FnMut(usize) -> *mut u8) -> Result<Vec<*mut Node>> {
    let mut nodes = Vec::with_capacity(n);
    let mut next: *mut Node = std::ptr::null_mut();
    for i in 0..n {
        let node: *mut Node = alloc(i).cast();
        ensure!(!node.is_null(), "memory is out");
        // SAFETY: a node's block.
        unsafe { node.write(Node { next, value: [1; 5] }) };
        next = node;
        nodes.push(node);
    }
    nodes.reverse();
    Ok(nodes)
}

/// Walks the list.
fn sum(first: *mut Node) -> u64 {
    let (mut at, mut sum) = (first, 0);
    while !at.is_null() {
        // SAFETY: a live node of the list.
        unsafe {
            sum += (*at).value[2];
            at = (*at).next;
        }
    }
    black_box(sum)
}

fn free_all(nodes: &[*mut Node], order: &[usize], free: impl Fn(NonNull<u8>)) {
    order.iter().filter_map(|i| NonNull::new(nodes[*i].cast())).for_each(free);
}

/// Two threads that allocate and free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pair {
    Alone,
    Each,
    One,
}

impl Pair {
    const ALL: [(Pair, &'static str); 3] = [
        (Pair::Alone, "one thread, one heap"),
        (Pair::Each, "two threads, a heap each"),
        (Pair::One, "two threads, one heap"),
    ];

    /// Nanoseconds of a thread for each pair of an allocation and a free.
    fn run(self, n: usize) -> Result<f64> {
        let heaps = [Heap::new()?, Heap::new()?];
        let begun = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| pairs(&heaps[0], n));
            if self != Pair::Alone {
                scope.spawn(|| pairs(&heaps[usize::from(self == Pair::Each)], n));
            }
        });
        Ok(begun.elapsed().as_secs_f64() * 1e9 / n as f64)
    }
}

/// Sixteen live blocks, the oldest of which is replaced again and again.
fn pairs(heap: &Heap, n: usize) {
    let mut live = [None; 16];
    for i in 0..n {
        if let Some(old) = live[i % 16].replace(heap.allocate(NODE).expect("memory").cast()) {
            // SAFETY: live, and freed once with its layout.
            unsafe { heap.deallocate(old, NODE) };
        }
    }
    for block in live.into_iter().flatten() {
        // SAFETY: as above.
        unsafe { heap.deallocate(block, NODE) };
    }
}

fn report(results: &Results) -> String {
    let base = &results.ways[0];
    let ratio = |a: &[f64], b: &[f64]| {
        format!("{:.2}", middle(a.iter().copied()) / middle(b.iter().copied()))
    };
    let rows: Vec<_> = results
        .ways
        .iter()
        .map(|found| {
            vec![
                found.way.clone(),
                format!("{:.1}", middle(found.make_ns.iter().copied())),
                ratio(&found.make_ns, &base.make_ns),
                format!("{:.2}", middle(found.free_ns.iter().copied())),
                ratio(&found.free_ns, &base.free_ns),
            ]
        })
        .collect();
    let header = ["", "make, ns/node", "× system", "be rid of, ns/node", "× system"];
    let first = markdown(&header.map(String::from), &rows);
    let rows: Vec<_> = results
        .threads
        .iter()
        .map(|sharing| {
            vec![sharing.what.clone(), format!("{:.1}", middle(sharing.pair_ns.iter().copied()))]
        })
        .collect();
    let second = markdown(&["", "allocation and free, ns"].map(String::from), &rows);
    format!(
        "# Heaps: {} nodes of 48 bytes\n\nMeasured {} by `cargo run --release -p masu-lab -- heaps`: {} interleaved rounds, \
         medians. {}. Nodes freed one by one go in a random order.\n\n{first}\nA thread's time for an \
         allocation and a free of 48 bytes, 16 blocks live:\n\n{second}",
        results.nodes,
        results.date,
        base.make_ns.len(),
        results.machine,
    )
}

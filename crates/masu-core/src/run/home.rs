//! From which shard a thread takes: its home is a number, of which the shards in use take the lower bits.
//!
//! A heap's first home is its place in the table of heaps, so the threads that begin one after the other are spread over
//! all shards. On a machine with several nodes each shard would then have threads of all of them; but a page lies on
//! the node of the thread that touches it first, and what that thread frees would serve threads for which it is far
//! away. So there the lowest bits of a home are the node that the thread runs on, and above them threads of a node are
//! counted. A shard serves threads of one node as soon as there are as many shards as nodes; what a shard takes from
//! another one, and what was there before, may be of any. A thread looks where it runs when it begins, and, if it needs
//! small blocks, once a tick. A thread without a heap has the home of its processor.
//!
//! How many nodes there are is learnt from where threads run ([`Nodes`]). While all run on the first one, homes stay as
//! they are.

use super::chunk::number_of;
use crate::ledger::{self, Account, last_shard};
use crate::size_class::UNIT;
use crate::sync::{AtomicUsize, Cell, Ordering, array_of, const_unless_loom, shared_static};
use crate::sys::{cpu, thread};

/// Where a thread takes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home(usize);

impl Home {
    /// No particular thread: the first shard.
    pub const ANY: Home = Home(0);

    /// The home of this number.
    pub const fn of(number: usize) -> Self {
        Home(number)
    }

    /// That of a thread without a heap, by the processor on which it runs: there may be a thousand such threads.
    #[cold]
    #[inline(never)]
    pub fn here() -> Self {
        let bits = NODES.bits.load(Ordering::Relaxed);
        let node = if bits == 0 { 0 } else { cpu::node() & bits };
        Home::of(on_node(processor(), bits, node))
    }

    /// Its number.
    pub const fn number(self) -> usize {
        self.0
    }

    /// The shard from which it takes, where the last one has this number: a power of two, less one.
    #[inline]
    pub fn among(self, last: usize) -> usize {
        self.0 & last
    }

    /// The account of the shard from which it takes.
    #[cold]
    #[inline(never)]
    pub fn account(self) -> &'static Account {
        &ledger::shard(self.among(last_shard())).account
    }

    /// Whether a chunk is in a shard of its node. The answer may be out of date.
    pub fn is_near(self, chunk: u32) -> bool {
        let bits = NODES.bits.load(Ordering::Relaxed) & last_shard();
        (self.0 ^ number_of(chunk)) & bits == 0
    }
}

/// The processor on which the calling thread runs. Where that is not known, threads are spread over all.
#[inline]
pub fn processor() -> usize {
    cpu::number().unwrap_or_else(|| thread::pointer() / UNIT)
}

/// The home of a number among those of a node, whose number is in these bits.
fn on_node(number: usize, bits: usize, node: usize) -> usize {
    number * (bits + 1) + node
}

/// Most nodes that are told apart.
const MOST: usize = 16;

/// What is known of the machine's nodes.
struct Nodes {
    /// The bits that tell those apart on which threads were seen.
    bits: AtomicUsize,
    /// How many homes each has given.
    given: [AtomicUsize; MOST],
}

shared_static! { static NODES: Nodes = Nodes::new(); }

/// Whether threads were seen on several nodes.
#[inline]
pub fn are_nodes() -> bool {
    NODES.bits.load(Ordering::Relaxed) != 0
}

/// A thread was seen on this node.
#[cfg(all(test, not(loom)))]
pub fn seen_on(node: usize) {
    NODES.seen(node);
}

impl Nodes {
    const_unless_loom! {
        fn new() -> Self {
            Nodes {
                bits: AtomicUsize::new(0),
                given: array_of![AtomicUsize::new(0); MOST],
            }
        }
    }

    /// The bits, now that a thread runs on this node.
    fn seen(&self, node: usize) -> usize {
        let (bits, needed) =
            (self.bits.load(Ordering::Relaxed), (node + 1).next_power_of_two() - 1);
        if bits | needed != bits {
            self.bits.fetch_or(needed, Ordering::Relaxed);
        }
        bits | needed
    }
}

/// What a heap has: its home, and the bits that were the node's when it was given; none at first.
pub struct Seat {
    home: Cell<usize>,
    bits: Cell<usize>,
}

impl Seat {
    const_unless_loom! {
        /// The first home.
        pub fn new() -> Self {
            Seat { home: Cell::new(0), bits: Cell::new(0) }
        }
    }

    /// The home.
    #[inline]
    pub fn home(&self) -> Home {
        Home(self.home.get())
    }

    /// Sets the home that a heap has before its thread is seen on another node than the first.
    pub fn begin(&self, home: usize) {
        self.home.set(home);
    }

    /// Sees to it that the home is on the node on which the calling thread, whose it is, runs.
    #[cold]
    #[inline(never)]
    pub fn settle(&self) {
        self.settle_on(cpu::node() % MOST, &NODES);
    }

    #[inline]
    fn settle_on(&self, node: usize, nodes: &Nodes) {
        let bits = nodes.seen(node);
        if self.bits.get() == bits && (bits == 0 || self.home.get() & bits == node) {
            return;
        }
        let before = nodes.given[node].fetch_add(1, Ordering::Relaxed);
        self.home.set(on_node(before, bits, node));
        self.bits.set(bits);
    }
}

#[cfg(all(test, not(loom)))]
#[path = "home/tests.rs"]
mod tests;

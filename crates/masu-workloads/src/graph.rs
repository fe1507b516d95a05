//! graph: a graph whose nodes come and go while it is walked.
//!
//! Each node is a block of its own with a label, a list of edges that grows and shrinks, and a small
//! map of attributes, as in the heaps of object databases and compilers. A node that goes is taken out
//! of its neighbours' lists, and whoever replaces it lives where the graph's shape says, not the order of
//! allocation. Every edge must stand in both of its ends' lists, and a label is what its node was given.

use std::collections::{BTreeMap, VecDeque};

use super::{Input, Outcome, Workload};

/// See the module's first line.
pub const GRAPH: Workload = Workload {
    name: "graph",
    about: "1 thread, 8,000 nodes with labels, edges and attributes, replaced and walked",
    sleeps: false,
    brief: 0.85,
    run,
};

const NODES: usize = 8_000;
/// Nodes that are replaced, at full scale.
const REPLACED: usize = 100_000;
/// Edges that a new node comes with, at most.
const EDGES: usize = 12;
/// After so many replacements the graph is walked from somewhere.
const BETWEEN_WALKS: usize = 2_000;
/// Nodes that a walk looks at.
const WALKED: usize = 1_000;

struct Node {
    label: String,
    /// Places of the neighbours.
    edges: Vec<u32>,
    attributes: BTreeMap<u16, Box<[u8]>>,
}

fn run(input: &Input) -> Outcome {
    let mut rng = input.rng(0);
    let mut graph = Graph { nodes: (0..NODES).map(|_| None).collect() };
    let mut checksum = 0u64;
    for place in 0..NODES {
        graph.put(place, &mut rng);
    }
    for step in 0..input.scaled(REPLACED) {
        let place = rng.usize(..NODES);
        checksum = checksum.rotate_left(5) ^ graph.take(place);
        graph.put(place, &mut rng);
        if step % BETWEEN_WALKS == 0 {
            checksum ^= graph.walk(rng.usize(..NODES));
        }
    }
    for place in 0..NODES {
        checksum = checksum.rotate_left(1) ^ graph.take(place);
    }
    Outcome::of(checksum)
}

struct Graph {
    nodes: Vec<Option<Box<Node>>>,
}

impl Graph {
    /// Puts a new node where none is.
    fn put(&mut self, place: usize, rng: &mut fastrand::Rng) {
        assert!(self.nodes[place].is_none(), "two nodes in one place");
        let attributes = (0..rng.usize(..4)).map(|_| {
            let key = rng.u16(..);
            (key, vec![key as u8; rng.usize(1..120)].into_boxed_slice())
        });
        let attributes = attributes.collect();
        let label = format!("node {place} of {:x}", rng.u64(..) >> rng.u32(..64));
        let mut edges = Vec::new();
        for _ in 0..rng.usize(..EDGES) {
            let other = rng.usize(..self.nodes.len());
            if let Some(node) = &mut self.nodes[other] {
                node.edges.push(place as u32);
                edges.push(other as u32);
            }
        }
        self.nodes[place] = Some(Box::new(Node { label, edges, attributes }));
    }

    /// Takes a node out; what it held, as a number.
    fn take(&mut self, place: usize) -> u64 {
        let node = self.nodes[place].take().expect("every place has a node");
        assert!(node.label.starts_with(&format!("node {place} of ")), "a label changed");
        for &other in &node.edges {
            let other = self.nodes[other as usize].as_mut().expect("an edge has two ends");
            let back = other.edges.iter().position(|&end| end as usize == place);
            other.edges.swap_remove(back.expect("an edge stands in both lists"));
            // Lists that were long once do not stay so.
            if other.edges.capacity() > 4 * EDGES {
                other.edges.shrink_to_fit();
            }
        }
        let attributes = node.attributes.iter().map(|(&key, bytes)| {
            assert!(bytes.iter().all(|&byte| byte == key as u8), "an attribute changed");
            u64::from(key) * bytes.len() as u64
        });
        attributes.sum::<u64>() ^ (node.label.len() as u64) << 32 ^ (node.edges.len() as u64) << 40
    }

    /// Looks at the nodes around a place, the nearest first; the sum of their places.
    fn walk(&self, from: usize) -> u64 {
        let mut seen = vec![false; self.nodes.len()];
        let mut next = VecDeque::from([from]);
        seen[from] = true;
        let (mut looked_at, mut sum) = (0, 0);
        while let Some(place) = next.pop_front() {
            let node = self.nodes[place].as_ref().expect("every place has a node");
            (looked_at, sum) = (looked_at + 1, sum + place as u64);
            if looked_at == WALKED {
                break;
            }
            for &other in &node.edges {
                if !std::mem::replace(&mut seen[other as usize], true) {
                    next.push_back(other as usize);
                }
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_stand_in_both_lists_and_go_with_their_node() {
        let mut rng = fastrand::Rng::with_seed(5);
        let mut graph = Graph { nodes: (0..50).map(|_| None).collect() };
        for place in 0..50 {
            graph.put(place, &mut rng);
        }
        let ends = |graph: &Graph| {
            graph.nodes.iter().flatten().map(|node| node.edges.len()).sum::<usize>()
        };
        let (before, own) = (ends(&graph), graph.nodes[49].as_ref().unwrap().edges.len());
        assert!(own > 0 && before % 2 == 0);
        graph.take(49);
        assert_eq!(ends(&graph), before - 2 * own);
        assert!(graph.walk(0) > 0, "nothing leads to the node that is gone");
    }

    #[test]
    #[should_panic(expected = "an edge stands in both lists")]
    fn an_edge_with_one_end_is_noticed() {
        let mut rng = fastrand::Rng::with_seed(5);
        let mut graph = Graph { nodes: vec![None, None] };
        graph.put(0, &mut rng);
        graph.put(1, &mut rng);
        graph.nodes[0].as_mut().unwrap().edges = vec![1];
        graph.nodes[1].as_mut().unwrap().edges.clear();
        graph.take(0);
    }
}

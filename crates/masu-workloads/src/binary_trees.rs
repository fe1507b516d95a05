//! binary-trees: full trees of tiny nodes, built and dropped, beside one that stays.
//!
//! The classic of language benchmarks. Each node is a block of its own; trees of every second
//! depth are built, counted and dropped, the shallow ones many times.

use super::team;
use super::{Input, Outcome, Workload};

/// One thread.
pub const ONE: Workload = Workload {
    name: "binary-trees",
    about: "1 thread, full trees of depth 4..20, one of depth 20 stays",
    sleeps: false,
    brief: 0.2,
    run: |input| run(input, 1),
};

/// Two threads, each with trees of its own.
pub const TWO: Workload = Workload {
    name: "binary-trees2",
    about: "binary-trees on 2 threads at once",
    sleeps: false,
    brief: 0.4,
    run: |input| run(input, 2),
};

const LEAST_DEPTH: u32 = 4;
const MOST_DEPTH: u32 = 20;

struct Node {
    children: Option<[Box<Node>; 2]>,
    value: u32,
}

fn run(input: &Input, threads: usize) -> Outcome {
    // Work doubles with a level; so levels follow from the logarithm of the scale.
    let fewer = (-(input.scale / threads as f64).log2()).round();
    let most = (f64::from(MOST_DEPTH) - fewer).max(f64::from(LEAST_DEPTH + 2)) as u32;
    Outcome::of(team::sum_of(threads, |number| work(input, number, most)))
}

fn work(input: &Input, number: u64, most: u32) -> u64 {
    let mut rng = input.rng(number);
    let lasting = tree(most, &mut rng);
    let mut checksum = 0u64;
    for depth in (LEAST_DEPTH..=most).step_by(2) {
        for _ in 0..1u32 << (most - depth) {
            let (nodes, sum) = tree(depth, &mut rng).count();
            assert_eq!(nodes, (2 << depth) - 1, "a tree lost nodes");
            checksum = checksum.wrapping_add(sum);
        }
    }
    let (nodes, sum) = lasting.count();
    assert_eq!(nodes, (2 << most) - 1, "the lasting tree lost nodes");
    checksum.rotate_left(1) ^ sum
}

fn tree(depth: u32, rng: &mut fastrand::Rng) -> Box<Node> {
    let children = (depth > 0).then(|| [tree(depth - 1, rng), tree(depth - 1, rng)]);
    Box::new(Node { children, value: rng.u32(..) })
}

impl Node {
    /// The number of nodes and the sum of their values.
    fn count(&self) -> (u32, u64) {
        let own = (1, u64::from(self.value));
        self.children
            .iter()
            .flatten()
            .map(|child| child.count())
            .fold(own, |sum, child| (sum.0 + child.0, sum.1 + child.1))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_tree_has_the_nodes_of_its_depth() {
        let mut rng = fastrand::Rng::with_seed(1);
        assert_eq!(super::tree(0, &mut rng).count().0, 1);
        assert_eq!(super::tree(5, &mut rng).count().0, 63);
    }
}

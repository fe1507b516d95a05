//! The nodes of the simulated machine: of which one each core is, and on which one each page of memory lies.
//!
//! A page lies on the node of the core that touches it first, as Linux has it unless a program says otherwise, until
//! it is given back. Blocks are touched from end to end by whoever allocates them. Where there is one node, nothing
//! is noted.

use masu_core::size_class::UNIT;

/// Which threads run on which node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// A copy's threads are all on one node, as a scheduler that knows which threads share data would have it. Where
    /// there are fewer copies than nodes it is the next.
    Together,
    /// Each thread is on any node.
    Anywhere,
    /// The same, and when counting begins each thread is moved to the next node.
    Moved,
}

impl Spread {
    /// All of them.
    pub const ALL: [Spread; 3] = [Spread::Together, Spread::Anywhere, Spread::Moved];

    /// What reports call it.
    pub fn words(self) -> &'static str {
        match self {
            Spread::Together => "together",
            Spread::Anywhere => "anywhere",
            Spread::Moved => "moved",
        }
    }
}

/// How many nodes there are, and who runs where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Nodes.
    pub nodes: usize,
    /// Threads.
    pub spread: Spread,
}

impl Layout {
    /// A machine with one node.
    pub const ONE: Layout = Layout { nodes: 1, spread: Spread::Anywhere };

    /// The node of each core, where each copy has so many threads, whose cores are `places`.
    pub fn of_cores(self, cores: usize, threads: usize, places: &[usize]) -> Vec<u8> {
        let mut of = shuffled(cores, self.nodes);
        let copies = places.len() / threads.max(1);
        if self.spread == Spread::Together && copies >= self.nodes {
            let of_copies = shuffled(copies, self.nodes);
            for (thread, &core) in places.iter().enumerate() {
                of[core] = of_copies[thread / threads];
            }
        }
        of
    }
}

/// A node for each of so many, about as often each, in no order.
fn shuffled(many: usize, nodes: usize) -> Vec<u8> {
    let mut order: Vec<usize> = (0..many).collect();
    order.sort_by_key(|&one| scattered(one as u32));
    let mut of = vec![0; many];
    order.into_iter().enumerate().for_each(|(rank, one)| of[one] = (rank * nodes / many) as u8);
    of
}

/// Numbers that look random, no two of them the same.
fn scattered(number: u32) -> u32 {
    let mut bits = number.wrapping_add(0x9E37_79B9);
    for factor in [0x85EB_CA6B, 0xC2B2_AE35] {
        bits = (bits ^ bits >> 16).wrapping_mul(factor);
    }
    bits ^ bits >> 16
}

/// See the module.
pub struct Nodes {
    /// How many there are.
    pub number: usize,
    of_cores: Vec<u8>,
    /// By page: one more than its node's number, or 0 before it is touched.
    pages: Vec<u8>,
}

impl Nodes {
    /// Every core is of one node.
    pub fn one() -> Self {
        Nodes { number: 1, of_cores: Vec::new(), pages: Vec::new() }
    }

    /// So many nodes, by core.
    pub fn new(number: usize, of_cores: Vec<u8>) -> Self {
        Nodes { number, of_cores, pages: Vec::new() }
    }

    /// A core's node.
    pub fn of(&self, core: usize) -> usize {
        self.of_cores.get(core).copied().unwrap_or(0).into()
    }

    /// Moves what runs on each core to the next node.
    pub fn shift(&mut self) {
        self.of_cores.iter_mut().for_each(|of| *of = (*of + 1) % self.number as u8);
    }

    /// A core touches so many bytes. How many lie on another node.
    pub fn touch(&mut self, core: usize, at: usize, bytes: usize) -> usize {
        if self.number == 1 {
            return 0;
        }
        let (own, end) = (self.of(core) as u8 + 1, at + bytes);
        self.pages.resize(self.pages.len().max(end.div_ceil(UNIT)), 0);
        let mut far = 0;
        for page in at / UNIT..end.div_ceil(UNIT) {
            match &mut self.pages[page] {
                untouched @ 0 => *untouched = own,
                of if *of == own => {}
                _ => far += end.min((page + 1) * UNIT) - at.max(page * UNIT),
            }
        }
        far
    }

    /// A page goes back to the kernel.
    pub fn forget(&mut self, page: usize) {
        if let Some(of) = self.pages.get_mut(page) {
            *of = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_lies_where_it_was_touched_first_until_it_is_given_back() {
        let mut nodes = Nodes::new(2, vec![0, 0, 1]);
        assert_eq!((nodes.touch(0, 100, 50), nodes.touch(1, 4000, 96)), (0, 0));
        assert_eq!(
            (nodes.touch(2, 4000, 196), nodes.touch(2, 4096, 8)),
            (96, 0),
            "one page of two"
        );
        assert_eq!(nodes.touch(0, 4096, 2 * UNIT), UNIT);
        nodes.forget(0);
        nodes.forget(99);
        assert_eq!((nodes.touch(2, 0, 16), nodes.touch(0, 0, 16)), (0, 16));
    }

    #[test]
    fn on_one_node_nothing_is_far() {
        let mut nodes = Nodes::one();
        assert_eq!((nodes.touch(0, 0, 16), nodes.touch(9, 0, 16), nodes.of(9)), (0, 0, 0));
        assert!(nodes.pages.is_empty());
    }

    #[test]
    fn what_moves_is_on_the_next_node() {
        let mut nodes = Nodes::new(3, vec![0, 1, 2]);
        nodes.shift();
        assert_eq!([0, 1, 2].map(|core| nodes.of(core)), [1, 2, 0]);
    }

    #[test]
    fn copies_are_kept_together_where_there_are_enough_of_them() {
        let places: Vec<usize> = (0..16).rev().collect();
        let of = |spread, threads| Layout { nodes: 2, spread }.of_cores(16, threads, &places);
        let together = of(Spread::Together, 4);
        let first: Vec<u8> = (0..4).map(|copy| together[places[4 * copy]]).collect();
        for (thread, &core) in places.iter().enumerate() {
            assert_eq!(together[core], first[thread / 4], "{together:?}");
        }
        for cores in [&together, &of(Spread::Anywhere, 4), &of(Spread::Together, 16)] {
            assert_eq!(cores.iter().filter(|&&of| of == 1).count(), 8, "{cores:?}");
        }
        assert_ne!(of(Spread::Anywhere, 4), together);
    }
}

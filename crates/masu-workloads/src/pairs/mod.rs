//! Pairs of malloc and free in the shapes whose instructions are counted.

pub mod driver;

use std::str::FromStr;

use driver::BATCH;

/// How a batch of blocks is asked for and given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Each block is freed before the next is asked for.
    Pair,
    /// Last in, first out.
    Lifo,
    /// First in, first out.
    Fifo,
    /// A random permutation, another one in each of sixteen batches.
    Random,
    /// Another thread frees the batch, first in, first out.
    Remote,
    /// As [`Shape::Pair`], with calloc.
    Calloc,
}

impl Shape {
    /// All shapes, in the order of the table.
    pub const ALL: [Shape; 6] =
        [Shape::Pair, Shape::Lifo, Shape::Fifo, Shape::Random, Shape::Remote, Shape::Calloc];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Pair => "pair",
            Shape::Lifo => "lifo",
            Shape::Fifo => "fifo",
            Shape::Random => "random",
            Shape::Remote => "remote",
            Shape::Calloc => "calloc",
        }
    }

    /// What tables call it.
    pub fn label(self) -> &'static str {
        match self {
            Shape::Pair => "one at a time",
            Shape::Lifo => "100 lifo",
            Shape::Fifo => "100 fifo",
            Shape::Random => "100 random",
            Shape::Remote => "100 freed by another thread",
            Shape::Calloc => "one at a time, calloc",
        }
    }

    /// The permutations in which batches are freed, used in turn.
    fn indices(self) -> [[u8; BATCH]; 16] {
        let mut rng = fastrand::Rng::with_seed(42);
        std::array::from_fn(|_| {
            let mut indices: [u8; BATCH] = std::array::from_fn(|index| index as u8);
            match self {
                Shape::Lifo => indices.reverse(),
                Shape::Random => rng.shuffle(&mut indices),
                Shape::Pair | Shape::Fifo | Shape::Remote | Shape::Calloc => {}
            }
            indices
        })
    }
}

impl FromStr for Shape {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Shape::ALL.into_iter().find(|shape| shape.name() == name).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_frees_each_block_once() {
        for shape in Shape::ALL {
            for mut indices in shape.indices() {
                indices.sort_unstable();
                assert!(
                    indices.iter().enumerate().all(|(place, &index)| place == usize::from(index))
                );
            }
        }
    }

    #[test]
    fn shapes_differ_as_their_names_say() {
        assert_eq!(Shape::Fifo.indices()[0][..3], [0, 1, 2]);
        assert_eq!(Shape::Lifo.indices()[0][..3], [99, 98, 97]);
        let random = Shape::Random.indices();
        assert_ne!(random[0], random[1]);
    }
}

//! A million objects made in one go and freed in another order than they were made.

use super::block::Block;
use super::sizes::Sizes;
use super::{Input, Outcome, Workload};

/// See the module's first line.
pub const BURST: Workload = Workload {
    name: "burst",
    about: "1M objects, freed reversed, at random, every second first",
    sleeps: false,
    brief: 0.5,
    run,
};

const OBJECTS: usize = 1_000_000;

fn run(input: &Input) -> Outcome {
    let mut rng = input.rng(0);
    let sizes = Sizes::log_uniform(16, 256, &mut rng);
    let count = input.scaled(OBJECTS);
    let mut checksum = 0u64;
    let orders: [fn(&mut [usize], &mut fastrand::Rng); 3] =
        [|order, _| order.reverse(), |order, rng| rng.shuffle(order), |order, _| halves(order)];
    for reorder in orders {
        let mut blocks: Vec<Option<Block>> =
            (0..count).map(|_| Some(Block::new(sizes.draw(&mut rng), rng.u64(..)))).collect();
        let mut order: Vec<usize> = (0..count).collect();
        reorder(&mut order, &mut rng);
        for index in order {
            let block = blocks[index].take().expect("an order names each block once");
            checksum = checksum.rotate_left(1) ^ block.release();
        }
    }
    Outcome::of(checksum)
}

/// Every second one first, then the rest.
fn halves(order: &mut [usize]) {
    order.sort_unstable_by_key(|index| (index % 2 == 0, *index));
}

#[cfg(test)]
mod tests {
    #[test]
    fn halves_puts_every_second_first() {
        let mut order: Vec<usize> = (0..6).collect();
        super::halves(&mut order);
        assert_eq!(order, [1, 3, 5, 0, 2, 4]);
    }
}

//! Producers and consumers: every block is freed by another thread than made it.
//!
//! Blocks travel in parcels through one bounded queue, so both sides run at the pace of
//! the slower and memory stays bounded.

use std::sync::Arc;
use std::thread;

use super::block::Block;
use super::queue::Queue;
use super::sizes::Sizes;
use super::{Input, Outcome, Workload};

/// One producer, one consumer.
pub const ONE_TO_ONE: Workload = Workload {
    name: "prodcons",
    about: "1 producer, 1 consumer, 16 B..2 KiB",
    sleeps: false,
    brief: 0.4,
    run: |input| run(input, 1),
};

/// Two of each on one queue.
pub const TWO_TO_TWO: Workload = Workload {
    name: "prodcons2",
    about: "2 producers, 2 consumers, 16 B..2 KiB",
    sleeps: false,
    brief: 0.4,
    run: |input| run(input, 2),
};

const PARCEL: usize = 64;
const PARCELS: usize = 100_000;
const QUEUE: usize = 128;

type Parcel = Vec<Block>;

fn run(input: &Input, pairs: usize) -> Outcome {
    let queue = Arc::new(Queue::new(pairs, QUEUE));
    let producers: Vec<_> = (0..pairs)
        .map(|number| {
            let (queue, input) = (Arc::clone(&queue), *input);
            thread::spawn(move || produce(&queue, &input, number as u64, PARCELS / pairs))
        })
        .collect();
    let consumers: Vec<_> = (0..pairs)
        .map(|_| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || consume(&queue))
        })
        .collect();
    for producer in producers {
        producer.join().expect("a producer failed");
    }
    let sums = consumers.into_iter().map(|consumer| consumer.join().expect("a consumer failed"));
    Outcome::of(sums.fold(0, u64::wrapping_add))
}

fn produce(queue: &Queue<Parcel>, input: &Input, number: u64, parcels: usize) {
    let mut rng = input.rng(number);
    let sizes = Sizes::log_uniform(16, 2048, &mut rng);
    for _ in 0..input.scaled(parcels) {
        let block = |_| Block::new(sizes.draw(&mut rng), rng.u64(..));
        queue.push((0..PARCEL).map(block).collect());
    }
    queue.close();
}

/// The sum does not depend on which consumer got which parcel.
fn consume(queue: &Queue<Parcel>) -> u64 {
    let mut checksum = 0u64;
    while let Some(parcel) = queue.pop() {
        for block in parcel {
            checksum = checksum.wrapping_add(block.release());
        }
    }
    checksum
}

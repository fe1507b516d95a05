//! cubes: covers of small sets that are combined and thinned out, as a minimiser of logic does.
//!
//! A cover is a list of cubes, each a block of some words of its own. A step takes what the cubes of two
//! covers have in common and what they do not, leaves out what lies in another cube, and puts the result in
//! the place of one of them: many small blocks that live shortly, some that live long, and lists that grow.

use super::{Input, Outcome, Workload};

/// See the module's first line.
pub const CUBES: Workload = Workload {
    name: "cubes",
    about: "1 thread, 200 covers of cubes of 16 B..128 B, combined and thinned out",
    sleeps: false,
    brief: 0.25,
    run,
};

const COVERS: usize = 200;
const STEPS: usize = 20_000;
/// Cubes of a new cover.
const CUBES_NEW: usize = 24;
/// A cover never has more.
const MOST: usize = 60;

type Cube = Box<[u64]>;

fn run(input: &Input) -> Outcome {
    let mut rng = input.rng(0);
    let longest = input.size(128) / 8;
    let fresh = |rng: &mut fastrand::Rng| -> Vec<Cube> {
        let words = rng.usize(2.min(longest)..=longest);
        let cube = |rng: &mut fastrand::Rng| (0..words).map(|_| rng.u64(..)).collect();
        (0..CUBES_NEW).map(|_| cube(rng)).collect()
    };
    let mut covers: Vec<Vec<Cube>> = (0..input.live(COVERS)).map(|_| fresh(&mut rng)).collect();
    let mut checksum = 0u64;
    for _ in 0..input.scaled(STEPS) {
        let (one, other) = (rng.usize(..covers.len()), rng.usize(..covers.len()));
        let mut result: Vec<Cube> = Vec::new();
        for (number, left) in covers[one].iter().enumerate() {
            let right = &covers[other][number % covers[other].len()];
            let meet: Cube = left.iter().zip(right).map(|(left, right)| left & right).collect();
            let rest: Cube = left.iter().zip(right).map(|(left, right)| left ^ right).collect();
            for cube in [rest, meet] {
                let inside = |outer: &Cube| {
                    outer.len() == cube.len()
                        && outer.iter().zip(&cube).all(|(outer, word)| outer & word == *word)
                };
                if result.len() < MOST && !result.iter().any(inside) {
                    result.push(cube);
                }
            }
        }
        checksum = checksum.rotate_left(1) ^ result[0][0] ^ result.len() as u64;
        covers[one] = if rng.u8(..3) == 0 { fresh(&mut rng) } else { result };
    }
    let words = covers.iter().flatten().flat_map(|cube| cube.iter());
    Outcome::of(words.fold(checksum, |sum, word| sum.rotate_left(1) ^ word))
}

//! barnes: bodies that attract each other, with a tree of space rebuilt in every step.
//!
//! The method of Barnes and Hut: cells of an octree hold the mass and centre of what lies in
//! them, and a far cell acts like one body. Each step allocates some ten thousand cells and
//! drops them all. The tree's root must hold the mass of all bodies.

use super::{Input, Outcome, Workload};

/// See the module's first line.
pub const BARNES: Workload = Workload {
    name: "barnes",
    about: "1 thread, N bodies, an octree of boxes rebuilt in every step",
    sleeps: false,
    brief: 0.06,
    run,
};

const BODIES: usize = 20_000;
const STEPS: usize = 16;
/// A cell is far if its side is below this share of its distance.
const FAR: f64 = 0.9;
/// Softens the force of very near bodies.
const SOFT: f64 = 1e-3;
const TIME_STEP: f64 = 1e-3;
/// Bodies nearer to each other than the side of such a cell share it.
const DEEPEST: u32 = 24;

type Vector = [f64; 3];

struct Body {
    place: Vector,
    speed: Vector,
    mass: f64,
}

/// A cube of space: one body, or eight smaller cubes.
#[derive(Default)]
struct Cell {
    mass: f64,
    /// The sum of mass times place; divided by the mass, the centre.
    moment: Vector,
    parts: Option<Box<[Option<Box<Cell>>; 8]>>,
}

fn run(input: &Input) -> Outcome {
    let mut rng = input.rng(0);
    let mut bodies: Vec<Body> = (0..input.scaled(BODIES).max(16))
        .map(|_| Body {
            place: [(); 3].map(|()| rng.f64()),
            speed: [0.0; 3],
            mass: 1.0 + rng.f64(),
        })
        .collect();
    let mass: f64 = bodies.iter().map(|body| body.mass).sum();
    for _ in 0..STEPS {
        let mut root = Cell::default();
        for body in &bodies {
            root.insert(body.place, body.mass, [0.5; 3], 0.5, 0);
        }
        assert!((root.mass / mass - 1.0).abs() < 1e-9, "the tree lost bodies");
        for body in &mut bodies {
            let pull = root.pull(body.place, 1.0);
            body.speed = plus(body.speed, pull.map(|part| part * TIME_STEP));
            // Space is a torus, so that no body leaves it.
            let place = plus(body.place, body.speed.map(|part| part * TIME_STEP));
            body.place = place.map(|part| part.rem_euclid(1.0));
        }
    }
    let bits = bodies.iter().flat_map(|body| body.place).map(f64::to_bits);
    Outcome::of(bits.fold(0, |sum: u64, bits| sum.rotate_left(1) ^ bits))
}

fn plus(left: Vector, right: Vector) -> Vector {
    [0, 1, 2].map(|axis| left[axis] + right[axis])
}

impl Cell {
    /// Adds a body to the cube around `middle` that reaches `half` to each side.
    fn insert(&mut self, place: Vector, mass: f64, middle: Vector, half: f64, depth: u32) {
        let empty = self.mass == 0.0;
        if !empty && depth < DEEPEST {
            // The body that was alone here moves down first.
            if self.parts.is_none() {
                self.parts = Some(Box::default());
                let (alone, there) = (self.mass, self.centre());
                self.pass_down(there, alone, middle, half, depth);
            }
            self.pass_down(place, mass, middle, half, depth);
        }
        self.mass += mass;
        self.moment = plus(self.moment, place.map(|part| part * mass));
    }

    fn pass_down(&mut self, place: Vector, mass: f64, middle: Vector, half: f64, depth: u32) {
        let Some(parts) = &mut self.parts else { return };
        let above = [0, 1, 2].map(|axis| place[axis] >= middle[axis]);
        let octant =
            usize::from(above[0]) | usize::from(above[1]) << 1 | usize::from(above[2]) << 2;
        let quarter = half / 2.0;
        let middle =
            [0, 1, 2].map(|axis| middle[axis] + if above[axis] { quarter } else { -quarter });
        let part = parts[octant].get_or_insert_default();
        part.insert(place, mass, middle, quarter, depth + 1);
    }

    fn centre(&self) -> Vector {
        self.moment.map(|sum| sum / self.mass)
    }

    /// The acceleration at `place` by all that is in this cube of the given side.
    fn pull(&self, place: Vector, side: f64) -> Vector {
        let centre = self.centre();
        let away = [0, 1, 2].map(|axis| centre[axis] - place[axis]);
        let square = away.iter().map(|part| part * part).sum::<f64>() + SOFT;
        match &self.parts {
            Some(parts) if side * side > FAR * FAR * square => parts
                .iter()
                .flatten()
                .fold([0.0; 3], |sum, part| plus(sum, part.pull(place, side / 2.0))),
            _ => away.map(|part| part * self.mass / (square * square.sqrt())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_pulled_towards_each_other() {
        let mut root = Cell::default();
        root.insert([0.25, 0.5, 0.5], 1.0, [0.5; 3], 0.5, 0);
        root.insert([0.75, 0.5, 0.5], 3.0, [0.5; 3], 0.5, 0);
        assert_eq!(root.mass, 4.0);
        let pull = root.pull([0.25, 0.5, 0.5], 1.0);
        assert!(pull[0] > 1.0 && pull[1].abs() < 1e-12, "{pull:?}");
    }

    #[test]
    fn bodies_in_one_place_share_a_cell() {
        let mut root = Cell::default();
        for _ in 0..3 {
            root.insert([0.3; 3], 1.0, [0.5; 3], 0.5, 0);
        }
        assert_eq!(root.mass, 3.0);
    }
}

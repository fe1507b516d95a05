//! arrays: expressions over arrays of numbers, as programs on NumPy are made of.
//!
//! Some arrays have names and live long. Each step computes one anew from itself, by way of temporary arrays of the same
//! length that live for one operation each; some come zeroed. Now and then an array of another length takes the place.

use super::{Input, Outcome, Workload};

/// See the module's first line.
pub const ARRAYS: Workload = Workload {
    name: "arrays",
    about: "1 thread, 24 arrays of 1 KiB..8 MiB, temporaries of the same lengths",
    sleeps: false,
    brief: 0.15,
    run,
};

const ARRAYS_KEPT: usize = 24;
const STEPS: usize = 1_000;
const SHORTEST: usize = 1 << 10;
const LONGEST: usize = 8 << 20;

fn run(input: &Input) -> Outcome {
    let mut rng = input.rng(0);
    let (low, high) = (input.size(SHORTEST) as f64, input.size(LONGEST) as f64);
    let fresh = |rng: &mut fastrand::Rng| {
        let bytes = (low.ln() + rng.f64() * (high.ln() - low.ln())).exp();
        vec![rng.u64(..); (bytes / 8.0) as usize + 1]
    };
    let mut arrays: Vec<Vec<u64>> = (0..input.live(ARRAYS_KEPT)).map(|_| fresh(&mut rng)).collect();
    let mut checksum = 0u64;
    for step in 0..input.scaled(STEPS) {
        let place = rng.usize(..arrays.len());
        let factor = rng.u64(..) | 1;
        if rng.u8(..4) == 0 {
            arrays[place] = fresh(&mut rng);
        }
        let array = &arrays[place];
        let scaled: Vec<u64> = array.iter().map(|value| value.wrapping_mul(factor)).collect();
        let sum: Vec<u64> =
            array.iter().zip(&scaled).map(|(one, other)| one ^ (other >> 7)).collect();
        drop(scaled);
        let result = if step % 4 == 0 {
            let mut masked = vec![0; sum.len()];
            masked.iter_mut().zip(&sum).step_by(3).for_each(|(to, from)| *to = *from);
            masked
        } else {
            sum
        };
        checksum = checksum.rotate_left(1) ^ of_each_page(&result);
        arrays[place] = result;
    }
    let ends = arrays.iter().map(|array| array[array.len() - 1]);
    Outcome::of(ends.fold(checksum, |sum, end| sum.rotate_left(1) ^ end))
}

/// A number for each page, since one result depends on nothing but its own place. That is soon looked at.
fn of_each_page(array: &[u64]) -> u64 {
    array.iter().step_by(509).fold(0, |sum, number| sum.rotate_left(1) ^ number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_was_emptied_changes_the_number() {
        let array: Vec<u64> = (1..4096).collect();
        for page in 0..8 {
            let mut emptied = array.clone();
            emptied.iter_mut().skip(page * 512).take(512).for_each(|number| *number = 0);
            assert_ne!(of_each_page(&emptied), of_each_page(&array), "page {page}");
        }
    }
}

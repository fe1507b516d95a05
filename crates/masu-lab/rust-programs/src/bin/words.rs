//! A job on rayon: texts are made, split, counted in maps that are merged, and sorted in parallel.

use rayon::prelude::*;
use rust_programs::{Random, finish, mix, scaled, total};
use std::collections::HashMap;

fn main() {
    let mut sum = 0u64;
    for round in 0..scaled(12) {
        let texts: Vec<String> = (0..60_000u64)
            .into_par_iter()
            .map(|n| {
                let mut random = Random(n ^ round << 32);
                let words: Vec<String> = (0..5 + random.below(20))
                    .map(|_| format!("w{}", random.below(20_000)))
                    .collect();
                words.join(" ")
            })
            .collect();
        let counts = texts
            .par_iter()
            .fold(HashMap::<String, u64>::new, |mut map, text| {
                text.split(' ').for_each(|word| *map.entry(word.to_owned()).or_default() += 1);
                map
            })
            .reduce(HashMap::new, |mut all, one| {
                one.into_iter().for_each(|(word, n)| *all.entry(word).or_default() += n);
                all
            });
        let mut words: Vec<(u64, String)> =
            counts.into_par_iter().map(|(word, n)| (n, word)).collect();
        words.par_sort_unstable();
        let weight = |(n, word): &(u64, String)| mix(n * total(word.as_bytes()));
        sum = words.iter().map(weight).fold(sum, u64::wrapping_add);
    }
    finish(sum);
}

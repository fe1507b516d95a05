//! How many samples a run took, and how many it would have taken without a pace.
//!
//! masu's profile says how many samples each place has, and estimates without bias how many blocks of which sizes it
//! has allocated. A block with room for `s` bytes is a sample with probability 1 − e^(−s / rate) at a fixed rate, which
//! gives the number that was asked for. jemalloc's profile of everything allocated has plain numbers of samples.

use std::path::Path;
use std::{fs, io};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use masu_profile::{Amount, Profile};

/// The samples of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Samples {
    /// Those that were taken.
    pub taken: f64,
    /// Those that a sampler without a pace takes on average.
    pub asked: f64,
    /// Bytes that the allocated blocks have room for.
    pub bytes: f64,
}

impl Samples {
    /// Those in masu's profile, which was asked for with a mean distance of so many bytes.
    pub fn of(profile: &Profile, rate: u64) -> Samples {
        let mut samples = Samples { taken: profile.dropped as f64, asked: 0.0, bytes: 0.0 };
        for place in &profile.places {
            samples.taken += place.samples as f64;
            let Amount { objects, bytes } = place.allocated;
            // Small blocks have exactly so much room, and larger ones hardly more than was requested.
            let size = (bytes / objects.max(1.0)).max(place.size as f64);
            samples.bytes += objects * size;
            samples.asked -= objects * (-size / rate as f64).exp_m1();
        }
        samples
    }

    /// Those in the file that masu has written.
    pub fn read(file: &Path, rate: u64) -> Result<Samples> {
        let text = fs::read_to_string(file).context("the profile was not written")?;
        let profile = Profile::parse(&text).map_err(anyhow::Error::msg)?;
        let samples = Samples::of(&profile, rate);
        ensure!(samples.taken > 0.0, "the profile has no samples");
        Ok(samples)
    }

    /// Bytes allocated for each.
    pub fn distance(&self) -> f64 {
        self.bytes / self.taken.max(1.0)
    }
}

/// What jemalloc's profiles begin with, and what makes it count all samples and write them as it ends.
pub const JEMALLOC: &str = "jeprof";
pub const JEMALLOC_COUNTS: &str =
    "prof_final:true,prof_accum:true,prof_unbias:false,prof_prefix:jeprof";

/// The number in the profile that jemalloc has left in a directory, which is taken away.
pub fn of_jemalloc(place: &Path) -> Result<f64> {
    let is_one = |file: &fs::DirEntry| file.file_name().to_string_lossy().starts_with(JEMALLOC);
    let files: Vec<fs::DirEntry> = fs::read_dir(place)?.collect::<io::Result<_>>()?;
    let file = files.iter().find(|file| is_one(file)).context("jemalloc wrote no profile")?.path();
    let text = fs::read_to_string(&file)?;
    fs::remove_file(&file)?;
    accumulated(&text).context("jemalloc's profile has no number of samples")
}

/// Of the line of all threads, as in `t*: 28: 3670016 [1500: 786432000]`, the first in brackets.
fn accumulated(text: &str) -> Option<f64> {
    let all = text.lines().find_map(|line| line.trim().strip_prefix("t*: "))?;
    all.split_once('[')?.1.split_once(':')?.0.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use masu_profile::Place;

    use super::*;

    fn place(samples: u64, objects: f64, bytes: f64) -> Place {
        Place { samples, allocated: Amount { objects, bytes }, ..Place::default() }
    }

    #[test]
    fn small_blocks_are_asked_for_by_their_bytes_and_large_ones_by_their_number() {
        let rate = 512 << 10;
        let small = Place { size: 64, ..place(50, 1e6, 50e6) };
        let large = place(3, 3.0, 3.0 * f64::from(64 << 20));
        let of = |places: Vec<Place>| Samples::of(&Profile { places, ..Profile::default() }, rate);
        let samples = of(vec![small.clone()]);
        assert!((samples.asked - 64e6 / rate as f64).abs() < 0.1, "{samples:?}");
        assert!((samples.distance() - 1.28e6).abs() < 1.0, "{samples:?}");
        assert!((of(vec![large.clone()]).asked - 3.0).abs() < 1e-9);
        assert_eq!(of(vec![small, large]).taken, 53.0);
    }

    #[test]
    fn a_sample_that_had_no_room_was_taken_too() {
        let profile =
            Profile { places: vec![place(5, 9.0, 99.0)], dropped: 2, ..Profile::default() };
        assert_eq!(Samples::of(&profile, 1).taken, 7.0);
    }

    #[test]
    fn the_samples_of_jemalloc_are_those_of_everything() {
        let text =
            "heap_v2/524288\n  t*: 28: 3670016 [1500: 786432000]\n  t0: 1: 2 [3: 4]\n@ 0x1\n";
        assert_eq!(accumulated(text), Some(1500.0));
        assert_eq!(accumulated("heap_v2/524288\n  t*: 28: 3670016\n"), None);
    }
}

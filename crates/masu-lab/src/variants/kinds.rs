//! The kinds, and how their variants are chosen.

use masu_workloads::{Key, Variation, Workload, keys, named};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

/// A kind of workload.
#[derive(Debug)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// What it is like.
    pub about: &'static str,
    /// The workload of `masu-work`.
    pub workload: &'static str,
    /// The least and the greatest factor on its sizes, and on what lives.
    sizes: (f64, f64),
    live: (f64, f64),
    /// A factor on the work, so that most variants take some fifty milliseconds.
    work: f64,
}

const fn kind(name: &'static str, about: &'static str) -> Kind {
    let (sizes, live) = ((0.25, 4.0), (0.1, 3.0));
    Kind { name, about, workload: name, sizes, live, work: 0.7 }
}

/// All kinds.
pub const ALL: &[Kind] = &[
    kind("larson", "threads replace each other and free what their predecessors left"),
    kind("glibc-thread", "threads with a small working set each"),
    kind("mstress", "generations of threads that swap blocks"),
    kind("rptest", "threads that free parts of each other's pools"),
    kind("exchange", "threads that swap blocks both ways"),
    kind("sh6bench", "batches of small blocks freed in both orders"),
    kind("sh8bench", "the same by threads that free each other's"),
    kind("mleak", "one short thread after the other"),
    Kind { live: (0.3, 2.0), ..kind("frag", "phases of other sizes over survivors") },
    Kind {
        sizes: (0.05, 1.5),
        live: (0.2, 1.5),
        ..kind("malloc-large", "buffers of a quarter to some tens of megabytes, replaced")
    },
    Kind {
        sizes: (0.1, 1.0),
        live: (0.5, 3.0),
        ..kind("buffers", "buffers that grow by realloc and shrink again")
    },
    kind("churn", "small blocks replaced at random in a large live set"),
    kind("churn-beside", "the same in a larger set, by one thread beside another"),
    Kind {
        workload: "medium",
        sizes: (0.1, 1.5),
        ..kind("churn-large", "blocks of a kilobyte to a megabyte replaced at random")
    },
    Kind {
        sizes: (0.3, 8.0),
        ..kind("cubes", "small sets made, combined and thrown away, as in espresso")
    },
    Kind {
        sizes: (0.1, 1.0),
        ..kind("arrays", "arrays of numbers of up to 8 MiB and temporaries, as in NumPy")
    },
    Kind { sizes: (0.1, 2.0), ..kind("hash-strings", "small strings in a hash map") },
    Kind { sizes: (0.1, 2.0), ..kind("lru-strings", "strings in a cache that forgets") },
];

/// A variant of a kind, as `masu-work` is to run it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// The kind's name.
    pub kind: String,
    /// Its number, from which all else follows.
    pub number: usize,
    /// The workload.
    pub workload: String,
    /// Where its random choices start.
    pub seed: u64,
    /// The factor on its work.
    pub scale: f64,
    /// What of it is other than usual, as `masu-work` takes it.
    pub words: Vec<String>,
}

impl Variant {
    /// The variant of that number; 0 is the workload as it is raced.
    pub fn of(kind: &Kind, number: usize) -> Self {
        let workload = workload(kind);
        let mut variation = Variation::default();
        if number > 0 {
            // The kind's name is a part, so that the same number is not the same choice everywhere.
            let start = kind.name.bytes().fold(number as u64, |sum, byte| {
                sum.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte)
            });
            let mut random = SmallRng::seed_from_u64(start);
            variation.sizes = between(kind.sizes, &mut random);
            variation.live = between(kind.live, &mut random);
            if keys(kind.workload).contains(&Key::Threads) {
                variation.threads = Some([1, 2, 3, 4, 6, 8, 16][random.random_range(0..7)]);
            }
        }
        let text = variation.to_string();
        // Threads share the work where each does a part of its own, and larger blocks take longer to write.
        let scale = round(workload.brief * kind.work * lighter(kind, &variation));
        Variant {
            kind: kind.name.into(),
            number,
            workload: kind.workload.into(),
            seed: number as u64 + 1,
            scale,
            words: text.split_whitespace().map(String::from).collect(),
        }
    }

    /// Kind and number.
    pub fn name(&self) -> String {
        format!("{} {}", self.kind, self.number)
    }

    /// What runs it again, on all allocators.
    pub fn command(&self) -> String {
        format!("masu-lab variants --only {} --variant {}", self.kind, self.number)
    }
}

fn workload(kind: &Kind) -> &'static Workload {
    named(kind.workload).expect("a kind is of a workload")
}

/// A factor on the work, by which variants with many threads or large blocks do not take many times as long.
fn lighter(kind: &Kind, variation: &Variation) -> f64 {
    let usual = match kind.workload {
        "sh8bench" | "glibc-thread" => 8.0,
        "exchange" => 2.0,
        _ => 4.0,
    };
    let threads = variation.threads.map_or(1.0, |count| (count as f64 / usual).max(0.5));
    1.0 / (threads * variation.sizes.max(1.0))
}

/// Any factor between two as likely as any other.
fn between((low, high): (f64, f64), random: &mut SmallRng) -> f64 {
    let share: f64 = random.random();
    round((low.ln() + share * (high.ln() - low.ln())).exp())
}

/// To two figures that count: nobody wants to type more.
fn round(value: f64) -> f64 {
    let unit = 10f64.powf(value.log10().floor() - 1.0);
    let text = format!("{:.6}", (value / unit).round() * unit);
    text.parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_always_the_same_variant_and_the_first_is_the_usual_one() {
        for kind in ALL {
            let first = Variant::of(kind, 0);
            assert!(first.words.is_empty() && first.seed == 1, "{first:?}");
            assert_eq!(Variant::of(kind, 7), Variant::of(kind, 7));
            assert_ne!(Variant::of(kind, 7).words, Variant::of(kind, 8).words);
        }
    }

    #[test]
    fn every_variant_is_one_that_the_workload_takes() {
        for kind in ALL {
            for number in 0..20 {
                let variant = Variant::of(kind, number);
                let words: Vec<_> = variant.words.iter().map(String::as_str).collect();
                let variation = Variation::of(&words, keys(kind.workload)).unwrap();
                let within = |factor: f64, (low, high): (f64, f64)| {
                    number == 0 || (low * 0.9..=high * 1.1).contains(&factor)
                };
                assert!(within(variation.sizes, kind.sizes), "{variant:?}");
                assert!(within(variation.live, kind.live), "{variant:?}");
                assert!(variant.scale > 0.0);
            }
        }
    }

    #[test]
    fn names_are_unique_and_the_commands_name_them() {
        let names: std::collections::BTreeSet<_> = ALL.iter().map(|kind| kind.name).collect();
        assert_eq!(names.len(), ALL.len());
        let command = Variant::of(&ALL[0], 3).command();
        assert_eq!(command, "masu-lab variants --only larson --variant 3");
    }

    #[test]
    fn factors_have_two_figures() {
        for (value, expected) in [(0.123_456, 0.12), (3.456, 3.5), (0.0678, 0.068), (2.0, 2.0)] {
            assert_eq!(round(value), expected);
        }
    }
}

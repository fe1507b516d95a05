//! What is tried out in the simulated engine, beside what masu has: changes that may lift a limit.

use std::fmt;
use std::str::FromStr;

use anyhow::{Error, bail};
use masu_core::rules::{most_lenders, most_shards};
use masu_core::size_class::CLASSES;

/// Locks and counts of abandoned spans on one cache line.
const CLASSES_PER_LINE: usize = 4;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variant {
    /// Shards of the page pool; 0: as many as there are cores. `ENGINE`: as many as the engine comes to have.
    pub shards: usize,
    /// There may be as many full caches of medium blocks as there are cores, rather than four.
    pub caches: bool,
    /// The lists of abandoned spans that share a cache line are those of classes that are far apart, not of neighbours.
    pub lists: bool,
    /// The shared arena has as many shards as the engine's comes to have, rather than one lock.
    pub lenders: bool,
    /// A shard serves threads of one node, and spans that nobody owns go to threads of their node first.
    pub nodes: bool,
}

/// See there.
const ENGINE: usize = usize::MAX;

impl Default for Variant {
    /// The engine.
    fn default() -> Self {
        Variant { shards: ENGINE, caches: true, lists: true, lenders: true, nodes: true }
    }
}

impl Variant {
    /// Shards on so many cores. The engine's come while threads wait for each other; here they are there at once.
    pub fn shards_on(self, cores: usize) -> usize {
        match self.shards {
            0 => cores,
            ENGINE => most_shards(cores),
            some => some,
        }
    }

    /// Shards of the shared arena on so many cores.
    pub fn lenders_on(self, cores: usize) -> usize {
        if self.lenders { most_lenders(cores) } else { 1 }
    }

    /// The line on which a class's list of abandoned spans has its lock.
    pub fn line_of(self, class: usize) -> usize {
        if self.lists { class % (CLASSES / CLASSES_PER_LINE) } else { class / CLASSES_PER_LINE }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shards {
            0 => f.write_str("a shard for each core")?,
            1 => f.write_str("one shard")?,
            ENGINE => f.write_str("its shards")?,
            some => write!(f, "{some} shards")?,
        }
        let more = [
            (self.caches, "caches"),
            (self.lists, "lists"),
            (self.lenders, "lenders"),
            (self.nodes, "nodes"),
        ];
        more.into_iter().filter(|(has, _)| *has).try_for_each(|(_, what)| write!(f, ", {what}"))
    }
}

impl FromStr for Variant {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut parts = text.split('+');
        let shards = parts.next().unwrap_or_default();
        let Ok(shards) = shards.parse() else {
            bail!("`{shards}` is no number of shards; 0 stands for one for each core");
        };
        let mut variant =
            Variant { shards, caches: false, lists: false, lenders: false, nodes: false };
        for part in parts {
            match part {
                "caches" => variant.caches = true,
                "lists" => variant.lists = true,
                "lenders" => variant.lenders = true,
                "nodes" => variant.nodes = true,
                other => {
                    bail!(
                        "`+{other}` is nothing to add to shards: use +caches, +lists, +lenders or \
                         +nodes"
                    )
                }
            }
        }
        Ok(variant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_is_what_its_words_say() {
        let all: Variant = "0+caches+lists+lenders+nodes".parse().unwrap();
        assert_eq!(all, Variant { shards: 0, ..Variant::default() });
        assert_eq!(all.to_string(), "a shard for each core, caches, lists, lenders, nodes");
        let eight: Variant = "8".parse().unwrap();
        let none = Variant { caches: false, lists: false, lenders: false, nodes: false, shards: 8 };
        assert_eq!(eight, none);
        for (text, way_out) in
            [("many", "0 stands for"), ("1+luck", "use +caches"), ("", "0 stands")]
        {
            let error = text.parse::<Variant>().unwrap_err().to_string();
            assert!(error.contains(way_out), "{error}");
        }
    }
}

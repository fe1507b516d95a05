//! Which samples' blocks pin free memory: the view for "the heap is small, but the RSS is not".
//!
//! Free memory in a span with blocks in use cannot go to another class nor, page by page, to the kernel: the
//! blocks in use pin it. Each of them has its share of the free bytes of its span. So the shares of all blocks of a
//! class add up to the free memory in the spans of that class, and that sum is known exactly.
//!
//! A sample stands for many blocks that its site allocated at about the same time. Its own block is in a separate span,
//! but the engine records the span that it would otherwise be in: its home. The memory that a block there pins is taken
//! as an estimate for the others. So a sample's score is the number that it stands for times the share of a block in
//! its home, and a class's free memory is divided among its samples by their scores.
//!
//! | home | share |
//! |---|---|
//! | a span in use of the class | its free bytes / the blocks in use, including this one |
//! | another span, or none any more | a whole span: the block alone would pin it |
//! | not known | the class's free bytes / its blocks in use |
//!
//! A huge block pins the resident pages past its end, up to the end of its range: they have no other block. A sample at
//! its address has them all, for each block that it stands for.
//!
//! Medium blocks pin nothing: the free pages beside them in their chunk go back one by one, whether or not the kernel has
//! to split a huge page for that.

use std::collections::{HashMap, HashSet};

use crate::engine::Engine;
use crate::error::Error;
use crate::fill::{Fill, ends, fills};
use crate::memory::Memory;
use crate::profile::{Home, Sample, Samples};
use crate::tables::Tables;

/// The free memory that blocks in use pin, and whose these are.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Retained {
    /// Resident free bytes in spans with blocks in use and past the ends of huge blocks: the sum of the three parts below.
    pub free: f64,
    /// For each site, the part that its blocks pin, and how many blocks do so.
    pub sites: Vec<Share>,
    /// Free memory in spans of classes without a sample, and past huge blocks if none of them is one.
    pub unknown: f64,
    /// Free memory in the spans of the samples themselves.
    pub samples: f64,
}

/// A site's share.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Share {
    /// Free bytes.
    pub bytes: f64,
    /// Blocks that pin them.
    pub blocks: f64,
}

/// Divides the free memory among the samples.
///
/// # Errors
/// If the process cannot be read.
pub fn retained(memory: &Memory, engine: &Engine, samples: &Samples) -> Result<Retained, Error> {
    if engine.base == 0 {
        return Ok(Retained::default());
    }
    let tables = Tables::read(memory, engine)?;
    let fills = fills(memory, engine, &tables)?;
    let mut retained = divided(engine.layout.granule, engine.base, &fills, samples);
    retained.add_ends(&ends(memory, engine, &tables)?, samples);
    Ok(retained)
}

impl Retained {
    /// Divides what is free past the ends of huge blocks among those that are samples.
    fn add_ends(&mut self, ends: &HashMap<u64, u64>, samples: &Samples) {
        let free = ends.values().sum::<u64>() as f64;
        let known = samples.live.iter().filter_map(|it| Some((it, *ends.get(&it.address)? as f64)));
        let scores: f64 = known.clone().map(|(sample, end)| end * sample.amount.blocks()).sum();
        self.free += free;
        if scores <= 0.0 {
            self.unknown += free;
            return;
        }
        for (sample, end) in known {
            if let Some(share) = self.sites.get_mut(sample.site) {
                share.bytes += free * end * sample.amount.blocks() / scores;
                share.blocks += sample.amount.blocks();
            }
        }
    }
}

/// The free bytes and live blocks of a class.
#[derive(Default, Clone)]
struct Class {
    free: f64,
    live: f64,
    scores: f64,
}

fn divided(granule: u64, base: u64, fills: &HashMap<u64, Fill>, samples: &Samples) -> Retained {
    let mut of =
        Retained { sites: vec![Share::default(); samples.sites.len()], ..Default::default() };
    let class_of = |sample: &Sample| samples.sites.get(sample.site).and_then(|site| site.class);
    let own = |sample: &Sample| sample.address.checked_sub(base).map(|offset| offset / granule);
    // The spans of the samples: they contain no other blocks.
    let apart: HashSet<u64> =
        samples.live.iter().filter(|it| it.home != Home::Here).filter_map(own).collect();
    let mut classes: HashMap<usize, Class> = HashMap::new();
    for (number, fill) in fills {
        of.free += fill.free as f64;
        if apart.contains(number) {
            of.samples += fill.free as f64;
            continue;
        }
        let class = classes.entry(fill.class).or_default();
        class.free += fill.free as f64;
        class.live += fill.live as f64;
    }
    let mut scores: Vec<(usize, usize, f64, f64)> = Vec::new();
    for sample in &samples.live {
        let Some(number) = class_of(sample) else { continue };
        let Some(class) = classes.get_mut(&number) else { continue };
        let home = match sample.home {
            Home::Here => own(sample),
            Home::Granule(granule) => Some(granule),
            Home::Unknown => None,
        };
        let span = home.map(|home| fills.get(&home).filter(|fill| fill.class == number));
        let share = match span {
            None => class.free / class.live.max(1.0),
            Some(None) => granule as f64,
            Some(Some(fill)) if sample.home == Home::Here => {
                fill.free as f64 / fill.live.max(1) as f64
            }
            Some(Some(fill)) => fill.free as f64 / (fill.live + 1) as f64,
        };
        let blocks = sample.amount.blocks();
        class.scores += share * blocks;
        scores.push((sample.site, number, share * blocks, blocks));
    }
    for (site, number, score, blocks) in scores {
        let (Some(class), Some(share)) = (classes.get(&number), of.sites.get_mut(site)) else {
            continue;
        };
        if class.scores > 0.0 {
            share.bytes += class.free * score / class.scores;
        }
        share.blocks += blocks;
    }
    of.unknown = classes.values().filter(|class| class.scores <= 0.0).map(|class| class.free).sum();
    of
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Amount, Site};

    const GRANULE: u64 = 65536;
    const BASE: u64 = 1 << 30;

    fn sample(site: usize, home: Home) -> Sample {
        let amount = Amount { objects: 65536 * 100, bytes: 6400 };
        Sample { address: BASE + 9 * GRANULE + 64 * site as u64, amount, born: 0, site, home }
    }

    #[test]
    fn what_is_free_is_divided_among_those_who_keep_it() {
        let fill = |class, live, free| Fill { class, size: 64, live, free, ..Fill::default() };
        // A dense span, a sparse one, one of a class without samples, and that of the samples.
        let fills = HashMap::from([
            (1, fill(4, 1000, 1536)),
            (2, fill(4, 3, 65344)),
            (3, fill(7, 10, 5000)),
            (9, fill(4, 2, 8000)),
        ]);
        let site = Site { class: Some(4), size: 64, ..Site::default() };
        let samples = Samples {
            sites: vec![site.clone(), site.clone(), site],
            live: vec![
                sample(0, Home::Granule(1)),
                sample(1, Home::Granule(2)),
                // Its span now has another class.
                sample(2, Home::Granule(3)),
            ],
            ..Samples::default()
        };
        let found = divided(GRANULE, BASE, &fills, &samples);
        assert_eq!((found.free, found.samples, found.unknown), (79880.0, 8000.0, 5000.0));
        let parts: f64 = found.sites.iter().map(|share| share.bytes).sum();
        assert!((parts + found.samples + found.unknown - found.free).abs() < 1e-6);
        let [dense, sparse, alone] = found.sites[..] else { panic!("three sites") };
        assert!(dense.bytes * 100.0 < sparse.bytes && sparse.bytes * 3.0 < alone.bytes);
        assert_eq!(dense.blocks, 100.0);
    }

    #[test]
    fn what_is_free_past_huge_blocks_is_theirs() {
        let ends = HashMap::from([(BASE, 3 << 20), (2 * BASE, 1 << 20), (3 * BASE, 2 << 20)]);
        let amount = Amount { objects: 65536, bytes: 9 << 20 };
        let live = |site, address| Sample { address, amount, born: 0, site, home: Home::Here };
        let mut samples = Samples {
            sites: vec![Site::default(); 3],
            // One of the three blocks is no sample, and one sample leaves nothing of its pages.
            live: vec![live(0, BASE), live(1, 2 * BASE), live(2, 4 * BASE)],
            ..Samples::default()
        };
        let sites = vec![Share::default(); 3];
        let mut found = Retained { sites: sites.clone(), free: 5.0, ..Retained::default() };
        found.add_ends(&ends, &samples);
        let mib = f64::from(1 << 20);
        let shares = found.sites.iter().map(|share| (share.bytes / mib, share.blocks));
        assert_eq!(shares.collect::<Vec<_>>(), [(4.5, 1.0), (1.5, 1.0), (0.0, 0.0)]);
        assert_eq!((found.free, found.unknown), (5.0 + 6.0 * mib, 0.0));
        samples.live.clear();
        let mut found = Retained { sites, ..Retained::default() };
        found.add_ends(&ends, &samples);
        assert_eq!((found.free, found.unknown), (6.0 * mib, 6.0 * mib));
    }

    #[test]
    fn without_homes_blocks_share_alike() {
        let fills = HashMap::from([(
            1,
            Fill { class: 4, size: 64, live: 8, free: 800, ..Fill::default() },
        )]);
        let site = Site { class: Some(4), size: 64, ..Site::default() };
        let samples = Samples {
            sites: vec![site.clone(), site],
            live: vec![
                sample(0, Home::Unknown),
                sample(1, Home::Unknown),
                sample(1, Home::Unknown),
            ],
            ..Samples::default()
        };
        let found = divided(GRANULE, BASE, &fills, &samples);
        assert!((found.sites[1].bytes / found.sites[0].bytes - 2.0).abs() < 1e-9);
    }
}

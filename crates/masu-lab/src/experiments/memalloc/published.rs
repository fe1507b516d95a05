//! The published series, read off the article's figures: median milliseconds of a thousand batches.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

const FIGURES: &str = include_str!("../../../data/memalloc_bench_published.csv");

/// The two machines, as the file calls them and as they are.
pub const MACHINES: [(&str, &str); 2] =
    [("mbp", "M1 Max, macOS"), ("pegasus", "Xeon Platinum 8468, Linux")];

/// By machine, pattern, allocator and size.
pub type Published = BTreeMap<(&'static str, String, &'static str, usize), f64>;

/// All figures.
pub fn read() -> Result<Published> {
    let parse = |line: &'static str| {
        let mut fields = line.split(',');
        let mut next = || fields.next().with_context(|| format!("a field is missing: {line}"));
        let (machine, pattern, allocator) = (next()?, next()?.to_lowercase(), next()?);
        Ok(((machine, pattern, allocator, next()?.parse()?), next()?.parse()?))
    };
    FIGURES.lines().skip(1).map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_points_are_there() {
        let published = read().unwrap();
        assert_eq!(published.len(), 2 * 4 * 5 * 19);
        let point = published[&("pegasus", "lifo".into(), "box", 4096)];
        assert!((point - 114.0).abs() < 1.0, "{point}");
    }
}

//! From how many call stacks the blocks come that keep free memory resident, if a profile of the process runs.

use std::collections::HashMap;

use masu_profile::Profile;

use crate::prof::look::Subject;

/// The call stacks whose blocks keep most of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Keepers {
    /// Their number.
    pub stacks: usize,
    /// The part of the free memory that their blocks keep.
    pub share: f64,
}

/// The part of what is known that the stacks have to account for: single samples make up the rest.
const MOST: f64 = 0.9;

/// Asks a process. `None` without a running profile: `masu prof --retained -p` starts one.
pub fn keepers(process: u32) -> Option<Keepers> {
    most(&Subject::of(process, true).ok()?.places().ok()??)
}

fn most(profile: &Profile) -> Option<Keepers> {
    let free = profile.free.as_ref().map(|free| free.bytes).filter(|free| *free > 0.0)?;
    let mut stacks = HashMap::<&[u64], f64>::new();
    for place in &profile.places {
        *stacks.entry(&place.frames).or_default() += place.retained.bytes;
    }
    let mut parts: Vec<f64> = stacks.into_values().filter(|part| *part > 0.0).collect();
    parts.sort_by(|a, b| b.total_cmp(a));
    let known: f64 = parts.iter().sum();
    let mut sum = 0.0;
    let stacks = 1 + parts.iter().position(|part| {
        sum += part;
        sum >= known * MOST
    })?;
    Some(Keepers { stacks, share: sum / free })
}

#[cfg(test)]
mod tests {
    use super::*;
    use masu_profile::raw::Free;
    use masu_profile::{Amount, Place};

    #[test]
    fn the_fewest_stacks_that_keep_most_are_counted() {
        let place = |frame, bytes| Place {
            frames: vec![frame],
            retained: Amount { objects: 1.0, bytes },
            ..Place::default()
        };
        // The first two places are one stack's, with blocks of two sizes.
        let places =
            vec![place(1, 30.0), place(1, 30.0), place(2, 35.0), place(3, 5.0), place(4, 0.0)];
        let free = Some(Free { bytes: 200.0, ..Free::default() });
        let profile = Profile { places, free, ..Profile::default() };
        assert_eq!(most(&profile), Some(Keepers { stacks: 2, share: 95.0 / 200.0 }));
        assert_eq!(most(&Profile { places: Vec::new(), ..profile.clone() }), None);
        assert_eq!(most(&Profile { free: None, ..profile }), None);
    }
}

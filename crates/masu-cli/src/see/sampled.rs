//! What a running profile of the process adds to its account: from how many call stacks the blocks come that keep free
//! memory resident, and how much of the program's blocks is rounding.

use std::collections::HashMap;

use masu_core::size_class::{SMALL_MAX, UNIT};
use masu_inspect::Account;
use masu_inspect::account::Kind;
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

/// Samples of blocks in use from which the part that is rounding is known well enough.
const FEWEST: f64 = 50.0;

/// Asks the account's process. Without a running profile it adds nothing: `masu prof --retained -p` starts one.
pub fn add_sampled(account: &mut Account) -> Option<Keepers> {
    let profile = Subject::of(account.process, true).ok()?.places().ok()??;
    // Blocks of the hardened heap are as long as requested.
    if account.hardened_blocks == 0 {
        let bytes = |part| (account.allocated as f64 * part) as u64;
        let rounded = rounding(&profile).map(|part| bytes(part).min(account.rounding_at_most));
        account.rounding_by_profile = rounded;
        account.requested_by_profile = rounded.map(|rounded| account.allocated - rounded);
    }
    most(&profile, account.bytes(Kind::FreeInSpans) as f64)
}

/// The part of the program's blocks that is rounding up to size classes.
fn rounding(profile: &Profile) -> Option<f64> {
    let (mut requested, mut rounded) = (0.0, 0.0);
    for place in profile.places.iter().filter(|place| place.live.objects > 0.0) {
        let each = place.live.bytes / place.live.objects;
        // The power of two below stands for a longer block, of whole pages.
        let is_class = each <= place.size as f64;
        let pages = (each / UNIT as f64).ceil() * UNIT as f64;
        let room = if is_class { place.size as f64 } else { pages };
        requested += place.live.bytes;
        rounded += place.live.objects * (room - each);
    }
    (requested >= FEWEST * profile.rate as f64).then(|| rounded / (requested + rounded))
}

/// The fewest call stacks whose small blocks keep most of what is `free` beside small blocks.
fn most(profile: &Profile, free: f64) -> Option<Keepers> {
    profile.free.as_ref().filter(|_| free > 0.0)?;
    let mut stacks = HashMap::<&[u64], f64>::new();
    for place in profile.places.iter().filter(|place| place.size <= SMALL_MAX as u64) {
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
    // The profile is read a moment later.
    Some(Keepers { stacks, share: (sum / free).min(1.0) })
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
        // The first two places are one stack's, with blocks of two sizes. A huge block keeps no part of spans.
        let mut places =
            vec![place(1, 30.0), place(1, 30.0), place(2, 35.0), place(3, 5.0), place(4, 0.0)];
        places.push(Place { size: 1 << 21, ..place(5, 900.0) });
        let profile = Profile { places, free: Some(Free::default()), ..Profile::default() };
        let keepers = |share| Some(Keepers { stacks: 2, share });
        assert_eq!(most(&profile, 200.0), keepers(95.0 / 200.0));
        assert_eq!(most(&profile, 90.0), keepers(1.0));
        assert_eq!(most(&profile, 0.0), None);
        assert_eq!(most(&Profile { places: Vec::new(), ..profile.clone() }, 200.0), None);
        assert_eq!(most(&Profile { free: None, ..profile }, 200.0), None);
    }

    #[test]
    fn the_part_that_is_rounding_is_that_of_the_blocks_in_use() {
        let place = |size, objects, bytes| Place {
            size,
            live: Amount { objects, bytes },
            ..Place::default()
        };
        let mut profile = Profile {
            rate: 1000,
            places: vec![
                place(112, 1000.0, 100_000.0),
                // The power of two below, for five pages.
                place(16384, 10.0, 200_000.0),
                place(64, 0.0, 0.0),
            ],
            ..Profile::default()
        };
        let rounded = 1000.0 * 12.0 + 10.0 * 480.0;
        let part = rounding(&profile).expect("many samples");
        assert!((part - rounded / (300_000.0 + rounded)).abs() < 1e-9, "{part}");
        profile.rate = 10_000;
        assert_eq!(rounding(&profile), None);
    }
}

//! A profile compared with an earlier one.

use std::collections::{BTreeSet, HashMap};

use crate::raw::{Amount, Profile};
use crate::symbols::{Frame, Symbols};

/// Where addresses begin that code of the base gets if the profile has none with the same frames: in the half of the
/// address space that no process has.
const FREE: u64 = 0xffff_8000_0000_0000;

/// Subtracts an earlier profile: its places are added with negative figures.
///
/// Its addresses mean nothing in the profile, for it is of another process as a rule. So each becomes one that has the
/// same frames.
pub fn subtract(profile: &mut Profile, symbols: &mut Symbols, base: &Profile, named: &Symbols) {
    let mut known: HashMap<Vec<Frame>, u64> = HashMap::new();
    let all: BTreeSet<u64> = profile.places.iter().flat_map(|p| &p.frames).copied().collect();
    for address in all {
        known.entry(symbols.get(address).to_vec()).or_insert(address);
    }
    let mut next = FREE;
    for place in &base.places {
        let mut place = place.clone();
        for address in &mut place.frames {
            let frames = named.get(*address);
            *address = *known.entry(frames.to_vec()).or_insert_with(|| {
                next += 1;
                symbols.put(next, frames.to_vec());
                next
            });
        }
        place.squares = -place.squares;
        place.lived = -place.lived;
        for Amount { objects, bytes } in [
            &mut place.allocated,
            &mut place.live,
            &mut place.peak,
            &mut place.grown,
            &mut place.retained,
        ] {
            (*objects, *bytes) = (-*objects, -*bytes);
        }
        profile.places.push(place);
    }
    symbols.bare.extend(named.bare.iter().cloned());
}

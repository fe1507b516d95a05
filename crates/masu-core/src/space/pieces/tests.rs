//! Offsets where a mapping may change, against a sorted list.

use super::*;
use proptest::prelude::*;

fn pieces(offsets: &[usize]) -> Pieces {
    let pieces = Pieces::new();
    offsets.iter().for_each(|grains| pieces.push(grains * GRAIN));
    pieces
}

fn grains(pieces: &Pieces) -> Vec<usize> {
    pieces.iter().map(|bytes| bytes / GRAIN).collect()
}

/// What is remembered of offsets: each once, and none at 0.
fn model(mut offsets: Vec<usize>) -> Vec<usize> {
    offsets.dedup();
    offsets.retain(|&o| o != 0);
    offsets
}

fn ascending(most: usize) -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0..200usize, 0..most).prop_map(|mut offsets| {
        offsets.sort_unstable();
        offsets
    })
}

proptest! {
    #[test]
    fn pushed_offsets_are_remembered_or_lost_all_together(offsets in ascending(2 * MOST)) {
        let (pieces, model) = (pieces(&offsets), model(offsets));
        prop_assert_eq!(pieces.known(), model.len() <= MOST);
        prop_assert_eq!(grains(&pieces), if model.len() <= MOST { model } else { Vec::new() });
    }

    #[test]
    fn splitting_and_appending_restores(offsets in ascending(MOST), at in 1..220usize) {
        let (head, tail) = (pieces(&offsets), Pieces::new());
        let whole = model(offsets);
        head.split(at * GRAIN, &tail);
        let below: Vec<_> = whole.iter().copied().filter(|&o| o < at).collect();
        let above: Vec<_> = whole.iter().filter(|&&o| o > at).map(|o| o - at).collect();
        prop_assert_eq!(grains(&head), below);
        prop_assert_eq!(grains(&tail), above);
        // The seam itself is an offset where the mapping may change: who joins says so.
        head.push(at * GRAIN);
        head.append(&tail, at * GRAIN);
        let mut joined = whole;
        if !joined.contains(&at) && joined.len() < MOST {
            joined.push(at);
            joined.sort_unstable();
        }
        if head.known() {
            prop_assert_eq!(grains(&head), joined);
        }
    }

    #[test]
    fn an_inserted_offset_lies_where_it_belongs(offsets in ascending(MOST), at in 1..220usize) {
        let pieces = pieces(&offsets);
        pieces.insert(at * GRAIN);
        let mut whole = offsets;
        whole.push(at);
        whole.sort_unstable();
        let whole = model(whole);
        prop_assert_eq!(grains(&pieces), if whole.len() <= MOST { whole } else { Vec::new() });
    }
}

#[test]
fn what_is_lost_stays_lost_until_it_is_cleared() {
    let many: Vec<_> = (1..=MOST + 1).collect();
    let (lost, tail) = (pieces(&many), Pieces::new());
    assert!(!lost.known());
    lost.split(5 * GRAIN, &tail);
    assert!(!lost.known() && !tail.known());
    let other = pieces(&[1]);
    other.append(&lost, 2 * GRAIN);
    assert!(!other.known());
    lost.clear();
    assert!(lost.known());
    assert_eq!(grains(&lost), Vec::<usize>::new());
}

#[test]
fn offsets_that_are_too_far_are_lost() {
    let far = usize::from(u16::MAX);
    assert_eq!(grains(&pieces(&[1, far])), [1, far]);
    assert!(!pieces(&[1, far + 1]).known());
}

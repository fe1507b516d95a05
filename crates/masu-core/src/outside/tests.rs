//! Tests that the layout describes the engine as it is.

use super::*;

#[test]
fn a_layout_is_its_words() {
    // SAFETY: a structure that contains only words.
    let words: [u64; size_of::<Layout>() / 8] = unsafe { core::mem::transmute(Layout::HERE) };
    let read = Layout::of(&words).expect("all words");
    assert_eq!(std::format!("{read:?}"), std::format!("{:?}", Layout::HERE));
    assert!(Layout::of(words.get(1..).expect("more than one")).is_none());
    assert_eq!((read.version, read.sizes[1]), (VERSION, 16));
}

/// Miri does not assemble them.
#[cfg(not(miri))]
#[test]
fn the_words_lead_to_the_variables() {
    unsafe extern "C" {
        #[link_name = "masu_outside_v0_1"]
        static WORDS: [i32; PLACES + 1];
    }
    // SAFETY: the assembly above.
    let words = unsafe { WORDS };
    let at = |place: Place| {
        let word = words[place as usize];
        (&raw const WORDS as usize).wrapping_add_signed(word as isize)
    };
    assert_eq!(words[0].cast_unsigned(), MAGIC);
    assert_eq!(words[PLACES], 0);
    assert_eq!(at(Place::Layout), &raw const LAYOUT as usize);
    assert_eq!(at(Place::Base), &raw const region::BASE as usize);
    assert_eq!(at(Place::SharedArena), &raw const crate::heap::ARENA as usize);
    assert_eq!(at(Place::Asked), &raw const crate::purge::ASKED as usize);
}

//! Tags, if the processor supports them; otherwise tests that there are none. (`tests/c/tags.c` makes mistakes
//! with them.)

use super::*;
use crate::config::MemoryTags;
use crate::hardened::shape::{PAGES, room};
use crate::hardened::tests::OPTIONS;
use crate::hardened::{self, Options, alloc, free, look};
use crate::own_process::alone;
use crate::report::Wrong;
use std::collections::BTreeSet;
use std::vec::Vec;

/// The sizes of all slots that are tagged.
fn strides() -> impl Iterator<Item = usize> {
    ALL[1..PAGES].iter().map(|shape| shape.stride as usize)
}

/// A block that fills a slot, and its address and tag.
fn block(stride: usize) -> (*mut u8, usize, Tag) {
    let p = alloc(stride - 8, 16, 0);
    let (at, tag) = split(p.addr());
    assert_eq!(tag == Tag::NONE, !tags::are_there(), "{stride} bytes");
    (p, at, tag)
}

/// The tags of the memory at an address.
fn of_memory(at: usize, len: usize) -> Vec<Tag> {
    // SAFETY: slots of the test.
    let of = |at| unsafe { tags::of_memory(at) };
    (at..at + len).step_by(tags::GRANULE).map(of).collect()
}

/// Frees a block. Returns whether it was a block.
fn is_freed(p: *mut u8) -> bool {
    // SAFETY: a live block, or the free notices that it is not.
    unsafe { free(p, 0) }.is_ok()
}

#[test]
fn neighbours_have_different_tags_and_free_slots_have_none() {
    alone!(neighbours_have_different_tags_and_free_slots_have_none, || {
        assert!(hardened::start(&OPTIONS));
        for stride in strides() {
            let mut all: Vec<_> = (0..700).map(|_| block(stride)).collect();
            if !tags::are_there() {
                continue;
            }
            // Some are handed out again, with other neighbours.
            for n in (0..all.len()).step_by(3) {
                assert!(is_freed(all[n].0));
                assert_eq!(of_memory(all[n].1, stride), vec![Tag::NONE; stride / 16]);
                all[n] = block(stride);
            }
            all.sort_by_key(|&(_, at, _)| at);
            let pairs = || all.windows(2).filter(|pair| pair[0].1 + stride == pair[1].1);
            assert!(pairs().all(|pair| pair[0].2 != pair[1].2), "{stride} bytes");
            assert!(pairs().count() > 100, "{stride} bytes");
            let seen: BTreeSet<u8> = all.iter().map(|(.., tag)| tag.number()).collect();
            assert_eq!(seen.len(), 15, "{stride} bytes");
            for (p, at, tag) in all {
                assert_eq!(of_memory(at, stride), vec![tag; stride / 16]);
                assert!(is_freed(p) && of_memory(at, 16) == [Tag::NONE]);
            }
        }
    });
}

#[test]
fn a_slots_next_block_has_another_tag_and_the_old_pointer_is_none() {
    alone!(a_slots_next_block_has_another_tag_and_the_old_pointer_is_none, || {
        assert!(hardened::start(&Options { quarantine_random: 0, quarantine_queue: 0, ..OPTIONS }));
        let (mut old, at, _) = block(112);
        let mut seen = BTreeSet::new();
        while tags::are_there() && seen.len() < 15 {
            assert!(is_freed(old));
            let mut others = Vec::new();
            let p = loop {
                let (p, place, _) = block(112);
                if place == at {
                    break p;
                }
                others.push(p);
            };
            assert_ne!(p, old, "the same tag");
            seen.insert(p.addr());
            assert_eq!(look(old), Some(Err(Wrong::Freed { bytes: room(7) })));
            assert!(!is_freed(old) && look(p) == Some(Ok(104)));
            // SAFETY: no longer a block of the caller's, which is noticed.
            unsafe { assert_eq!(hardened::resize(old, 100, false), None) };
            assert_eq!(look(at as *const u8), Some(Err(Wrong::Freed { bytes: room(7) })));
            let inside = Wrong::Inside { start: p.addr(), bytes: 104 };
            assert_eq!(look(p.wrapping_add(16)), Some(Err(inside)));
            assert!(others.into_iter().all(is_freed));
            old = p;
        }
    });
}

#[test]
fn only_what_was_asked_for_has_the_tag() {
    alone!(only_what_was_asked_for_has_the_tag, || {
        assert!(hardened::start(&OPTIONS));
        let p = alloc(1030, 16, 0);
        let (at, tag) = split(p.addr());
        let has = |size: usize| {
            let tags = of_memory(at, 1280);
            let (own, others) = tags.split_at(size.div_ceil(16));
            own.iter().all(|&it| it == tag) && others.iter().all(|&it| it == Tag::NONE)
        };
        if tags::are_there() {
            assert!(has(1030));
            for size in [1024, 1272, 1100, 1041, 1272] {
                // SAFETY: a live block.
                assert!(
                    unsafe { hardened::resize(p, size, false) }.is_some() && has(size),
                    "{size}"
                );
            }
        }
        assert!(is_freed(p));
        // A block of no bytes has a valid address, for a link.
        let p = alloc(0, 64, 0);
        let (at, tag) = split(p.addr());
        if tags::are_there() {
            assert!(of_memory(at, 32) == [tag, Tag::NONE]);
        }
        assert!(is_freed(p));
    });
}

#[test]
fn pages_that_went_back_are_tagged_again() {
    alone!(pages_that_went_back_are_tagged_again, || {
        assert!(hardened::start(&OPTIONS));
        for _ in 0..3 {
            let all: Vec<_> = (0..5000).map(|_| block(256)).collect();
            if tags::are_there() {
                assert!(all.iter().all(|&(_, at, tag)| of_memory(at, 256) == [tag; 16]));
            }
            assert!(all.into_iter().all(|(p, ..)| is_freed(p)));
            assert!(hardened::purge(true) > 500_000);
        }
    });
}

#[test]
fn they_can_be_switched_off() {
    alone!(they_can_be_switched_off, || {
        assert!(hardened::start(&Options { tags: MemoryTags::Off, ..OPTIONS }));
        let all: Vec<_> = strides().map(|stride| alloc(stride - 8, 16, 0)).collect();
        assert!(all.iter().all(|p| untagged(p.addr()) == p.addr()));
        // No pointer has a tag then.
        let wrong = all[5].wrapping_add(3 << 56);
        assert_eq!(
            look(wrong),
            if wrong == all[5] { Some(Ok(88)) } else { Some(Err(Wrong::Freed { bytes: 88 })) }
        );
        assert!(all.into_iter().all(is_freed));
    });
}

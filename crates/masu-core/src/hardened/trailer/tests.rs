//! Trailers, and the checks and zeroing of the bytes before them.

use super::*;

#[repr(align(16))]
struct Aligned<T>(T);

#[test]
fn a_trailer_says_its_slack_and_every_changed_bit_is_seen() {
    let mut whole = Aligned([0u64; 16]);
    let slot = &mut whole.0;
    let (end, stride) = (slot.as_ptr().addr() + 128, 128);
    let canary = canary(0x0123_4567_89ab_cdef);
    assert_eq!(canary & 0xff, 0);
    // SAFETY: the test's own memory.
    unsafe {
        assert!(is_whole(end, canary, stride), "it has none");
        assert_eq!(slack(end, canary, stride), None);
        for said in [0, 1, 77, 120] {
            write(end, canary, said);
            assert_eq!(slack(end, canary, stride), Some(said));
            assert!(is_whole(end, canary, stride));
        }
        write(end, canary, 0);
        for bit in 0..64 {
            slot[15] ^= 1 << bit;
            let seen = slack(end, canary, stride);
            // A bit that makes it another slack is seen as soon as the slack is checked.
            assert!(seen.is_none() || (8..15).contains(&bit) && seen != Some(0), "bit {bit}");
            slot[15] ^= 1 << bit;
        }
        clear(end - stride, stride);
    }
    assert_eq!(*slot, [0; 16]);
}

#[test]
fn the_first_byte_that_is_not_zero_is_found() {
    let mut bytes = [0u8; 200];
    let at = bytes.as_ptr().addr();
    for from in [0, 1, 7, 8, 33, 71, 72, 73, 135, 136, 137, 150, 168, 183, 184, 185, 191, 192]
        .into_iter()
        .chain([193, 199, 200])
    {
        for place in 0..200 - from {
            bytes[from + place] = 1;
            // SAFETY: the test's own memory.
            unsafe { assert_eq!(first_not_zero(at + from, 200 - from), Some(place)) };
            bytes[from + place] = 0;
        }
        // SAFETY: as above.
        unsafe { assert_eq!(first_not_zero(at + from, 200 - from), None) };
    }
}

/// In both ways: past the cache and through it.
#[test]
fn pages_are_zeroed_whether_they_were_filled_or_not_and_their_neighbours_are_not() {
    #[repr(align(4096))]
    struct Pages([u8; 12 * UNIT]);
    let mut pages = std::boxed::Box::new(Pages([0; 12 * UNIT]));
    for count in [1, 2, 7, 8, 10] {
        for step in [1, 64, UNIT, 12 * UNIT] {
            pages.0.fill(0);
            pages.0[UNIT..].iter_mut().step_by(step).for_each(|byte| *byte = 1);
            let end = UNIT + count * UNIT;
            (pages.0[UNIT - 1], pages.0[end - 1], pages.0[end]) = (1, 1, 1);
            // SAFETY: the test's own memory.
            unsafe { zero_pages(pages.0.as_ptr().addr() + UNIT, count * UNIT) };
            assert!(pages.0[UNIT..end].iter().all(|&byte| byte == 0), "{count} {step}");
            assert_eq!((pages.0[UNIT - 1], pages.0[end]), (1, 1), "{count} {step}");
        }
    }
}

#[test]
fn a_slot_of_any_length_is_cleared_and_its_neighbours_are_not() {
    for stride in (16..=640).step_by(16) {
        let mut slots = Aligned([!0u64; 84]);
        // SAFETY: the test's own memory.
        unsafe { clear(slots.0.as_mut_ptr().addr() + 16, stride) };
        let (slot, behind) = slots.0[2..].split_at(stride / 8);
        assert!(slot.iter().all(|&word| word == 0), "{stride}");
        assert!(slots.0[..2].iter().chain(behind).all(|&word| word == !0), "{stride}");
    }
}

#[test]
fn every_byte_of_a_slot_and_of_its_slack_is_looked_at_and_no_other() {
    for stride in (16..=640).step_by(16) {
        let mut slots = Aligned([!0u8; 672]);
        let (at, room) = (slots.0.as_ptr().addr() + 16, stride - TRAILER);
        slots.0[16..16 + room].fill(0);
        // SAFETY: the test's own memory.
        assert!(unsafe { is_slot_zero(at, stride) }, "{stride}");
        for place in 0..room {
            slots.0[16 + place] = 1;
            // SAFETY: as above.
            assert!(!unsafe { is_slot_zero(at, stride) }, "{stride} {place}");
            for slack in (0..=room).filter(|slack| slack.abs_diff(room - place) < 40) {
                // SAFETY: as above.
                let is_zero = unsafe { is_slack_zero(at + stride, slack, stride) };
                assert_eq!(is_zero, place < room - slack, "{stride} {place} {slack}");
            }
            slots.0[16 + place] = 0;
        }
    }
}

#[test]
fn pages_without_memory_are_zero_and_stay_without() {
    let at = mem::map(3 * UNIT).expect("memory");
    let (from, len) = (at + 104, 3 * UNIT - 208);
    // SAFETY: just mapped.
    unsafe {
        assert!(is_zero_where_resident(from, len));
        ((at + 2 * UNIT) as *mut u8).write(1);
        assert!(!is_zero_where_resident(from, len));
        assert!(is_zero_where_resident(from, 2 * UNIT - 104));
        ((at + 2 * UNIT) as *mut u8).write(0);
        assert!(is_zero_where_resident(from, len));
    }
    assert!(!mem::is_resident(at + UNIT));
    mem::unmap(at, 3 * UNIT);
}

/// The kernel names such a page like one without memory.
#[test]
fn a_page_that_was_swapped_out_is_discarded_or_looked_at() {
    let at = mem::map(3 * UNIT).expect("memory");
    let is_zero = |write_to: usize| {
        // SAFETY: just mapped.
        unsafe {
            ((at + write_to) as *mut u8).write(1);
            is_zero_where_resident(at + 104, 3 * UNIT - 208)
        }
    };
    mem::refusals::swap_out(at..at + 3 * UNIT);
    assert!(is_zero(UNIT));
    // SAFETY: as above.
    assert_eq!(unsafe { ((at + UNIT) as *const u8).read() }, 0);
    // If the kernel does not take the page.
    mem::refusals::lock(at + UNIT..at + 2 * UNIT);
    assert!(!is_zero(UNIT));
    mem::refusals::lock(0..0);
    // One that holds other bytes, too.
    assert!(is_zero(0));
    assert!(!is_zero(2 * UNIT));
    mem::refusals::swap_out(0..0);
    mem::unmap(at, 3 * UNIT);
}

#[test]
fn bytes_beside_those_that_are_checked_do_not_matter() {
    for len in 0..=140 {
        let mut bytes = [!0u8; 172];
        bytes[16..16 + len].fill(0);
        // SAFETY: the test's own memory.
        unsafe { assert!(is_zero(bytes.as_ptr().addr() + 16, len), "{len}") };
    }
}

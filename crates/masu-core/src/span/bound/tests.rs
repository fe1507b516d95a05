//! Both checks against division, for every class, offset and number of blocks.

use super::*;
use crate::run::Home;
use crate::size_class::size_of_class;
use crate::span::{init, pool};

#[test]
#[cfg_attr(miri, ignore = "numbers only, and too many")]
fn whoever_does_not_own_a_span_knows_where_blocks_start() {
    for class in 1..=LAST_CLASS {
        let (size, capacity) = (size_of_class(class), GRANULE / size_of_class(class));
        for offset in 0..GRANULE {
            let expected = offset % size == 0 && offset / size < capacity;
            assert_eq!(may_start(class, GRANULE * 77 + offset), expected, "{class}, {offset}");
        }
    }
}

#[test]
fn the_bound_tells_the_starts_of_blocks_that_exist() {
    region::init().expect("address space");
    // Spans of the same chunk have other factors, since they have other addresses.
    let (count, step) = if cfg!(miri) { (1, 592) } else { (3, 1) };
    let spans: Vec<u32> =
        (0..count).map(|_| pool::take(false, None, Home::ANY).expect("memory")).collect();
    for &span in &spans {
        for class in 1..=LAST_CLASS {
            // SAFETY: from the pool, this thread's alone.
            let s = unsafe {
                init(span, class, u32::MAX - 1);
                &mut *record(span)
            };
            let (size, capacity) = (size_of_class(class), GRANULE / size_of_class(class));
            let start = region::granule_address(span as usize);
            for carved in [0, 1, 2, capacity / 2, capacity - 1, capacity] {
                s.carved = carved as u16;
                s.set_bound(span);
                for former in [0, u32::MAX] {
                    // The free path's comparison has it as its lower half.
                    s.former = former;
                    let bound = u64::from(s.bound.load(Ordering::Relaxed)) << 32;
                    for offset in (0..GRANULE).step_by(step) {
                        let expected = offset % size == 0 && offset / size < carved;
                        let at = start + offset;
                        assert_eq!(s.admits(at), expected, "{class}, {carved}, {offset}");
                        let product = (at as u64).wrapping_mul(s.factor);
                        let whole = product <= bound | u64::from(former);
                        assert!(cfg!(miri) || whole == expected, "{class}, {carved}, {offset}");
                    }
                }
                // SAFETY: as above.
                unsafe { close(span) };
                assert!((0..GRANULE).step_by(step.max(16)).all(|offset| !s.admits(start + offset)));
            }
        }
    }
    for span in spans {
        // SAFETY: on no list, and nothing was carved from it.
        unsafe { pool::give(span) };
    }
}

#[test]
#[cfg_attr(miri, ignore = "numbers only, and too many")]
fn factors_are_found_for_every_address_that_spans_can_have() {
    // Addresses from 4 GiB to 128 TiB, whose numbers have few bits, many bits, and those in between.
    let numbers = (16..31).flat_map(|bit| {
        let number = 1u64 << bit;
        [number, number + 1, number * 2 - 1, number + number / 3]
    });
    for number in numbers {
        for class in 1..=LAST_CLASS {
            let size = size_of_class(class) as u64;
            let factor = factor_of(number, size);
            let start = number << GRANULE_SHIFT;
            let product = |offset: u64| (start + offset).wrapping_mul(factor);
            let capacity = GRANULE as u64 / size;
            let last = product(capacity * size);
            assert!(product(0) >> 32 != 0, "{number}, {size}");
            assert!(
                (1..=capacity).all(|q| (product(q * size) - product((q - 1) * size)) >> 33 != 0)
            );
            let other = (1..size.min(4096)).chain(size - 1..size);
            assert!(other.into_iter().all(|t| product(t) > last), "{number}, {size}");
        }
    }
}

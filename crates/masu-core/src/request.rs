//! A request for memory, classified once, on entry.
//!
//! | | an ordinary request | an exact one |
//! |---|---|---|
//! | a small block is | of the class for the size, or of a slightly larger one that has a block at hand | of the smallest class |
//! | if memory is out | may be a page instead | fails |
//! | zeroed are | the bytes asked for | all that may be used |

use crate::size_class::{
    MEDIUM_MAX, SMALL_MAX, TABLE_MAX, UNIT, aligned_class, class_of, exact_class, medium_units,
    size_of_class, suits,
};

/// The largest alignment: 1 GiB.
pub const ALIGN_MAX: usize = 1 << 30;

/// The largest alignment that small blocks can have: a page.
pub const ALIGN_SMALL_MAX: usize = TABLE_MAX / 2;

/// Where a block comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A span of this class.
    Small(usize),
    /// Runs, by this many units.
    Medium(usize),
    /// A range of the huge window, by this many bytes.
    Huge(usize),
}

impl Source {
    /// The usable size of its blocks.
    #[inline(always)]
    pub fn bytes(self) -> usize {
        match self {
            Source::Small(class) => size_of_class(class),
            Source::Medium(units) => units * UNIT,
            Source::Huge(bytes) => bytes,
        }
    }
}

/// A request that can be served, if there is memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Where the block comes from.
    pub source: Source,
    /// Bytes asked for.
    pub size: usize,
    /// What the address must be a multiple of: a power of two. Every block's address is a multiple
    /// of 16.
    pub align: usize,
    /// How many bytes of it must be zero.
    pub zeroed: usize,
    /// Whether the block must have the size of its source.
    pub exact: bool,
}

/// Where a block of a small size comes from at a multiple of `align`, up to [`ALIGN_SMALL_MAX`], if `class` is that of
/// the next multiple.
#[inline(always)]
fn small_or_run(class: usize, size: usize, align: usize) -> Source {
    if suits(class, size, align) {
        Source::Small(class)
    } else {
        Source::Medium(medium_units(size))
    }
}

/// Where a large block comes from; `None` if such a block cannot exist.
#[inline(always)]
fn large(size: usize, align: usize) -> Option<Source> {
    if size > isize::MAX as usize - UNIT || align > ALIGN_MAX {
        None
    } else if size <= MEDIUM_MAX && align <= MEDIUM_MAX / 2 {
        Some(Source::Medium(medium_units(size)))
    } else {
        Some(Source::Huge(size.max(1).next_multiple_of(UNIT)))
    }
}

impl Request {
    /// An ordinary request; `None` if it can never be served.
    #[inline(always)]
    pub fn new(size: usize, align: usize, zeroed: bool) -> Option<Request> {
        debug_assert!(align.is_power_of_two());
        let source = if size <= SMALL_MAX && align <= 16 {
            Source::Small(class_of(size))
        } else if size <= SMALL_MAX && align <= ALIGN_SMALL_MAX {
            small_or_run(aligned_class(size, align), size, align)
        } else {
            large(size, align)?
        };
        Some(Request { source, size, align, zeroed: if zeroed { size } else { 0 }, exact: false })
    }

    /// An exact request; `None` if it can never be served.
    #[inline(always)]
    pub fn exact(size: usize, align: usize, zeroed: bool) -> Option<Request> {
        debug_assert!(align.is_power_of_two());
        let source = if size <= SMALL_MAX && align <= ALIGN_SMALL_MAX {
            small_or_run(exact_class(size, align), size, align)
        } else {
            large(size, align)?
        };
        let zeroed = if zeroed { source.bytes() } else { 0 };
        Some(Request { source, size, align, zeroed, exact: true })
    }

    /// A request, exact or not; `None` if it can never be served.
    pub fn of(size: usize, align: usize, zeroed: bool, exact: bool) -> Option<Request> {
        if exact { Request::exact(size, align, zeroed) } else { Request::new(size, align, zeroed) }
    }

    /// The usable size of the block that it asks for.
    #[inline(always)]
    pub fn bytes(&self) -> usize {
        self.source.bytes()
    }

    /// Whether a small block may be of a larger class.
    #[inline(always)]
    pub fn may_be_larger(&self) -> bool {
        !self.exact && self.align <= 16
    }

    /// Whether a page of its own will do if no span is available.
    pub fn may_be_a_page(&self) -> bool {
        !self.exact && self.align <= UNIT && matches!(self.source, Source::Small(_))
    }
}

/// The bytes of the block for a request, exact or not; 0 if no such block can exist.
#[inline(never)]
pub fn bytes_for(size: usize, align: usize, exact: bool) -> usize {
    Request::of(size, align, false, exact).map_or(0, |request| request.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size_class::is_aligned;

    #[test]
    fn both_kinds_of_request_agree_where_a_block_comes_from() {
        for size in [0, 1, 16, 1000, SMALL_MAX, SMALL_MAX + 1, MEDIUM_MAX, MEDIUM_MAX + 1] {
            for align in (0..=30).map(|n| 1 << n) {
                let new = Request::new(size, align, true).expect("possible");
                let exact = Request::exact(size, align, true).expect("possible");
                assert_eq!((new.zeroed, exact.zeroed), (size, exact.bytes()));
                assert!(new.bytes() >= exact.bytes().max(size));
                match (new.source, exact.source) {
                    (Source::Small(_), Source::Small(class)) => {
                        assert!(size <= SMALL_MAX && size_of_class(class).is_multiple_of(align));
                    }
                    (new, exact) => assert_eq!(new, exact),
                }
            }
        }
    }

    #[test]
    fn above_the_table_what_not_all_classes_align_is_a_run() {
        for (size, align, run) in [
            (8193, 64, 0),
            (9000, 256, 3),
            (12_288, 4096, 3),
            (12_288, 64, 0),
            (13_000, 256, 0),
            (13_000, 512, 4),
            (16_384, 4096, 0),
            (9344, 128, 0),
        ] {
            for request in [Request::new(size, align, false), Request::exact(size, align, false)] {
                let request = request.expect("possible");
                match request.source {
                    Source::Small(class) => assert!(run == 0 && is_aligned(class, align)),
                    source => assert_eq!(source, Source::Medium(run), "{size}, {align}"),
                }
            }
        }
    }

    #[test]
    fn a_usable_size_asked_for_again_is_the_same() {
        for shift in 0..=ALIGN_SMALL_MAX.ilog2() {
            for size in (0..=2 * SMALL_MAX).step_by(7) {
                let bytes = |size| Request::exact(size, 1 << shift, false).map(|one| one.bytes());
                let first = bytes(size).expect("possible");
                assert_eq!(bytes(first), Some(first), "{size} at 1 << {shift}");
            }
        }
    }

    #[test]
    fn what_can_never_be_served_is_no_request() {
        let most = isize::MAX as usize;
        for (size, align) in [(most, 16), (usize::MAX, 16), (most + 1, 4096), (16, 2 * ALIGN_MAX)] {
            assert_eq!(Request::new(size, align, false), None);
            assert_eq!(Request::exact(size, align, false), None);
        }
    }
}

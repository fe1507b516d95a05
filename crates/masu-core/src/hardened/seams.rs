//! Where the kernel's mappings of a large block meet.
//!
//! Pages that were [moved](super::moving) keep a mapping to themselves, and so does what they were moved next to, the
//! part of a block that has no huge pages, and what is mapped anew behind a block that shrinks. Up to Linux 6.16 the
//! kernel moves the pages of one mapping at a time: asked for more, it unmaps the target and refuses. Newer ones may stop
//! halfway, and what they have moved is lost. So a block's pages are moved from seam to seam.

use crate::size_class::UNIT;

/// Most seams of a block. One that doubles has them after it has grown a hundredfold; then it is copied, into one mapping.
const MOST: usize = 7;

/// Pages from a block's start to its seams, ascending; 0 in places without one. Some may lie at its end or beyond.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Seams([u32; MOST]);

impl Seams {
    /// The bytes up to the first seam behind the first `from` bytes, or `len` if that comes first.
    pub fn next(&self, from: usize, len: usize) -> usize {
        let seam = self.0.iter().map(|&pages| pages as usize * UNIT).find(|&seam| seam > from);
        seam.unwrap_or(len).min(len)
    }

    /// The seams of a block with the seams `to` once this one's first `len` bytes have been moved to its start; `None` if
    /// there are too many.
    pub fn moved(&self, len: usize, to: &Seams) -> Option<Seams> {
        let pages = u32::try_from(len / UNIT).ok()?;
        let (mut seams, mut n) = (Seams::default(), 0);
        let mut put = |seam| {
            if let Some(place) = seams.0.get_mut(n) {
                *place = seam;
            }
            n += 1;
        };
        self.0.iter().filter(|&&seam| seam != 0 && seam < pages).for_each(|&seam| put(seam));
        put(pages);
        to.0.iter().filter(|&&seam| seam > pages).for_each(|&seam| put(seam));
        (n <= MOST).then_some(seams)
    }

    /// These up to the first `len` bytes, behind which there is one now. If that makes too many they stay as they are,
    /// which are too many for its pages to be moved.
    pub fn cut(&self, len: usize) -> Seams {
        self.moved(len, &Seams::default()).unwrap_or(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_grows_by_moves_has_a_seam_for_each() {
        let none = Seams::default();
        assert_eq!(none.next(0, 3 * UNIT), 3 * UNIT);
        let mut seams = none;
        for pages in 1..=MOST {
            seams = seams.moved(pages * UNIT, &none).unwrap();
            let (mut at, mut pieces) = (0, 0);
            while at < 100 * UNIT {
                at = seams.next(at, 100 * UNIT);
                pieces += 1;
            }
            assert_eq!((at, pieces), (100 * UNIT, pages + 1));
        }
        assert!(seams.moved((MOST + 1) * UNIT, &none).is_none());
        // Only what is moved counts, and what it is moved to.
        let into = none.moved(9 * UNIT, &none).unwrap();
        let both = seams.moved(2 * UNIT, &into).unwrap();
        assert_eq!(both, Seams([1, 2, 9, 0, 0, 0, 0]));
        assert_eq!(both.moved(9 * UNIT, &into), Some(both));
    }
}

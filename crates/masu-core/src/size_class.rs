//! Sizes to size classes.
//!
//! Small blocks, up to 16 KiB: classes 1 to 8 in steps of 16 bytes up to 128 B, then four classes to each doubling up
//! to 8 KiB, and two more. Blocks of 2, 3 and 4 KiB, which are frequent in many programs, are a little longer: at a
//! stride of 2, 3 or 4 KiB, their first lines, where their links lie while they are free, would all share two, four or
//! one set of the L1 cache. The class for 4 KiB also holds a page with a header (what SQLite caches, and many
//! other buffers): a span has fifteen of them either way. Blocks of exactly 2 and 4 KiB are for aligned requests, and
//! for slightly smaller ones. Above 8 KiB, four classes divide a span into seven, six, five and four blocks. That
//! makes 38 in all; class 0 means "not a small block". (Eight to a doubling waste half as much inside blocks, but
//! leave more spans partly filled: `docs/experiments.md`.) The hot paths serve what is in the table, up to 8 KiB.
//! Medium blocks, up to 1 MiB: eight classes to each doubling, rounded up to 4 KiB units.
//!
//! Invariants, checked exhaustively by the tests below:
//!
//! 1. `size(class(n)) >= n`, and it is the smallest such class, except for 2 and 4 KiB.
//! 2. waste: above 128 B, `size(class(n)) - n` is below `n / 4 + 64` (20 % of the block).
//! 3. every class size is a multiple of 16, so every block is 16-byte aligned, and a block of a
//!    class divisible by `2^k` is aligned to `2^k`, since spans are aligned to their size.

/// Blocks up to this size are small: they come from spans. 16 KiB.
pub const SMALL_MAX: usize = 16 << 10;
/// Sizes up to this have their class in the table, in which the hot paths find it. 8 KiB.
pub const TABLE_MAX: usize = 8 << 10;
/// Blocks up to this size are medium: they come from runs. 1 MiB.
pub const MEDIUM_MAX: usize = 1 << 20;
/// Number of small classes plus one for class 0, rounded up to a power of two.
pub const CLASSES: usize = 64;
/// The last class of the table.
pub const LAST_IN_TABLE: usize = 34;
/// The classes above that: the largest sizes, in whole lines, of which a span holds seven, six, five and four
/// blocks.
const ABOVE: [u16; 4] = [9344, 10880, 13056, 16384];
/// The last small class.
pub const LAST_CLASS: usize = LAST_IN_TABLE + ABOVE.len();

/// A class as an index into a table with a row for each, so that a class that does not exist needs no code.
#[inline(always)]
pub const fn row(class: usize) -> usize {
    if class < LAST_CLASS { class } else { LAST_CLASS }
}

/// The unit of runs.
pub const UNIT: usize = 4096;
/// The largest page that a processor has: 64 KiB.
pub const PAGE_MAX: usize = 64 << 10;
/// Most units that a medium block has.
pub const MEDIUM_MAX_UNITS: usize = MEDIUM_MAX / UNIT;

/// A page, which has a class of its own.
const PAGE: u32 = 4096;
/// Half a page, which has one too.
const HALF_PAGE: u32 = PAGE / 2;
/// Keeps the first lines of neighbouring blocks apart.
const LINE: u32 = 64;
/// The classes between half a page and a page.
const HALF_PAGE_AND_LINE: u32 = HALF_PAGE + LINE;
const FIVE_EIGHTHS: u32 = PAGE / 8 * 5;
const THREE_QUARTERS_AND_LINE: u32 = PAGE / 4 * 3 + LINE;
const SEVEN_EIGHTHS: u32 = PAGE / 8 * 7;
/// A fifteenth of a span.
const PAGE_AND_HEADER: u32 = PAGE + 272;

/// Entries of the table of classes.
pub const TABLE_LEN: usize = TABLE_MAX / 16 + 1;

/// Class sizes in bytes, indexed by class.
pub static SIZES: [u16; LAST_CLASS + 1] = sizes();
/// A constant rather than a static: if the size is known, the compiler knows the class too, in
/// every crate that inlines [`class_of`].
pub const TABLE: &[u8; TABLE_LEN] = &table(true);
/// The same without the extra distance.
const EXACT_TABLE: &[u8; TABLE_LEN] = &table(false);

const fn sizes() -> [u16; LAST_CLASS + 1] {
    let mut out = [0u16; LAST_CLASS + 1];
    let mut class = 1;
    let mut size = 0u32;
    while class <= LAST_IN_TABLE {
        let step = match size {
            0..128 => 16,
            HALF_PAGE => LINE,
            HALF_PAGE_AND_LINE => 512 - LINE,
            FIVE_EIGHTHS => THREE_QUARTERS_AND_LINE - FIVE_EIGHTHS,
            THREE_QUARTERS_AND_LINE => SEVEN_EIGHTHS - THREE_QUARTERS_AND_LINE,
            PAGE => PAGE_AND_HEADER - PAGE,
            PAGE_AND_HEADER => PAGE + PAGE / 4 - PAGE_AND_HEADER,
            _ => 1 << (size.ilog2() - 2),
        };
        size += step;
        out[class] = size as u16;
        class += 1;
    }
    while class <= LAST_CLASS {
        out[class] = ABOVE[class - LAST_IN_TABLE - 1];
        class += 1;
    }
    out
}

/// Whether blocks of this size, a multiple of 16, are further apart unless they are to be aligned.
const fn is_staggered(size: usize) -> bool {
    size == PAGE as usize || size == HALF_PAGE as usize
}

const fn table(apart: bool) -> [u8; TABLE_LEN] {
    let sizes = sizes();
    let mut out = [0u8; TABLE_LEN];
    let mut i = 0;
    let mut class = 1;
    while i < TABLE_LEN {
        if i * 16 > sizes[class] as usize || apart && is_staggered(i * 16) {
            class += 1;
        }
        out[i] = class as u8;
        i += 1;
    }
    out
}

const _: () = assert!(sizes()[LAST_CLASS] as usize == SMALL_MAX);
const _: () = assert!(sizes()[LAST_IN_TABLE] as usize == TABLE_MAX);
const _: () = assert!(LAST_CLASS < CLASSES);

/// The alignment of the blocks of all classes above [`TABLE_MAX`]: a cache line.
const ALIGN_ABOVE: usize = 64;

const _: () = {
    let mut i = 0;
    while i < ABOVE.len() {
        assert!((ABOVE[i] as usize).is_multiple_of(ALIGN_ABOVE));
        i += 1;
    }
};

/// The class of a small size that is not in the table. (In code that is to be small a loop would stay one.)
#[inline(always)]
const fn class_above(size: usize) -> usize {
    let [a, b, c, _] = ABOVE;
    LAST_IN_TABLE
        + 1
        + (size > a as usize) as usize
        + (size > b as usize) as usize
        + (size > c as usize) as usize
}

/// The class of a small size: the smallest whose blocks hold `size` bytes, or the next one for whole and
/// half pages.
///
/// `size` must not exceed [`SMALL_MAX`].
#[inline(always)]
pub fn class_of(size: usize) -> usize {
    debug_assert!(size <= SMALL_MAX);
    if size > TABLE_MAX {
        return class_above(size);
    }
    // SAFETY: size <= TABLE_MAX gives an index of at most TABLE_MAX / 16, the last entry.
    unsafe { *TABLE.get_unchecked((size + 15) >> 4) as usize }
}

/// The smallest class whose blocks hold `size` bytes, including those of whole and half pages: for the size of the
/// class that it returns, it returns that class.
///
/// `size` must not exceed [`SMALL_MAX`].
#[inline(always)]
pub fn exact_class_of(size: usize) -> usize {
    debug_assert!(size <= SMALL_MAX);
    if size > TABLE_MAX {
        return class_above(size);
    }
    // SAFETY: as in `class_of`.
    unsafe { *EXACT_TABLE.get_unchecked((size + 15) >> 4) as usize }
}

/// [`exact_class_of`] at a multiple of `align`; it is to that function what [`aligned_class`] is to
/// [`class_of`].
#[inline]
pub fn exact_class(size: usize, align: usize) -> usize {
    debug_assert!(align.is_power_of_two());
    let size = (size.max(1) + align - 1) & !(align - 1);
    let class = exact_class_of(size);
    if size > TABLE_MAX || is_aligned(class, align) { class } else { next_aligned(class, align) }
}

/// The next class whose blocks are at multiples of `align`: the class behind is, unless that lies between 3 KiB and a
/// page.
#[inline(always)]
fn next_aligned(class: usize, align: usize) -> usize {
    class + 1 + usize::from(!is_aligned(class + 1, align))
}

/// Whether a block of a small size at a multiple of `align` is one of `class`, that of the next multiple. Above
/// [`TABLE_MAX`] it is a run instead if it is aligned more than all classes are, unless the class has exactly that
/// size: so the usable size of a block, asked for again, gives the same kind of block.
#[inline(always)]
pub fn suits(class: usize, size: usize, align: usize) -> bool {
    size <= TABLE_MAX
        || align <= ALIGN_ABOVE
        || (size + align - 1) & !(align - 1) == size_of_class(class)
}

/// Whether the blocks of a class are at multiples of `align`, a power of two up to the length of a span.
#[inline(always)]
pub fn is_aligned(class: usize, align: usize) -> bool {
    size_of_class(class) & (align - 1) == 0
}

/// The block size of a class in bytes; 0 for class 0.
#[inline(always)]
pub fn size_of_class(class: usize) -> usize {
    debug_assert!(class <= LAST_CLASS);
    // SAFETY: a class always stems from `class_of` or a span's record, neither above LAST_CLASS.
    unsafe { *SIZES.get_unchecked(class) as usize }
}

/// The class of a size of up to [`TABLE_MAX`] at a multiple of `align`, a power of two up to half of that: the
/// smallest whose blocks hold `size` bytes, at least one, and have that alignment. Above that, the class of
/// the next multiple of `align`, which may not [be aligned to it](is_aligned).
///
/// It is that of the next multiple of `align`, for which it is divisible by `align`: up to 128 B, and
/// whenever `align` exceeds the distance of two classes, the class has exactly that size; otherwise the
/// distance is a multiple of `align`. Only whole and half pages have a class of their own when they are
/// aligned; three quarters of one, and a page with a header, are in a later one.
#[inline(always)]
pub fn aligned_class(size: usize, align: usize) -> usize {
    debug_assert!(align.is_power_of_two());
    // Not `next_multiple_of`, which divides, and panics where the compiler does not see that `align` is not 0.
    let size = (size.max(1) + align - 1) & !(align - 1);
    let class = class_of(size);
    if size > TABLE_MAX || is_aligned(class, align) {
        class
    } else if is_staggered(size) {
        class - 1
    } else {
        next_aligned(class, align)
    }
}

/// The units of a medium block for a size: a multiple of 1/8 of the doubling that it lies in.
#[inline]
pub fn medium_units(size: usize) -> usize {
    let units = size.div_ceil(UNIT).max(1);
    if units <= 16 {
        return units;
    }
    let step = 1 << ((units - 1).ilog2() - 3);
    units.next_multiple_of(step)
}

/// Number of medium classes.
pub const MEDIUM_CLASSES: usize = 48;

/// The index of a number of units that [`medium_units`] returned: dense, ascending.
#[inline]
pub fn medium_class(units: usize) -> usize {
    if units <= 16 {
        return units - 1;
    }
    let shift = (units - 1).ilog2() - 3;
    // Doubling number (from 16 units on) times eight, plus the position inside the doubling.
    ((shift as usize - 1) << 3) + ((units - 1) >> shift) + 8
}

/// The units of a medium class, the inverse of [`medium_class`].
#[inline]
pub fn units_of_medium_class(class: usize) -> usize {
    if class < 16 {
        return class + 1;
    }
    let shift = (class - 16) / 8 + 1;
    (8 + (class - 16) % 8 + 1) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_small_size_gets_its_smallest_sufficient_class() {
        for size in 0..=SMALL_MAX {
            let class = class_of(size);
            assert!((1..=LAST_CLASS).contains(&class), "size {size}");
            assert!(size_of_class(class) >= size, "size {size}");
            let smaller = size_of_class(class - 1);
            let apart = [2048, 4096].contains(&size.next_multiple_of(16));
            assert_eq!(smaller >= size.max(1), apart, "size {size}");
        }
    }

    #[test]
    fn an_aligned_size_gets_the_smallest_class_divisible_by_the_alignment() {
        for align in (4..=12).map(|shift| 1usize << shift) {
            for size in 1..=TABLE_MAX {
                let found = aligned_class(size, align);
                let smallest = (1..=LAST_CLASS)
                    .find(|&c| size_of_class(c) >= size && size_of_class(c).is_multiple_of(align));
                let (apart, size) = ([2048, 4096], size.next_multiple_of(align));
                let apart = align <= 64 && size == apart[0] || align <= 16 && size == apart[1];
                let class = smallest.map(|c| c + usize::from(apart));
                assert_eq!(Some(found), class, "{size}, {align}");
            }
        }
    }

    #[test]
    fn an_exact_size_gets_the_smallest_class_of_all_and_keeps_it() {
        for align in (4..=12).map(|shift| 1usize << shift) {
            for size in 0..=TABLE_MAX {
                let class = exact_class(size, align);
                let smallest = (1..=LAST_CLASS)
                    .find(|&c| size_of_class(c) >= size && size_of_class(c).is_multiple_of(align));
                assert_eq!(Some(class), smallest, "{size}, {align}");
                assert_eq!(exact_class(size_of_class(class), align), class, "{size}, {align}");
            }
        }
    }

    #[test]
    fn waste_stays_below_a_quarter_of_the_request() {
        for size in 129..=SMALL_MAX {
            let waste = size_of_class(class_of(size)) - size;
            assert!(waste * 4 < size + 256, "size {size} wastes {waste}");
        }
    }

    #[test]
    fn class_sizes_ascend_in_multiples_of_sixteen() {
        for class in 1..=LAST_CLASS {
            assert_eq!(size_of_class(class) % 16, 0);
            assert!(size_of_class(class) > size_of_class(class - 1));
        }
    }

    #[test]
    fn every_medium_size_gets_enough_units_and_little_waste() {
        for size in SMALL_MAX + 1..=MEDIUM_MAX {
            let units = medium_units(size);
            let exact = size.div_ceil(UNIT);
            assert!(units >= exact && units <= MEDIUM_MAX_UNITS);
            assert!((units - exact) * 8 < exact, "size {size}: {units} for {exact}");
        }
    }

    #[test]
    fn medium_classes_are_dense_and_invertible() {
        let mut last = None;
        for size in (1..=MEDIUM_MAX).step_by(512) {
            let units = medium_units(size);
            let class = medium_class(units);
            assert!(class < MEDIUM_CLASSES, "{units} units: class {class}");
            assert_eq!(units_of_medium_class(class), units);
            assert!(last.is_none_or(|l| class == l || class == l + 1));
            last = Some(class);
        }
        assert_eq!(last, Some(medium_class(MEDIUM_MAX_UNITS)));
    }
}

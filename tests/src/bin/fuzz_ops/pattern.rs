//! What the bytes of a block should be.
//!
//! Byte `i` of block `id` is `base[(offset(id) + i) % PERIOD]`, where `base` is random. So any part
//! of a block can be written and checked by plain copies and comparisons, which keeps the fuzzer
//! fast, and only one in `PERIOD` pairs of blocks has the same contents.

use std::ops::Range;
use std::slice;
use std::sync::LazyLock;

use crate::block::Block;

/// A prime, so that no power-of-two stride lines up with it.
const PERIOD: usize = 65_521;
/// Distance of the samples in a sampled block: a page, which allocators and kernels move whole.
const STRIDE: usize = 4096;
/// Bytes in a sample.
const SAMPLE: usize = 16;
/// Bytes at both ends of a sampled block.
const EDGE: usize = 128;

/// The random bytes, twice over, so that a whole period can be read from any offset.
static BASE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut random = fastrand::Rng::with_seed(0x6d61_7375);
    let once: Vec<u8> = (0..PERIOD).map(|_| random.u8(..)).collect();
    once.repeat(2)
});

/// Make the random bytes. A child forked meanwhile would wait for them for ever.
pub fn prepare() {
    LazyLock::force(&BASE);
}

/// Where the pattern of a block starts in `BASE`.
fn offset(id: u64) -> usize {
    (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % PERIOD
}

/// The part of the pattern that belongs at these bytes of a block; within one period.
fn expected(id: u64, range: &Range<usize>) -> &'static [u8] {
    let start = (offset(id) + range.start) % PERIOD;
    &BASE[start..start + range.len()]
}

/// The ranges of a block of `len` bytes that carry the pattern, none longer than a period.
fn spans(len: usize, sampled: bool) -> impl Iterator<Item = Range<usize>> {
    let (step, size) = if sampled { (STRIDE, SAMPLE) } else { (PERIOD, PERIOD) };
    let edge = if sampled { EDGE.min(len) } else { 0 };
    let regular = (0..len).step_by(step).map(move |at| at..len.min(at + size));
    regular.chain([0..edge, len - edge..len])
}

/// The bytes of a block.
///
/// # Safety
/// The block is live, nobody else uses it, and `range` is within it.
unsafe fn bytes<'a>(block: &Block, range: &Range<usize>) -> &'a mut [u8] {
    let start = block.pointer().cast::<u8>();
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts_mut(start.add(range.start), range.len()) }
}

/// Write the pattern.
///
/// # Safety
/// The block is live and nobody else uses it.
pub unsafe fn fill(block: &Block) {
    for span in spans(block.len, block.sampled) {
        // SAFETY: the caller's promise; spans are within the block.
        unsafe { bytes(block, &span) }.copy_from_slice(expected(block.id, &span));
    }
}

/// Check the pattern in the first `limit` bytes.
///
/// # Safety
/// The block is live and nobody else uses it.
pub unsafe fn check(block: &Block, limit: usize) -> Result<(), String> {
    for span in spans(block.len, block.sampled) {
        let span = span.start.min(limit)..span.end.min(limit);
        // SAFETY: the caller's promise; spans are within the block.
        let (found, wanted) = (unsafe { bytes(block, &span) }, expected(block.id, &span));
        if found != wanted {
            let at = found.iter().zip(wanted).position(|(f, w)| f != w).unwrap_or_default();
            let show = |b: &[u8]| format!("{:02x?}", &b[at..b.len().min(at + 16)]);
            let byte = span.start + at;
            let (found, wanted) = (show(found), show(wanted));
            return Err(format!("byte {byte} of {block:x?} is {found}, expected {wanted}"));
        }
    }
    Ok(())
}

/// Check that the bytes that will carry the pattern are zero.
///
/// # Safety
/// The block is live and nobody else uses it.
pub unsafe fn check_zero(block: &Block) -> Result<(), String> {
    for span in spans(block.len, block.sampled) {
        // SAFETY: the caller's promise; spans are within the block.
        let found = unsafe { bytes(block, &span) };
        if let Some(at) = found.iter().position(|&b| b != 0) {
            return Err(format!("byte {} of {block:x?} is {:#x}", span.start + at, found[at]));
        }
    }
    Ok(())
}

//! columnar: columns of a table built value by value, finished, kept for a while, dropped.
//!
//! Each batch has a column of numbers, one of text (offsets and bytes) and one bit a value
//! that says whether it is there. Buffers double as they fill, up to some megabytes, and are
//! cut to size at the end. In the aligned form they start at multiples of 64 bytes, as
//! vector instructions like them; C has no `realloc` for that, so growing copies.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::collections::VecDeque;
use std::ptr::NonNull;

use super::{Input, Outcome, Workload};

/// Buffers as `malloc` aligns them.
pub const COLUMNAR: Workload = Workload {
    name: "columnar",
    about: "1 thread, column builders that double to 2 MiB, 6 batches kept",
    sleeps: false,
    brief: 0.3,
    run: |input| run(input, 8),
};

/// Buffers at multiples of 64 bytes.
pub const COLUMNAR_64: Workload = Workload {
    name: "columnar-64",
    about: "columnar with buffers aligned to 64 bytes",
    sleeps: false,
    brief: 0.3,
    run: |input| run(input, 64),
};

const BATCHES: usize = 300;
const ROWS: usize = 120_000;
const KEPT: usize = 6;

/// Bytes that grow by doubling.
struct Buffer {
    start: NonNull<u8>,
    length: usize,
    layout: Layout,
}

struct Batch {
    numbers: Buffer,
    offsets: Buffer,
    text: Buffer,
    present: Buffer,
    /// Of the text and the numbers, as they were written.
    sum: u64,
}

fn run(input: &Input, align: usize) -> Outcome {
    let mut rng = input.rng(0);
    let mut kept = VecDeque::new();
    let mut checksum = 0u64;
    for _ in 0..input.scaled(BATCHES) {
        // Some batches are small, as the last one of any file.
        let rows = input.scaled(if rng.u8(..4) == 0 { ROWS / 50 } else { ROWS });
        kept.push_back(build(rows, align, &mut rng));
        if kept.len() > KEPT
            && let Some(oldest) = kept.pop_front()
        {
            checksum = checksum.rotate_left(1) ^ check(&oldest);
        }
    }
    Outcome::of(kept.iter().map(check).fold(checksum, |sum, batch| sum.rotate_left(1) ^ batch))
}

fn build(rows: usize, align: usize, rng: &mut fastrand::Rng) -> Batch {
    let [mut numbers, mut offsets, mut text, mut present] = [(); 4].map(|()| Buffer::new(align));
    let mut sum = 0u64;
    for row in 0..rows {
        let number = rng.u64(..);
        numbers.push(&number.to_le_bytes());
        text.push(&b"some text of a row"[..(number % 19) as usize]);
        offsets.push(&(text.length as u32).to_le_bytes());
        if row % 8 == 0 {
            present.push(&[(number >> 8) as u8]);
        }
        sum = sum.wrapping_add(number ^ text.length as u64);
    }
    for buffer in [&mut numbers, &mut offsets, &mut text, &mut present] {
        buffer.finish();
    }
    Batch { numbers, offsets, text, present, sum }
}

/// Reads the columns again.
fn check(batch: &Batch) -> u64 {
    let numbers = batch.numbers.bytes().as_chunks::<8>().0;
    let offsets = batch.offsets.bytes().as_chunks::<4>().0;
    let rows = numbers.iter().zip(offsets);
    let sum = rows.fold(0u64, |sum, (number, offset)| {
        sum.wrapping_add(u64::from_le_bytes(*number) ^ u64::from(u32::from_le_bytes(*offset)))
    });
    assert_eq!(sum, batch.sum, "a column changed");
    assert_eq!(batch.present.length, numbers.len().div_ceil(8), "a column lost rows");
    let spaces = batch.text.bytes().iter().filter(|byte| **byte == b' ').count();
    let present: u64 = batch.present.bytes().iter().map(|byte| u64::from(*byte)).sum();
    sum ^ spaces as u64 ^ present << 32
}

impl Buffer {
    fn new(align: usize) -> Self {
        let layout = Layout::from_size_align(64, align).expect("a small layout");
        // SAFETY: the layout has a size.
        let start = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Buffer { start, length: 0, layout }
    }

    fn resize(&mut self, capacity: usize) {
        let layout = Layout::from_size_align(capacity, self.layout.align()).expect("a layout");
        // SAFETY: `start` was allocated with `layout`, and the new size is not zero.
        let start = unsafe { realloc(self.start.as_ptr(), self.layout, capacity) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        (self.start, self.layout) = (start, layout);
    }

    fn push(&mut self, bytes: &[u8]) {
        let length = self.length + bytes.len();
        if length > self.layout.size() {
            self.resize(length.max(2 * self.layout.size()));
        }
        // SAFETY: there is room for `bytes` behind `length`, and they lie elsewhere.
        unsafe {
            let end = self.start.add(self.length);
            end.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
        self.length = length;
    }

    /// Gives back what was not filled.
    fn finish(&mut self) {
        self.resize(self.length.next_multiple_of(64).max(64));
        assert!(self.start.addr().get().is_multiple_of(self.layout.align()), "alignment lost");
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the first `length` bytes were written.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout and not used after this.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_keeps_its_bytes_and_its_alignment_as_it_grows() {
        let mut buffer = Buffer::new(64);
        let bytes: Vec<u8> = (0..100_000u32).map(|number| number as u8).collect();
        bytes.chunks(33).for_each(|chunk| buffer.push(chunk));
        buffer.finish();
        assert_eq!(buffer.bytes(), bytes);
        assert_eq!(buffer.layout.size(), 100_032);
    }
}

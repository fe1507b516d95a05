//! Random numbers that nobody can foresee: ChaCha with eight rounds (D. J. Bernstein, 2008), keyed by the kernel.
//!
//! Each pool has a stream of its own, under its lock. It asks for a new key after [`LIFE`] blocks, and in a fork's
//! child before the next number: all but 32 if a signal handler forked while one was drawn.

use crate::sys::random;

/// Blocks of 64 bytes between two keys: 256 KiB.
const LIFE: u32 = 4096;

/// A stream.
pub struct Stream {
    key: [u32; 8],
    /// Blocks that the key is still good for; 0: a new one is due.
    left: u32,
    /// Numbers at hand that are not used yet.
    unused: usize,
    at_hand: [u16; 32],
}

impl Stream {
    /// Asks for a key before it is used; so does one that is all zero. May come between any two steps of the others.
    pub fn renew(&mut self) {
        // One that is new is not written to: its page may be shared with a fork's parent.
        if self.left | self.unused as u32 != 0 {
            (self.left, self.unused) = (0, 0);
        }
    }

    /// A number below 2^16.
    #[inline]
    pub fn draw(&mut self) -> u16 {
        if self.unused == 0 {
            self.refill();
        }
        self.unused = self.unused.saturating_sub(1);
        self.at_hand[self.unused % 32]
    }

    /// A number below `n`, at most 2^16.
    #[inline]
    pub fn below(&mut self, n: usize) -> usize {
        (usize::from(self.draw()) * n) >> 16
    }

    /// A number below `n`.
    pub fn below_many(&mut self, n: usize) -> usize {
        ((u128::from(self.word()) * n as u128) >> 64) as usize
    }

    /// A word.
    pub fn word(&mut self) -> u64 {
        (0..4).fold(0, |word, _| word << 16 | u64::from(self.draw()))
    }

    #[cold]
    fn refill(&mut self) {
        if self.left == 0 {
            self.left = LIFE;
            for half in self.key.iter_mut() {
                *half = random::word() as u32;
            }
        }
        let block = chacha(&self.key, self.left);
        for (numbers, word) in self.at_hand.chunks_exact_mut(2).zip(block) {
            numbers.copy_from_slice(&[word as u16, (word >> 16) as u16]);
        }
        self.left = self.left.saturating_sub(1);
        self.unused = self.at_hand.len();
    }
}

const ROUNDS: usize = 8;

/// A block of the stream of a key.
fn chacha(key: &[u32; 8], block: u32) -> [u32; 16] {
    let mut start = [0; 16];
    start[..4].copy_from_slice(&[0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574]);
    start[4..12].copy_from_slice(key);
    start[12] = block;
    // SAFETY: every processor of this kind has it.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return unsafe { in_rows(&start) };
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    in_words(&start)
}

#[cfg(any(not(target_arch = "x86_64"), miri, test))]
fn in_words(start: &[u32; 16]) -> [u32; 16] {
    let mut x = *start;
    let mut quarter = |a: usize, b: usize, c: usize, d: usize| {
        x[a] = x[a].wrapping_add(x[b]);
        x[d] = (x[d] ^ x[a]).rotate_left(16);
        x[c] = x[c].wrapping_add(x[d]);
        x[b] = (x[b] ^ x[c]).rotate_left(12);
        x[a] = x[a].wrapping_add(x[b]);
        x[d] = (x[d] ^ x[a]).rotate_left(8);
        x[c] = x[c].wrapping_add(x[d]);
        x[b] = (x[b] ^ x[c]).rotate_left(7);
    };
    for _ in 0..ROUNDS / 2 {
        quarter(0, 4, 8, 12);
        quarter(1, 5, 9, 13);
        quarter(2, 6, 10, 14);
        quarter(3, 7, 11, 15);
        quarter(0, 5, 10, 15);
        quarter(1, 6, 11, 12);
        quarter(2, 7, 8, 13);
        quarter(3, 4, 9, 14);
    }
    for (word, start) in x.iter_mut().zip(start) {
        *word = word.wrapping_add(*start);
    }
    x
}

/// The same, four quarter rounds at once: a fifth of the instructions.
///
/// # Safety
/// The processor has these instructions, as every one of this kind does.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "sse2")]
fn in_rows(start: &[u32; 16]) -> [u32; 16] {
    use core::arch::x86_64::*;
    macro_rules! turn {
        ($row:expr, $by:literal) => {
            _mm_or_si128(_mm_slli_epi32::<$by>($row), _mm_srli_epi32::<{ 32 - $by }>($row))
        };
    }
    let row = |i: usize| {
        let [a, b, c, d] =
            [start[i], start[i + 1], start[i + 2], start[i + 3]].map(u32::cast_signed);
        _mm_set_epi32(d, c, b, a)
    };
    let first = [row(0), row(4), row(8), row(12)];
    let [mut a, mut b, mut c, mut d] = first;
    macro_rules! quarters {
        () => {
            a = _mm_add_epi32(a, b);
            d = turn!(_mm_xor_si128(d, a), 16);
            c = _mm_add_epi32(c, d);
            b = turn!(_mm_xor_si128(b, c), 12);
            a = _mm_add_epi32(a, b);
            d = turn!(_mm_xor_si128(d, a), 8);
            c = _mm_add_epi32(c, d);
            b = turn!(_mm_xor_si128(b, c), 7);
        };
    }
    for _ in 0..ROUNDS / 2 {
        quarters!();
        // The diagonals become columns.
        b = _mm_shuffle_epi32::<0b00_11_10_01>(b);
        c = _mm_shuffle_epi32::<0b01_00_11_10>(c);
        d = _mm_shuffle_epi32::<0b10_01_00_11>(d);
        quarters!();
        b = _mm_shuffle_epi32::<0b10_01_00_11>(b);
        c = _mm_shuffle_epi32::<0b01_00_11_10>(c);
        d = _mm_shuffle_epi32::<0b00_11_10_01>(d);
    }
    let mut x = [0; 16];
    for (i, (row, first)) in [a, b, c, d].into_iter().zip(first).enumerate() {
        let sum = _mm_add_epi32(row, first);
        // SAFETY: four words of the array.
        unsafe { _mm_storeu_si128(x.as_mut_ptr().add(i * 4).cast(), sum) };
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first block of the published test vector: a key of zeroes, no nonce, eight rounds.
    #[test]
    fn the_stream_is_that_of_the_test_vector() {
        let block = chacha(&[0; 8], 0);
        let bytes: std::vec::Vec<u8> = block.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(
            bytes[..16],
            [
                0x3e, 0x00, 0xef, 0x2f, 0x89, 0x5f, 0x40, 0xd6, 0x7f, 0x5b, 0xb8, 0xe8, 0x1f, 0x09,
                0xa5, 0xa1
            ]
        );
        let start = core::array::from_fn(|i| (i as u32 + 1).wrapping_mul(0x9e37_79b9));
        let key = core::array::from_fn(|i| start[i + 4]);
        let mut plain = start;
        plain[..4].copy_from_slice(&[0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574]);
        plain[12..].copy_from_slice(&[7, 0, 0, 0]);
        assert_eq!(chacha(&key, 7), in_words(&plain));
    }

    #[test]
    fn numbers_are_spread_and_two_streams_differ() {
        let stream = || {
            let mut stream = Stream { key: [0; 8], left: 0, unused: 0, at_hand: [0; 32] };
            stream.renew();
            stream
        };
        let (mut one, mut other) = (stream(), stream());
        let mut counts = [0; 7];
        for _ in 0..70_000 {
            counts[one.below(7)] += 1;
        }
        assert!(counts.iter().all(|&count| (9_500..10_500).contains(&count)), "{counts:?}");
        assert_ne!(one.word(), other.word());
        let before = one.word();
        one.renew();
        assert_ne!(one.key, [0; 8]);
        assert_ne!(before, one.word());
    }
}

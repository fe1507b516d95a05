//! Random numbers that cannot be foreseen: ChaCha with eight rounds (D. J. Bernstein, 2008), keyed by the kernel.
//!
//! Each pool has a stream of its own, under its lock. It asks for a new key after [`LIFE`] blocks, and in a fork's
//! child before the next number: all except 128 if a signal handler forked while one was drawn.

use crate::sys::random;

/// Blocks of 64 bytes between two keys: 256 KiB.
const LIFE: u32 = 4096;
/// Blocks that are made together.
const LANES: usize = 4;
const WORDS: usize = 16 * LANES;
/// Numbers in these words, two in each.
const NUMBERS: usize = 2 * WORDS;

/// A stream.
pub struct Stream {
    key: [u64; 4],
    /// Blocks that the key is still good for; 0 if a new one is due.
    left: u32,
    /// Numbers at hand that are still unused.
    unused: usize,
    at_hand: [u32; WORDS],
}

impl Stream {
    /// Makes the stream ask for a key before it is used; so does one that is all zero. May come between any two steps
    /// of the other functions.
    pub fn renew(&mut self) {
        // A new stream is not written to: its page may be shared with a fork's parent.
        if self.left | self.unused as u32 != 0 {
            (self.left, self.unused) = (0, 0);
        }
    }

    /// Whether a number is at hand.
    #[inline]
    pub fn has_some(&self) -> bool {
        self.unused != 0
    }

    /// Makes numbers if none is at hand.
    #[inline]
    pub fn fill(&mut self) {
        if !self.has_some() {
            self.refill();
        }
    }

    /// A number below 2^16.
    #[inline]
    pub fn draw(&mut self) -> u16 {
        self.fill();
        self.draw_at_hand()
    }

    /// A number below `n`, at most 2^16, of those at hand, of which there must be one.
    #[inline(always)]
    pub fn below_at_hand(&mut self, n: usize) -> usize {
        (usize::from(self.draw_at_hand()) * n) >> 16
    }

    #[inline(always)]
    fn draw_at_hand(&mut self) -> u16 {
        // Read once: a signal handler may renew the stream meanwhile. One that was renewed stays so.
        let last = self.unused.saturating_sub(1) % NUMBERS;
        self.unused = last;
        // SAFETY: one of so many halves of the words; any bytes are a number.
        unsafe { self.at_hand.as_ptr().cast::<u16>().add(last).read() }
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
            self.key = random::words();
        }
        chacha(&self.key, self.left, &mut self.at_hand);
        self.left = self.left.saturating_sub(LANES as u32);
        self.unused = NUMBERS;
    }
}

const ROUNDS: usize = 8;

/// [`LANES`] blocks of the stream of a key, from `block` downwards: the first word of each, then the second of each,
/// and so on.
fn chacha(key: &[u64; 4], block: u32, to: &mut [u32; WORDS]) {
    let mut start = [0; 16];
    start[..4].copy_from_slice(&[0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574]);
    for (half, word) in start[4..12].chunks_exact_mut(2).zip(key) {
        half.copy_from_slice(&[*word as u32, (*word >> 32) as u32]);
    }
    start[12] = block;
    // SAFETY: every x86-64 processor has it.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return unsafe { in_lanes(&start, to) };
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    in_words(&start, to)
}

#[cfg(any(not(target_arch = "x86_64"), miri, test))]
fn in_words(start: &[u32; 16], to: &mut [u32; WORDS]) {
    for lane in 0..LANES {
        let mut start = *start;
        start[12] = start[12].wrapping_sub(lane as u32);
        let mut x = start;
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
        for (to, (x, start)) in to.chunks_exact_mut(LANES).zip(x.iter().zip(start)) {
            if let Some(to) = to.get_mut(lane) {
                *to = x.wrapping_add(start);
            }
        }
    }
}

/// The same, a block in each lane: no step waits for the one before it.
///
/// # Safety
/// The processor must have these instructions, as every x86-64 processor does.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "sse2")]
fn in_lanes(start: &[u32; 16], to: &mut [u32; WORDS]) {
    use core::arch::x86_64::*;
    let word = |i: usize| _mm_set1_epi32(start[i].cast_signed());
    let count = _mm_sub_epi32(word(12), _mm_set_epi32(3, 2, 1, 0));
    // Names, not an array, so that these are registers.
    let [mut a, mut b, mut c, mut d] = [word(0), word(1), word(2), word(3)];
    let [mut e, mut f, mut g, mut h] = [word(4), word(5), word(6), word(7)];
    let [mut i, mut j, mut k, mut l] = [word(8), word(9), word(10), word(11)];
    let [mut m, mut n, mut o, mut p] = [count, word(13), word(14), word(15)];
    macro_rules! turn {
        ($row:expr, $by:literal) => {
            _mm_or_si128(_mm_slli_epi32::<$by>($row), _mm_srli_epi32::<{ 32 - $by }>($row))
        };
    }
    macro_rules! quarter {
        ($a:ident, $b:ident, $c:ident, $d:ident) => {
            $a = _mm_add_epi32($a, $b);
            $d = turn!(_mm_xor_si128($d, $a), 16);
            $c = _mm_add_epi32($c, $d);
            $b = turn!(_mm_xor_si128($b, $c), 12);
            $a = _mm_add_epi32($a, $b);
            $d = turn!(_mm_xor_si128($d, $a), 8);
            $c = _mm_add_epi32($c, $d);
            $b = turn!(_mm_xor_si128($b, $c), 7);
        };
    }
    for _ in 0..ROUNDS / 2 {
        quarter!(a, e, i, m);
        quarter!(b, f, j, n);
        quarter!(c, g, k, o);
        quarter!(d, h, l, p);
        quarter!(a, f, k, p);
        quarter!(b, g, l, m);
        quarter!(c, h, i, n);
        quarter!(d, e, j, o);
    }
    macro_rules! put {
        ($($at:literal $sum:expr, $first:expr;)*) => {
            // SAFETY: four words each of the array.
            $(unsafe {
                _mm_storeu_si128(to.as_mut_ptr().add($at * LANES).cast(), _mm_add_epi32($sum, $first))
            };)*
        };
    }
    put! {
        0 a, word(0);
        1 b, word(1);
        2 c, word(2);
        3 d, word(3);
        4 e, word(4);
        5 f, word(5);
        6 g, word(6);
        7 h, word(7);
        8 i, word(8);
        9 j, word(9);
        10 k, word(10);
        11 l, word(11);
        12 m, count;
        13 n, word(13);
        14 o, word(14);
        15 p, word(15);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first block of the published test vector: a key of zeroes, no nonce, eight rounds.
    #[test]
    fn the_stream_is_that_of_the_test_vector() {
        let mut blocks = [0; WORDS];
        chacha(&[0; 4], 0, &mut blocks);
        let block = blocks.iter().step_by(LANES);
        let bytes: std::vec::Vec<u8> = block.flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(
            bytes[..16],
            [
                0x3e, 0x00, 0xef, 0x2f, 0x89, 0x5f, 0x40, 0xd6, 0x7f, 0x5b, 0xb8, 0xe8, 0x1f, 0x09,
                0xa5, 0xa1
            ]
        );
        let start = core::array::from_fn(|i| (i as u32 + 1).wrapping_mul(0x9e37_79b9));
        let key = core::array::from_fn(|i| {
            u64::from(start[2 * i + 4]) | u64::from(start[2 * i + 5]) << 32
        });
        let mut plain = start;
        plain[..4].copy_from_slice(&[0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574]);
        plain[12..].copy_from_slice(&[7, 0, 0, 0]);
        let mut in_order = [0; WORDS];
        in_words(&plain, &mut in_order);
        chacha(&key, 7, &mut blocks);
        assert_eq!(blocks, in_order);
    }

    #[test]
    fn numbers_are_spread_and_two_streams_differ() {
        let stream = || {
            let mut stream = Stream { key: [0; 4], left: 0, unused: 0, at_hand: [0; WORDS] };
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
        assert_ne!(one.key, [0; 4]);
        assert_ne!(before, one.word());
    }
}

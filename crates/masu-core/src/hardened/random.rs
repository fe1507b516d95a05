//! Random numbers that nobody can foresee: ChaCha with eight rounds (D. J. Bernstein, 2008), keyed by the kernel.
//!
//! Each pool has a stream of its own, under its lock. It asks for a new key after [`LIFE`] blocks, and in a fork's
//! child before the next number.

use crate::sys::random;

/// Blocks of 64 bytes between two keys: 256 KiB.
const LIFE: u32 = 4096;

/// A stream.
pub struct Stream {
    key: [u32; 8],
    /// Of the next block; [`LIFE`]: a new key is due.
    block: u32,
    /// Numbers used of what is at hand.
    used: usize,
    at_hand: [u16; 32],
}

impl Stream {
    /// Asks for a key before it is used; so does one that is all zero.
    pub fn renew(&mut self) {
        (self.block, self.used) = (LIFE, self.at_hand.len());
    }

    /// A number below 2^16.
    #[inline]
    pub fn draw(&mut self) -> u16 {
        if self.used >= self.at_hand.len() {
            self.refill();
        }
        let number = self.at_hand[self.used % 32];
        self.used += 1;
        number
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
        if self.block >= LIFE {
            for half in self.key.iter_mut() {
                *half = random::word() as u32;
            }
            self.block = 0;
        }
        let block = chacha(&self.key, self.block);
        for (i, number) in self.at_hand.iter_mut().enumerate() {
            *number = (block[i / 2 % 16] >> (i % 2 * 16)) as u16;
        }
        self.block += 1;
        self.used = 0;
    }
}

const ROUNDS: usize = 8;

/// A block of the stream of a key.
fn chacha(key: &[u32; 8], block: u32) -> [u32; 16] {
    let mut start = [0; 16];
    start[..4].copy_from_slice(&[0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574]);
    start[4..12].copy_from_slice(key);
    start[12] = block;
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
    for (word, start) in x.iter_mut().zip(start) {
        *word = word.wrapping_add(start);
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
    }

    #[test]
    fn numbers_are_spread_and_two_streams_differ() {
        let stream = || {
            let mut stream = Stream { key: [0; 8], block: 0, used: 0, at_hand: [0; 32] };
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

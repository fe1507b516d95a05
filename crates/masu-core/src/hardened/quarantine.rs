//! Freed blocks wait here: in a random place of the first part, until another block is put there, and then in the
//! second part, a queue. So a block comes back late, and at a time that cannot be foreseen.

use super::random::Stream;

/// Most blocks in each part.
const MOST: usize = 256;

/// A pool's quarantine; a block is a number that is not 0.
pub struct Quarantine {
    drawn: [u32; MOST],
    queue: [u32; MOST],
    drawn_len: u16,
    queue_len: u16,
    next: u16,
}

impl Quarantine {
    /// Sets how many blocks of `stride` bytes each part has, for that many bytes: one at least, unless it is 0.
    pub fn set(&mut self, stride: usize, drawn_bytes: usize, queue_bytes: usize) {
        let len = |bytes: usize| match bytes {
            0 => 0,
            _ => (bytes / stride.max(1)).clamp(1, MOST) as u16,
        };
        (self.drawn_len, self.queue_len) = (len(drawn_bytes), len(queue_bytes));
    }

    /// Forgets its blocks.
    pub fn clear(&mut self) {
        self.drawn.fill(0);
        self.queue.fill(0);
    }

    /// Puts a block in. Returns the one that comes out; 0 if none does.
    #[inline]
    pub fn pass(&mut self, block: u32, stream: &mut Stream) -> u32 {
        let mut block = block;
        if self.drawn_len != 0 {
            let place = stream.below(usize::from(self.drawn_len));
            block = core::mem::replace(&mut self.drawn[place % MOST], block);
        }
        if block != 0 && self.queue_len != 0 {
            let place = usize::from(self.next);
            block = core::mem::replace(&mut self.queue[place % MOST], block);
            self.next = if self.next + 1 >= self.queue_len { 0 } else { self.next + 1 };
        }
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_block_comes_out_once_and_not_before_the_queue_has_gone_round() {
        // SAFETY: all zero is an empty quarantine and a stream that is renewed before it is used.
        let (mut quarantine, mut stream): (Quarantine, Stream) = unsafe { core::mem::zeroed() };
        stream.renew();
        assert_eq!(quarantine.pass(9, &mut stream), 9, "there is no part");
        quarantine.set(64, 1 << 10, 1 << 9);
        let mut out = BTreeSet::new();
        for block in 1..=1000 {
            let old = quarantine.pass(block, &mut stream);
            assert!(old == 0 || old + 8 <= block && out.insert(old), "{old} at {block}");
        }
        assert_eq!(out.len(), 1000 - 16 - 8);
    }
}

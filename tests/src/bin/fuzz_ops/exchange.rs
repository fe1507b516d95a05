//! Blocks on their way from one thread to another.

use std::sync::Mutex;

use crate::block::Block;

/// A mailbox per slot.
pub struct Exchange {
    boxes: Vec<Mutex<Vec<Block>>>,
}

impl Exchange {
    /// Empty mailboxes.
    pub fn new(slots: usize) -> Self {
        Self { boxes: (0..slots).map(|_| Mutex::default()).collect() }
    }

    /// Leave a block for the worker in a slot.
    pub fn send(&self, slot: usize, block: Block) {
        self.boxes[slot].lock().expect("never poisoned").push(block);
    }

    /// The newest `most` blocks that wait for a slot.
    pub fn receive(&self, slot: usize, most: usize) -> Vec<Block> {
        let mut waiting = self.boxes[slot].lock().expect("never poisoned");
        let rest = waiting.len().saturating_sub(most);
        waiting.split_off(rest)
    }

    /// All blocks that were not fetched.
    pub fn drain(&self) -> Vec<Block> {
        (0..self.boxes.len()).flat_map(|slot| self.receive(slot, usize::MAX)).collect()
    }
}

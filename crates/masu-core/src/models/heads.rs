//! Samples that are looked up without the lock while their table is replaced.
//!
//! ```text
//!  under the lock: link ─▶ … ─▶ all records into the next table ─▶ it is in use ─▶ unlink, link
//!  a free:         which table? ─▶ its head: 0 says that there is no record
//! ```
//!
//! Invariant: a free of a block that has a record never reads 0.

use super::check;
use crate::prof::heads::Heads;
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use loom::thread;
use std::sync::Arc;

/// The hashes of two records, which have one head in the first table and two in the second.
const A: usize = 1;
const B: usize = 2;

struct Profile {
    heads: Heads,
    /// The heads of the first two tables. A record's number is its hash.
    at: [AtomicU32; 5],
    /// Whether B's block is handed out.
    out: AtomicBool,
}

impl Profile {
    fn head(&self, hash: usize) -> &AtomicU32 {
        &self.at[self.heads.of(hash)]
    }

    fn grow(&self, hashes: &[usize]) {
        self.heads.grow(|next| {
            for &hash in hashes {
                self.at[next.of(hash)].store(hash as u32, Ordering::Relaxed);
            }
        });
    }

    fn is_found(&self, hash: usize) {
        assert_ne!(self.head(hash).load(Ordering::Relaxed), 0, "the end of a sample is missed");
    }
}

#[test]
fn a_sample_is_found_while_its_table_is_replaced() {
    check(None, || {
        let profile = Arc::new(Profile {
            heads: Heads::new(),
            at: std::array::from_fn(|_| AtomicU32::new(0)),
            out: AtomicBool::new(false),
        });
        profile.head(A).store(A as u32, Ordering::Release);
        let sampling = {
            let profile = Arc::clone(&profile);
            thread::spawn(move || {
                profile.grow(&[A]);
                profile.head(B).store(B as u32, Ordering::Release);
                profile.out.store(true, Ordering::Release);
            })
        };
        // Not in the first thread, for which the checker does not try every interleaving.
        let freeing = thread::spawn(move || {
            profile.is_found(A);
            if profile.out.load(Ordering::Acquire) {
                profile.is_found(B);
            }
        });
        sampling.join().unwrap();
        freeing.join().unwrap();
    });
}

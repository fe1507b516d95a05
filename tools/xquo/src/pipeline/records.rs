//! Records as the bulk pipelines know them: each in heap blocks of its own.
//!
//! This is how the program was first written, and why it lives on its allocator: seven blocks and
//! more for a record, most of a few dozen bytes, the first of them allocated by the reader and
//! freed by a worker; and for each bulk a block of some kilobytes that a worker allocates and the
//! writer frees.

use std::io::{self, BufRead};

use crate::quote::Quoting;

/// Some records, without their NULs.
pub type Bulk = Vec<Vec<u8>>;

/// The next records of the input, at most `count`, and how reading them went. None without an
/// error is the end.
pub fn read(input: &mut impl BufRead, count: usize) -> (Bulk, io::Result<()>) {
    let mut bulk = Vec::new();
    while bulk.len() < count {
        let mut record = Vec::new();
        match input.read_until(0, &mut record) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => return (bulk, Err(error)),
        }
        if record.last() == Some(&0) {
            record.pop();
        }
        bulk.push(record);
    }
    (bulk, Ok(()))
}

/// The records quoted, each followed by the delimiter.
pub fn quote(quoting: Quoting, bulk: Bulk) -> Vec<u8> {
    let quoted: Vec<Vec<u8>> = bulk.iter().map(|record| quoting.record(record)).collect();
    let mut text = quoted.join(&quoting.delimiter);
    text.push(quoting.delimiter);
    text
}

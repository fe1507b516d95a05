//! One thread reads, some quote, and the calling one writes.
//!
//! The caller writes, so that it returns as soon as the output fails, even while the reader waits
//! for input that may never come. Threads that are still there then find their channels closed
//! and end, or end with the process. No thread ever waits for one that is gone: every wait is on
//! a channel, and a channel reports when its other end is dropped.

mod bulks;
mod chunks;
mod records;
mod unordered;

use std::io::{Read, Write};
use std::thread;

use crate::{Arguments, Error, Finished, Pipeline};

/// Quotes all of `input` into `output`, in the way that `arguments` ask for.
///
/// # Errors
/// If the input cannot be read, the output cannot be written, or a thread cannot be started.
/// After a failed read the whole records before it have been written.
pub fn run(
    arguments: &Arguments,
    input: impl Read + Send + 'static,
    output: impl Write,
) -> Result<Finished, Error> {
    match arguments.pipeline {
        Pipeline::Chunks => chunks::run(arguments, input, output),
        Pipeline::Bulks => bulks::run(arguments, input, output),
        Pipeline::Unordered => unordered::run(arguments, input, output),
    }
}

/// Starts a thread that ends by itself once its channels are closed.
fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    thread::Builder::new().name(name.into()).spawn(work).map(drop).map_err(Error::Thread)
}

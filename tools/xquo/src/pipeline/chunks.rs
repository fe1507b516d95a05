//! Pieces of the input in buffers that go round.
//!
//! ```text
//!            work               done
//!   reader ────────▶ workers ────────▶ writer
//!      ▲                                  │
//!      └──────────────────────────────────┘
//!                     free
//! ```
//!
//! A piece is whatever one `read` returned, so what comes from a slow pipe is passed on at once,
//! and a record longer than a buffer is not kept. Nothing is allocated once the buffers are
//! there. The number of buffers bounds the memory, and since every channel has room for all of
//! them, nobody ever waits to send.
//!
//! Pieces are numbered. Workers finish them in any order; the writer holds back what came early.
//! There is a slot for each buffer, and the numbers in flight are consecutive, so they never meet
//! in a slot.

use std::io::{self, Read, Write};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::start;
use crate::quote::Quoting;
use crate::{Arguments, Error, Finished};

/// What is asked of one `read`; as much as a pipe holds.
const PIECE: usize = 64 * 1024;

/// A buffer and what is in it.
struct Chunk {
    /// Its place in the input.
    number: u64,
    /// What was read.
    input: Box<[u8]>,
    /// How much of it; zero at the end of the input.
    read: io::Result<usize>,
    /// Whether it begins inside a record.
    open: bool,
    /// What is to be written.
    output: Vec<u8>,
}

pub fn run(
    arguments: &Arguments,
    input: impl Read + Send + 'static,
    output: impl Write,
) -> Result<Finished, Error> {
    let workers = arguments.workers();
    // One that each worker has, one that waits for it, one to be read into, one to be written.
    let buffers = 2 * workers + 2;
    let [work, done, free] = [(); 3].map(|()| bounded::<Chunk>(buffers));
    for _ in 0..buffers {
        let input = vec![0; PIECE].into_boxed_slice();
        let chunk = Chunk { number: 0, input, read: Ok(0), open: false, output: Vec::new() };
        free.0.send(chunk).expect("the receiver is in this function");
    }
    for _ in 0..workers {
        let (quoting, work, done) = (arguments.quoting(), work.1.clone(), done.0.clone());
        start("quote", move || quote(quoting, &work, &done))?;
    }
    start("read", move || read(input, &free.1, &work.0))?;
    drop(done.0);
    write(output, buffers, &done.1, &free.0)
}

/// Reads until the end, an error, or until nobody wants more.
fn read(mut input: impl Read, free: &Receiver<Chunk>, work: &Sender<Chunk>) {
    let mut open = false;
    let mut number = 0;
    while let Ok(mut chunk) = free.recv() {
        chunk.read = loop {
            match input.read(&mut chunk.input) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                outcome => break outcome,
            }
        };
        (chunk.number, chunk.open) = (number, open);
        let is_last = match &chunk.read {
            Ok(length) => chunk.input[..*length].last().map(|byte| open = *byte != 0).is_none(),
            Err(_) => true,
        };
        number += 1;
        if work.send(chunk).is_err() || is_last {
            return;
        }
    }
}

fn quote(quoting: Quoting, work: &Receiver<Chunk>, done: &Sender<Chunk>) {
    for mut chunk in work {
        chunk.output.clear();
        match &chunk.read {
            Ok(0) => quoting.end(chunk.open, &mut chunk.output),
            Ok(length) => {
                quoting.piece(&chunk.input[..*length], chunk.open, &mut chunk.output);
            }
            Err(_) => {}
        }
        if done.send(chunk).is_err() {
            return;
        }
    }
}

/// Writes the pieces in their order.
fn write(
    mut output: impl Write,
    buffers: usize,
    done: &Receiver<Chunk>,
    free: &Sender<Chunk>,
) -> Result<Finished, Error> {
    let slot = |number: u64| (number % buffers as u64) as usize;
    let mut early: Vec<Option<Chunk>> = (0..buffers).map(|_| None).collect();
    let mut finished = Finished { written: 0 };
    for next in 0.. {
        let chunk = loop {
            if let Some(chunk) = early[slot(next)].take() {
                break chunk;
            }
            let chunk = done.recv().map_err(|_| Error::WorkerDied)?;
            let slot = slot(chunk.number);
            early[slot] = Some(chunk);
        };
        output.write_all(&chunk.output).map_err(Error::Write)?;
        finished.written += chunk.output.len() as u64;
        match chunk.read {
            Ok(0) => break,
            // The reader may be gone; then nobody needs the buffer.
            Ok(_) => drop(free.send(chunk)),
            Err(error) => return Err(Error::Read(error)),
        }
    }
    output.flush().map_err(Error::Write)?;
    Ok(finished)
}

//! Bulks of records, written as they become ready.
//!
//! The first form of the program: the reader runs ahead, and with more than one worker bulks
//! overtake each other. It is kept because it is the hardest on an allocator: almost every block is
//! freed by another thread than the one that allocated it, long after. How far the reader and the
//! workers may run ahead is bounded, so that the memory in use does not depend on how the
//! processors are shared out.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::sync::mpsc;

use crossbeam_channel::{Sender, bounded};

use super::records::{self, Bulk};
use super::start;
use crate::{Arguments, Error, Finished};

/// Bulks that wait in each channel, for each worker.
const AHEAD: usize = 64;

pub fn run(
    arguments: &Arguments,
    input: impl Read + Send + 'static,
    output: impl Write,
) -> Result<Finished, Error> {
    let ahead = AHEAD.saturating_mul(arguments.workers());
    let (bulk_in, bulk_out) = bounded::<Bulk>(ahead);
    let (text_in, text_out) = mpsc::sync_channel::<io::Result<Vec<u8>>>(ahead);
    for _ in 0..arguments.workers() {
        let (quoting, bulks, texts) = (arguments.quoting(), bulk_out.clone(), text_in.clone());
        start("quote", move || {
            for bulk in bulks {
                if texts.send(Ok(records::quote(quoting, bulk))).is_err() {
                    return;
                }
            }
        })?;
    }
    drop(bulk_out);
    let count = arguments.bulk_lines();
    start("read", move || read(BufReader::new(input), count, &bulk_in, &text_in))?;
    write(BufWriter::new(output), &text_out)
}

/// Reads until the end, an error, or until nobody wants more.
fn read(
    mut input: BufReader<impl Read>,
    count: usize,
    bulks: &Sender<Bulk>,
    texts: &mpsc::SyncSender<io::Result<Vec<u8>>>,
) {
    loop {
        let (bulk, outcome) = records::read(&mut input, count);
        let is_last = bulk.is_empty();
        if !is_last && bulks.send(bulk).is_err() {
            return;
        }
        if let Err(error) = outcome {
            // If the writer is gone, it has something to report itself.
            let _ = texts.send(Err(error));
            return;
        }
        if is_last {
            return;
        }
    }
}

fn write(
    mut output: BufWriter<impl Write>,
    texts: &mpsc::Receiver<io::Result<Vec<u8>>>,
) -> Result<Finished, Error> {
    let mut finished = Finished { written: 0 };
    let mut outcome = Ok(());
    for text in texts {
        match text {
            Ok(text) => {
                output.write_all(&text).map_err(Error::Write)?;
                finished.written += text.len() as u64;
            }
            Err(error) => outcome = Err(Error::Read(error)),
        }
    }
    output.flush().map_err(Error::Write)?;
    outcome.map(|()| finished)
}

//! Bulks of records in order, over a channel for each.
//!
//! For each bulk the reader makes a channel for one message. One end goes with the records to
//! whichever worker is free, the other to the writer, which so receives the ends in the order of
//! the input and waits at each for its text. There are at most about two bulks for each worker
//! in flight.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::sync::mpsc;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::records::{self, Bulk};
use super::start;
use crate::{Arguments, Error, Finished};

/// Records and where their text is to be sent.
type Job = (Bulk, Sender<Vec<u8>>);
/// Where the next text comes from, or why there is no more.
type Next = io::Result<Receiver<Vec<u8>>>;

pub fn run(
    arguments: &Arguments,
    input: impl Read + Send + 'static,
    output: impl Write,
) -> Result<Finished, Error> {
    let (job_in, job_out) = bounded::<Job>(0);
    let (next_in, next_out) = mpsc::sync_channel(arguments.workers());
    for _ in 0..arguments.workers() {
        let (quoting, jobs) = (arguments.quoting(), job_out.clone());
        start("quote", move || {
            for (bulk, reply) in jobs {
                // If the writer is gone, so is the reader soon, and then there are no more jobs.
                let _ = reply.send(records::quote(quoting, bulk));
            }
        })?;
    }
    drop(job_out);
    let count = arguments.bulk_lines();
    start("read", move || read(BufReader::new(input), count, &job_in, &next_in))?;
    write(BufWriter::new(output), &next_out)
}

/// Reads until the end, an error, or until nobody wants more.
fn read(
    mut input: BufReader<impl Read>,
    count: usize,
    jobs: &Sender<Job>,
    order: &mpsc::SyncSender<Next>,
) {
    loop {
        let (bulk, outcome) = records::read(&mut input, count);
        let is_last = bulk.is_empty();
        if !is_last {
            let (reply, text) = bounded(0);
            if jobs.send((bulk, reply)).is_err() || order.send(Ok(text)).is_err() {
                return;
            }
        }
        if let Err(error) = outcome {
            // If the writer is gone, it has something to report itself.
            let _ = order.send(Err(error));
            return;
        }
        if is_last {
            return;
        }
    }
}

fn write(
    mut output: BufWriter<impl Write>,
    order: &mpsc::Receiver<Next>,
) -> Result<Finished, Error> {
    let mut finished = Finished { written: 0 };
    let mut outcome = Ok(());
    for next in order {
        match next {
            Ok(text) => {
                let text = text.recv().map_err(|_| Error::WorkerDied)?;
                output.write_all(&text).map_err(Error::Write)?;
                finished.written += text.len() as u64;
            }
            Err(error) => outcome = Err(Error::Read(error)),
        }
    }
    output.flush().map_err(Error::Write)?;
    outcome.map(|()| finished)
}

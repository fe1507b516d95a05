//! quoting: records are read, quoted for a shell by workers, and printed in order.
//!
//! ```text
//! reader ──bulk of 100 records──▶ 2 workers ──quoted text──▶ printer
//! ```
//!
//! Each record passes through the steps a straightforward program takes, every one a
//! new string, so that a record costs seven blocks of 16 to 64 bytes. Records and bulks are
//! allocated by one thread and freed by the next.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::queue::Queue;
use super::{Input, Outcome, Workload};

/// See the module's first line.
pub const QUOTING: Workload = Workload {
    name: "quoting",
    about: "1 reader, 2 workers, 1 printer, 7 small strings a record",
    sleeps: false,
    brief: 0.07,
    run,
};

const BULKS: usize = 16_000;
const RECORDS: usize = 100;
const WORKERS: usize = 2;

/// Records on their way, and where the worker sends the text.
struct Bulk {
    records: Vec<Vec<u8>>,
    reply: SyncSender<String>,
}

fn run(input: &Input) -> Outcome {
    let queue = Queue::<Bulk>::new(1, WORKERS);
    let (promise, promised) = sync_channel::<Receiver<String>>(WORKERS);
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(bulk) = queue.pop() {
                    let text = bulk.records.into_iter().map(quote).collect::<Vec<_>>().join("\n");
                    bulk.reply.send(text + "\n").expect("the printer waits for every bulk");
                }
            });
        }
        let printer = scope.spawn(move || print(&promised));
        let mut rng = input.rng(0);
        for _ in 0..input.scaled(BULKS) {
            let (reply, answer) = sync_channel(1);
            promise.send(answer).expect("the printer lives as long as the reader");
            queue.push(Bulk { records: (0..RECORDS).map(|_| record(&mut rng)).collect(), reply });
        }
        queue.close();
        drop(promise);
        printer.join().expect("the printer failed")
    })
}

/// A short name with a quote and a control character in it.
fn record(rng: &mut fastrand::Rng) -> Vec<u8> {
    let number = rng.u32(..10_000_000);
    format!("test'{number}\u{8}''{number}").into_bytes()
}

/// The record as one word of a shell that knows `$'…'`.
fn quote(record: Vec<u8>) -> String {
    let text = String::from_utf8(record).expect("the reader wrote UTF-8");
    let text = text.to_string().replace('\'', r#"'"'"'"#);
    let text = text.replace('\u{8}', r"'$'\b''");
    let text = text.replace('\n', r"'$'\n''");
    let text = text.replace('\r', r"'$'\r''");
    format!("'{text}'")
}

/// Takes the text of the bulks in the order they were read.
fn print(promised: &Receiver<Receiver<String>>) -> Outcome {
    let mut checksum = 0u64;
    for answer in promised {
        let text = answer.recv().expect("a worker answers every bulk");
        assert_eq!(text.lines().count(), RECORDS, "a bulk lost records");
        checksum = text
            .bytes()
            .fold(checksum, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    }
    Outcome::of(checksum)
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn quotes_and_control_characters_are_written_out() {
        assert_eq!(quote(b"test'x".to_vec()), r#"'test'"'"'x'"#);
        assert_eq!(quote(b"a\x08b\r\n".to_vec()), r"'a'$'\b''b'$'\r'''$'\n'''");
    }
}

//! All pipelines, however many workers they have, write what a few lines of plain code say.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Parser;
use proptest::prelude::*;
use xquo::{Arguments, pipeline};

/// The rules, as simply as they can be said.
fn reference(input: &[u8], escape: bool, delimiter: u8) -> Vec<u8> {
    let mut records: Vec<&[u8]> = input.split(|&byte| byte == 0).collect();
    if records.last() == Some(&&b""[..]) {
        records.pop();
    }
    let mut out = Vec::new();
    for record in records {
        out.push(b'\'');
        for byte in record {
            out.extend_from_slice(match (byte, escape) {
                (b'\'', _) => b"'\"'\"'",
                (8, true) => b"'$'\\b''",
                (b'\n', true) => b"'$'\\n''",
                (b'\r', true) => b"'$'\\r''",
                _ => std::slice::from_ref(byte),
            });
        }
        out.extend_from_slice(&[b'\'', delimiter]);
    }
    out
}

/// Hands out at most `step` bytes at a time, as a pipe may.
struct Trickle {
    bytes: Vec<u8>,
    place: usize,
    step: usize,
}

impl Read for Trickle {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.step.min(buffer.len()).min(self.bytes.len() - self.place);
        buffer[..length].copy_from_slice(&self.bytes[self.place..][..length]);
        self.place += length;
        Ok(length)
    }
}

fn run(words: &[&str], input: impl Read + Send + 'static) -> Vec<u8> {
    let arguments = Arguments::parse_from([&["xquo"], words].concat());
    let mut output = Vec::new();
    let finished = pipeline::run(&arguments, input, &mut output).unwrap();
    assert_eq!(finished.written, output.len() as u64);
    output
}

fn sorted(text: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b'\n').collect();
    lines.sort_unstable();
    lines
}

#[test]
fn ten_thousand_records_come_out_in_order() {
    let input: String = (0..10_000).map(|number| format!("{number:04}\0")).collect();
    let expected: String = (0..10_000).map(|number| format!("'{number:04}'\n")).collect();
    for pipeline in ["chunks", "bulks"] {
        for workers in ["1", "2", "5", "255"] {
            let words = ["-w", workers, "-b", "10", "--pipeline", pipeline];
            let input = Trickle { bytes: input.clone().into(), place: 0, step: 997 };
            assert_eq!(run(&words, input), expected.as_bytes(), "{words:?}");
        }
    }
    let words = ["-w", "2", "-b", "10", "--pipeline", "unordered"];
    let output = run(&words, io::Cursor::new(input));
    assert_eq!(sorted(&output), sorted(expected.as_bytes()));
}

/// Bytes of which many mean something.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let special = prop::sample::select(b"\0'\n\r\x08".to_vec());
    prop::collection::vec(prop_oneof![special, any::<u8>()], 0..600)
}

proptest! {
    #[test]
    fn any_input_is_quoted_by_the_rules(
        bytes in bytes(), step in 1..100usize, workers in 0..5u8, bulk in 0..8usize,
        escape: bool, null: bool,
    ) {
        let expected = reference(&bytes, escape, if null { 0 } else { b'\n' });
        for pipeline in ["chunks", "bulks"] {
            let (workers, bulk) = (workers.to_string(), bulk.to_string());
            let mut words = vec!["-w", &workers, "-b", &bulk, "--pipeline", pipeline];
            words.extend(["-o", if null { "null" } else { "lf" }]);
            words.extend((!escape).then_some("-n"));
            let output = run(&words, Trickle { bytes: bytes.clone(), place: 0, step });
            prop_assert_eq!(&output, &expected, "{:?}", words);
        }
    }
}

/// Counts what was read, and fails the run if that is too far ahead of what was written.
struct Leash {
    left: usize,
    read: usize,
    written: Arc<AtomicUsize>,
    most: usize,
}

impl Read for Leash {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let ahead = self.read - self.written.load(Ordering::SeqCst).min(self.read);
        if ahead > self.most {
            return Err(io::Error::other(format!("{ahead} bytes ahead")));
        }
        let length = buffer.len().min(self.left);
        buffer[..length].fill(b'x');
        // One record is four bytes here, and its quoted form more.
        buffer[..length].iter_mut().skip(3).step_by(4).for_each(|byte| *byte = 0);
        self.left -= length;
        self.read += length;
        Ok(length)
    }
}

/// Counts what arrives.
struct Count(Arc<AtomicUsize>);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.fetch_add(bytes.len(), Ordering::SeqCst);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn nothing_is_read_far_ahead_of_what_is_written() {
    const WORKERS: usize = 2;
    // What was written is more than was read for it, by a half, so this is on the safe side; the
    // bulks also wait in the buffers of reader and writer.
    let bounds =
        [("chunks", (2 * WORKERS + 2) << 16), ("bulks", 64 << 10), ("unordered", 256 << 10)];
    for (pipeline, most) in bounds {
        let written = Arc::new(AtomicUsize::new(0));
        let input = Leash { left: 4 << 20, read: 0, written: written.clone(), most };
        let words = ["xquo", "-w", "2", "-b", "100", "--pipeline", pipeline];
        let outcome = pipeline::run(&Arguments::parse_from(words), input, Count(written));
        assert_eq!(outcome.unwrap().written, 6 << 20, "{pipeline}");
    }
}

#[test]
fn a_record_longer_than_all_buffers_passes_in_little_memory() {
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_xquo"))
        .args(["-w", "2", "--stats"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let piece = [b'\''; 1 << 16];
    (0..1024).for_each(|_| input.write_all(&piece).unwrap());
    drop(input);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let value = |key| said.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    assert_eq!(value("written "), (5 * (64 << 20) + 3).to_string());
    assert!(value("peak_kib ").parse::<u64>().unwrap() < 16 << 10, "{said}");
}

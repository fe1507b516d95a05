//! What goes wrong is said, with a status that tells, and never hangs.

use std::fs::File;
use std::io::{self, Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use clap::Parser;
use xquo::{Arguments, Error, pipeline};

const PIPELINES: [&str; 3] = ["chunks", "bulks", "unordered"];
/// Far beyond what any of these takes; a program that hangs is to fail the test, not to stop it.
const PATIENCE: Duration = Duration::from_secs(60);

fn xquo(pipeline: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xquo"));
    command.args(["-w", "3", "--pipeline", pipeline]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Its output, or a panic if it does not end.
fn ended(child: Child) -> Output {
    let id = child.id();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    receiver
        .recv_timeout(PATIENCE)
        .unwrap_or_else(|_| {
            let _ = Command::new("kill").args(["-9", &id.to_string()]).status();
            panic!("it hangs");
        })
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_full_device_is_an_error_even_if_it_shows_only_at_the_end() {
    for pipeline in PIPELINES {
        for records in [1, 100_000] {
            let mut child =
                xquo(pipeline).stdout(File::create("/dev/full").unwrap()).spawn().unwrap();
            // It may have given up before everything is written.
            let _ = child.stdin.take().unwrap().write_all(&b"record\0".repeat(records));
            let output = ended(child);
            assert_eq!(output.status.code(), Some(1), "{pipeline}, {records} records");
            assert!(said(&output).starts_with("xquo: cannot write the output: No space left"));
        }
    }
}

#[test]
fn a_reader_that_goes_away_ends_it_silently() {
    for pipeline in PIPELINES {
        let mut child = xquo(pipeline).spawn().unwrap();
        drop(child.stdout.take());
        let _ = child.stdin.take().unwrap().write_all(&b"record\0".repeat(100_000));
        let output = ended(child);
        assert_eq!((output.status.code(), said(&output).as_str()), (Some(1), ""), "{pipeline}");
    }
}

#[test]
fn a_reader_that_goes_away_ends_it_even_while_the_input_stays_open() {
    for pipeline in PIPELINES {
        let mut child = xquo(pipeline).spawn().unwrap();
        drop(child.stdout.take());
        let mut input = child.stdin.take().unwrap();
        // More than is buffered anywhere, and no end.
        let _ = input.write_all(&b"record\0".repeat(200_000));
        assert_eq!(ended(child).status.code(), Some(1), "{pipeline}");
        drop(input);
    }
}

#[test]
fn an_input_that_cannot_be_read_is_an_error() {
    for pipeline in PIPELINES {
        let child = xquo(pipeline).stdin(File::open("/").unwrap()).spawn().unwrap();
        let output = ended(child);
        assert_eq!(output.status.code(), Some(1), "{pipeline}");
        assert!(said(&output).starts_with("xquo: cannot read the input: Is a directory"));
    }
}

/// Some records, an interrupted call, more records, then an error.
struct Failing(u32);

impl Read for Failing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0 += 1;
        match self.0 {
            1 | 3 => {
                buffer[..4].copy_from_slice(b"a\0b\0");
                Ok(4)
            }
            2 => Err(io::ErrorKind::Interrupted.into()),
            _ => Err(io::Error::other("gone")),
        }
    }
}

#[test]
fn what_was_read_before_an_error_is_written() {
    for pipeline in PIPELINES {
        let arguments = Arguments::parse_from(["xquo", "-b", "3", "--pipeline", pipeline]);
        let mut output = Vec::new();
        let outcome = pipeline::run(&arguments, Failing(0), &mut output);
        assert!(matches!(outcome, Err(Error::Read(_))), "{pipeline}: {outcome:?}");
        assert_eq!(output, b"'a'\n'b'\n'a'\n'b'\n", "{pipeline}");
    }
}

/// Takes everything and fails when it is to be flushed.
struct Unflushable;

impl Write for Unflushable {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Err(io::Error::other("lost"))
    }
}

#[test]
fn a_failed_flush_is_reported() {
    for pipeline in PIPELINES {
        let arguments = Arguments::parse_from(["xquo", "--pipeline", pipeline]);
        let outcome = pipeline::run(&arguments, &b"a\0"[..], Unflushable);
        assert!(matches!(outcome, Err(Error::Write(_))), "{pipeline}: {outcome:?}");
    }
}

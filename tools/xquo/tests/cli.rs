//! The command as somebody calls it.

use std::os::fd::OwnedFd;
use std::process::{Command as Process, Stdio};

use assert_cmd::Command;

const PIPELINES: [&str; 3] = ["chunks", "bulks", "unordered"];

fn xquo(words: &[&str], input: &[u8]) -> Vec<u8> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xquo"));
    command.args(words).write_stdin(input).assert().success().get_output().stdout.clone()
}

/// Runs with every pipeline, which must agree.
fn all(words: &[&str], input: &str, expected: &str) {
    for pipeline in PIPELINES {
        let words = [words, &["--pipeline", pipeline]].concat();
        let output = xquo(&words, input.as_bytes());
        assert_eq!(String::from_utf8_lossy(&output), expected, "{words:?} on {input:?}");
    }
}

#[test]
fn known_records_come_out_as_known_words() {
    all(&[], "", "");
    all(&[], "\0\0", "''\n''\n");
    all(&[], "test\n", "'test'$'\\n'''\n");
    all(&[], "a\0b", "'a'\n'b'\n");
    all(&[], "test'テスト\0test''テスト\0", "'test'\"'\"'テスト'\n'test'\"'\"''\"'\"'テスト'\n");
    all(&[], "test\r\ntest", "'test'$'\\r'''$'\\n''test'\n");
    all(&[], "a\u{8}b\tc\0", "'a'$'\\b''b\tc'\n");
}

#[test]
fn without_escapes_only_quotes_are_replaced() {
    all(&["-n"], "a\u{8}\r\n'b\0", "'a\u{8}\r\n'\"'\"'b'\n");
    all(&["--no-escape"], "\n", "'\n'\n");
}

#[test]
fn the_delimiter_follows_every_record() {
    all(&["-o", "null"], "a\0b", "'a'\0'b'\0");
    all(&["--out-delimiter", "lf"], "a\0b\0", "'a'\n'b'\n");
}

#[test]
fn records_that_are_no_text_pass() {
    for pipeline in PIPELINES {
        let output = xquo(&["--pipeline", pipeline], b"\xff'\xfe\0\x80");
        assert_eq!(output, b"'\xff'\"'\"'\xfe'\n'\x80'\n");
    }
}

#[test]
fn zero_workers_and_empty_bulks_count_as_one() {
    all(&["-w", "0", "-b", "0"], "a\0b\0", "'a'\n'b'\n");
}

#[test]
fn what_the_command_line_does_not_know_is_an_error() {
    for words in [&["--frob"][..], &["-w", "256"], &["-w", "x"], &["-o", "crlf"], &["file"]] {
        Command::new(env!("CARGO_BIN_EXE_xquo")).args(words).assert().code(2);
    }
}

#[test]
fn the_statistics_name_the_allocator() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xquo"));
    let output = command.args(["--stats", "-j", "3"]).write_stdin("a\0").assert().success();
    let text = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    let expected = if cfg!(feature = "masu") { "allocator masu\n" } else { "allocator " };
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("workers 3\nwritten 4\npeak_kib "), "{text}");
}

/// A new pseudo-terminal: the end that a program has, and the end that a person has.
fn terminal() -> (OwnedFd, OwnedFd) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&person).unwrap();
    unlockpt(&person).unwrap();
    let name = ptsname(&person, Vec::new()).unwrap();
    let program = std::fs::File::options().read(true).write(true).open(name.to_str().unwrap());
    (program.unwrap().into(), person)
}

#[test]
fn a_terminal_gets_examples_instead_of_silence() {
    let (program, _person) = terminal();
    let output = Process::new(env!("CARGO_BIN_EXE_xquo"))
        .stdin(program)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().contains("EXAMPLES:\n"));
}

#[test]
fn a_terminal_is_read_if_asked_for() {
    let (program, person) = terminal();
    // A line, and Ctrl-D at the beginning of the next.
    rustix::io::write(&person, b"typed\n\x04").unwrap();
    let output =
        Process::new(env!("CARGO_BIN_EXE_xquo")).arg("-t").stdin(program).output().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout, b"'typed'$'\\n'''\n");
}

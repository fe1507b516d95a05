//! A shell reads back what was quoted.

use std::io::Write;
use std::process::{Command, Stdio};

use clap::Parser;
use proptest::prelude::*;
use xquo::{Arguments, pipeline};

/// The words that `shell` sees, each followed by NUL.
fn words_in(shell: &str, quoted: &[u8]) -> Vec<u8> {
    let mut child = Command::new(shell)
        .arg("-s")
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut script = b"printf '%s\\0' ".to_vec();
    // The words were delimited by NUL, which none of them holds.
    script.extend(quoted.iter().map(|&byte| if byte == 0 { b' ' } else { byte }));
    child.stdin.take().unwrap().write_all(&script).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    output.stdout
}

fn quote(words: &[&str], records: &[u8]) -> Vec<u8> {
    let arguments = Arguments::parse_from([&["xquo", "-o", "null"], words].concat());
    let mut output = Vec::new();
    pipeline::run(&arguments, std::io::Cursor::new(records.to_vec()), &mut output).unwrap();
    output
}

fn records() -> impl Strategy<Value = Vec<u8>> {
    let special = prop::sample::select(b"'\n\r\x08\"\\$`!*~ \t".to_vec());
    let byte = prop_oneof![special, 1..=255u8];
    let record = prop::collection::vec(byte, 0..40);
    prop::collection::vec(record, 1..20)
        .prop_map(|records| records.into_iter().flat_map(|record| [record, vec![0]].concat()))
        .prop_map(Iterator::collect)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// `sh` knows single and double quotes. It takes every byte but NUL between them.
    #[test]
    fn sh_reads_records_without_escapes(records in records()) {
        prop_assert_eq!(words_in("sh", &quote(&["-n"], &records)), records);
    }

    /// `$'…'` is bash's, and that of other shells of its kind.
    #[test]
    fn bash_reads_records_with_escapes(records in records()) {
        prop_assert_eq!(words_in("bash", &quote(&[], &records)), records);
    }
}

//! The quoting rules.
//!
//! Every rule looks at one byte, so a stream can be cut anywhere: a piece is quoted knowing only
//! whether it begins inside a record. That is what bounds the memory of the chunk pipeline,
//! however long a record is.

use memchr::memchr;

/// What a run does to records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quoting {
    /// Whether backspace, line feed and carriage return are escaped.
    pub escape: bool,
    /// The byte after each record.
    pub delimiter: u8,
}

/// What stands for a single quote: out of the quotes, one quote in double quotes, in again.
const QUOTE: &[u8] = b"'\"'\"'";
/// The escaped bytes with what stands for them, in the order in which they are replaced.
const ESCAPES: [(u8, &[u8]); 3] = [(0x08, b"'$'\\b''"), (b'\n', b"'$'\\n''"), (b'\r', b"'$'\\r''")];
/// The most bytes that one byte of the input becomes.
pub const LONGEST: usize = 7;

const _: () = {
    assert!(QUOTE.len() <= LONGEST);
    let mut index = 0;
    while index < ESCAPES.len() {
        assert!(ESCAPES[index].1.len() <= LONGEST);
        index += 1;
    }
};

/// True for the bytes that do not always stand for themselves.
const SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    special[0] = true;
    special[b'\'' as usize] = true;
    let mut index = 0;
    while index < ESCAPES.len() {
        special[ESCAPES[index].0 as usize] = true;
        index += 1;
    }
    special
};

impl Quoting {
    /// Appends `piece`, quoted, to `out`. `open` says that it begins inside a record.
    /// Returns whether it ends inside one.
    pub fn piece(&self, piece: &[u8], mut open: bool, out: &mut Vec<u8>) -> bool {
        out.reserve(LONGEST * piece.len());
        let mut rest = piece;
        while !rest.is_empty() {
            if !open {
                out.push(b'\'');
                open = true;
            }
            let plain = rest.iter().position(|&byte| SPECIAL[usize::from(byte)]);
            let (run, tail) = rest.split_at(plain.unwrap_or(rest.len()));
            out.extend_from_slice(run);
            let Some((&byte, tail)) = tail.split_first() else { break };
            match byte {
                0 => {
                    out.extend_from_slice(&[b'\'', self.delimiter]);
                    open = false;
                }
                b'\'' => out.extend_from_slice(QUOTE),
                _ => match ESCAPES.iter().find(|(escaped, _)| *escaped == byte) {
                    Some((_, text)) if self.escape => out.extend_from_slice(text),
                    _ => out.push(byte),
                },
            }
            rest = tail;
        }
        open
    }

    /// Appends what ends the stream. `open` says that it ends inside a record.
    pub fn end(&self, open: bool, out: &mut Vec<u8>) {
        if open {
            out.extend_from_slice(&[b'\'', self.delimiter]);
        }
    }

    /// One record, quoted, without the delimiter, by steps that each make a new heap block: a
    /// copy, one for each replacement whether there is something to replace or not, and the
    /// wrapped result.
    pub fn record(&self, record: &[u8]) -> Vec<u8> {
        let mut text = record.to_vec();
        text = replace(&text, b'\'', QUOTE);
        if self.escape {
            for (byte, escaped) in ESCAPES {
                text = replace(&text, byte, escaped);
            }
        }
        let mut quoted = Vec::new();
        quoted.push(b'\'');
        quoted.extend_from_slice(&text);
        quoted.push(b'\'');
        quoted
    }
}

/// A new block with `by` in place of every `byte`, as large as `text` to begin with.
fn replace(text: &[u8], byte: u8, by: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = memchr(byte, rest) {
        out.extend_from_slice(&rest[..place]);
        out.extend_from_slice(by);
        rest = &rest[place + 1..];
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const ESCAPING: Quoting = Quoting { escape: true, delimiter: b'\n' };
    const PLAIN: Quoting = Quoting { escape: false, delimiter: b'\n' };

    /// Records and what becomes of them, with and without escapes.
    const VECTORS: &[(&str, &str, &str)] = &[
        ("", "''", "''"),
        ("test", "'test'", "'test'"),
        ("テスト", "'テスト'", "'テスト'"),
        ("test'テスト", "'test'\"'\"'テスト'", "'test'\"'\"'テスト'"),
        ("test''テスト", "'test'\"'\"''\"'\"'テスト'", "'test'\"'\"''\"'\"'テスト'"),
        ("'", "''\"'\"''", "''\"'\"''"),
        ("test\r\ntest", "'test'$'\\r'''$'\\n''test'", "'test\r\ntest'"),
        ("\u{8}", "''$'\\b'''", "'\u{8}'"),
        ("a\tb\u{1b}\u{7f}", "'a\tb\u{1b}\u{7f}'", "'a\tb\u{1b}\u{7f}'"),
    ];

    fn whole(quoting: Quoting, text: &[u8]) -> String {
        let mut out = Vec::new();
        let open = quoting.piece(text, false, &mut out);
        quoting.end(open, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn known_records() {
        for (record, escaped, plain) in VECTORS {
            for (quoting, expected) in [(ESCAPING, escaped), (PLAIN, plain)] {
                assert_eq!(quoting.record(record.as_bytes()), expected.as_bytes());
                let stream = [record.as_bytes(), b"\0"].concat();
                assert_eq!(whole(quoting, &stream), format!("{expected}\n"));
            }
        }
    }

    #[test]
    fn records_end_at_nul_and_only_there() {
        assert_eq!(whole(ESCAPING, b""), "");
        assert_eq!(whole(ESCAPING, b"\0\0"), "''\n''\n");
        assert_eq!(whole(ESCAPING, b"a\0b"), "'a'\n'b'\n");
        assert_eq!(whole(ESCAPING, b"test\n"), "'test'$'\\n'''\n");
        let null = Quoting { delimiter: 0, ..ESCAPING };
        assert_eq!(whole(null, b"a\0b\0"), "'a'\0'b'\0");
    }

    #[test]
    fn bytes_that_are_no_text_pass() {
        let mut out = Vec::new();
        ESCAPING.piece(b"\xff\xfe'\x80\0", false, &mut out);
        assert_eq!(out, b"'\xff\xfe'\"'\"'\x80'\n");
        assert_eq!(ESCAPING.record(b"\xff\xfe'\x80"), b"'\xff\xfe'\"'\"'\x80'");
    }

    #[test]
    fn a_stream_can_be_cut_anywhere() {
        let text = "a'b\u{8}\r\n''\0\0x\0'".as_bytes();
        let expected = whole(ESCAPING, text).into_bytes();
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let mut out = Vec::new();
                let mut open = false;
                for piece in [&text[..first], &text[first..second], &text[second..]] {
                    open = ESCAPING.piece(piece, open, &mut out);
                }
                ESCAPING.end(open, &mut out);
                assert_eq!(out, expected, "cut at {first} and {second}");
            }
        }
    }
}

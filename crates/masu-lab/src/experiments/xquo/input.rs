//! The records of the experiment, and what has to come out.
//!
//! Record N, from 1, is ``test'N<backspace>''N`` and a NUL. Ten million of them are 227,777,794
//! bytes, and quoted 427,777,794.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

/// Writes `records` records.
pub fn write(file: File, records: u64) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, file);
    for number in 1..=records {
        write!(file, "test'{number}\u{8}''{number}\0")?;
    }
    file.flush()
}

/// What is compared of an output: two outputs with the same digest are the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Digest {
    /// Its length.
    pub bytes: u64,
    /// Of its lines, in any order.
    pub lines: u64,
    /// Of its lines in their order.
    pub order: u64,
}

impl Digest {
    /// Of what `records` records become.
    pub fn expected(records: u64) -> Self {
        let mut digest = Digest::default();
        let mut line = Vec::new();
        for number in 1..=records {
            line.clear();
            // Writing to memory cannot fail.
            let _ = writeln!(line, "'test'\"'\"'{number}'$'\\b'''\"'\"''\"'\"'{number}'");
            digest.add(&line);
        }
        digest
    }

    /// Of everything that `output` gives.
    pub fn of(output: impl Read) -> io::Result<Self> {
        let mut output = BufReader::with_capacity(1 << 20, output);
        let mut digest = Digest::default();
        let mut line = Vec::new();
        while output.read_until(b'\n', &mut line)? != 0 {
            digest.add(&line);
            line.clear();
        }
        Ok(digest)
    }

    fn add(&mut self, line: &[u8]) {
        use std::hash::Hasher;
        // Its keys are fixed, so a digest is the same in every run.
        let mut hasher = std::hash::DefaultHasher::new();
        hasher.write(line);
        let hash = hasher.finish();
        self.bytes += line.len() as u64;
        self.lines = self.lines.wrapping_add(hash);
        self.order = self.order.rotate_left(5).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_and_what_becomes_of_it_have_the_published_lengths() {
        let mut file = tempfile::tempfile().unwrap();
        write(file.try_clone().unwrap(), 1000).unwrap();
        // 9 + 2d bytes for a number of d digits.
        let expected = 9 * 11 + 90 * 13 + 900 * 15 + 17;
        assert_eq!(file.metadata().unwrap().len(), expected);
        assert_eq!(Digest::expected(1000).bytes, expected + 20 * 1000);
        let mut text = Vec::new();
        io::Seek::rewind(&mut file).unwrap();
        file.read_to_end(&mut text).unwrap();
        assert!(text.starts_with(b"test'1\x08''1\0test'2\x08''2\0"));
    }

    #[test]
    fn a_digest_tells_order_and_content_apart() {
        let [ab, ba, ax] =
            [b"a\nb\n", b"b\na\n", b"a\nx\n"].map(|text| Digest::of(&text[..]).unwrap());
        assert_eq!((ab.lines, ab.bytes), (ba.lines, ba.bytes));
        assert_ne!(ab.order, ba.order);
        assert_ne!(ab.lines, ax.lines);
    }
}

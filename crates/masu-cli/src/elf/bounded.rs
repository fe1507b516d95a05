//! A file of which a bounded number of bytes is read: a sparse one that takes no space on the disk can claim to have
//! sections of terabytes.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fs::File;
use std::ops::Range;

use memchr::memchr;
use object::{ReadCache, ReadRef};

/// Most bytes that are read of a file; programs of a gigabyte have fewer in what is asked for.
const MOST: u64 = 512 << 20;

/// Strings are read in pieces of this size: programs have hundreds of thousands, and one takes two system calls.
const PIECE: u64 = 64 << 10;

/// A file, and how many bytes may still be read.
pub struct Bounded {
    file: ReadCache<File>,
    left: Cell<u64>,
    /// The pieces that were read, `MOST` bytes at most.
    pieces: RefCell<HashSet<u64>>,
}

impl Bounded {
    pub fn new(file: File) -> Self {
        Self { file: ReadCache::new(file), left: Cell::new(MOST), pieces: RefCell::default() }
    }

    /// Returns the string that begins `range`, from the piece in which it lies; `None` if it does not end there.
    fn in_piece(&self, range: &Range<u64>, delimiter: u8) -> Option<&[u8]> {
        let start = range.start / PIECE * PIECE;
        let end = (start + PIECE).min(ReadRef::len(&self.file).ok()?);
        let mut pieces = self.pieces.borrow_mut();
        if pieces.len() as u64 * PIECE >= MOST && !pieces.contains(&start) {
            return None;
        }
        let piece = self.file.read_bytes_at(start, end.checked_sub(start)?).ok()?;
        pieces.insert(start);
        let rest =
            piece.get((range.start - start) as usize..(range.end.min(end) - start) as usize)?;
        rest.get(..memchr(delimiter, rest)?)
    }

    /// Once one reading is too much, none is left for others.
    fn charge(&self, bytes: u64) -> Result<(), ()> {
        let left = self.left.get().checked_sub(bytes);
        self.left.set(left.unwrap_or(0));
        if left.is_some() { Ok(()) } else { Err(()) }
    }
}

impl<'data> ReadRef<'data> for &'data Bounded {
    fn len(self) -> Result<u64, ()> {
        ReadRef::len(&self.file)
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'data [u8], ()> {
        self.charge(size)?;
        self.file.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'data [u8], ()> {
        // How long it is shows only when it is read, and then it is kept.
        if self.left.get() == 0 {
            return Err(());
        }
        let bytes = match self.in_piece(&range, delimiter) {
            Some(bytes) => bytes,
            None => self.file.read_bytes_at_until(range, delimiter)?,
        };
        self.charge(bytes.len() as u64)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sparse_file_claims_to_have_is_not_read() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(2 * MOST).unwrap();
        let file = Bounded::new(file);
        assert_eq!((&file).read_bytes_at(MOST, 16), Ok(&[0; 16][..]));
        assert_eq!((&file).read_bytes_at(16, MOST), Err(()));
        file.left.set(20);
        assert_eq!((&file).read_bytes_at(0, 16), Ok(&[0; 16][..]));
        assert_eq!((&file).read_bytes_at_until(0..9, 0), Ok(&[][..]));
        assert_eq!((&file).read_bytes_at(0, 16), Err(()));
        assert_eq!((&file).read_bytes_at_until(0..9, 0), Err(()), "strings are kept, too");
    }

    #[test]
    fn strings_of_one_piece_take_one_reading() {
        use std::io::Write as _;

        let mut file = tempfile::tempfile().unwrap();
        let text = "name\0".repeat(40_000);
        file.write_all(text.as_bytes()).unwrap();
        let file = Bounded::new(file);
        let end = text.len() as u64;
        for start in (0..end).step_by(5) {
            assert_eq!((&file).read_bytes_at_until(start..end, 0), Ok(&b"name"[..]), "{start}");
        }
        assert_eq!(file.pieces.borrow().len() as u64, end.div_ceil(PIECE));
        assert_eq!((&file).read_bytes_at_until(3..5, 0), Ok(&b"e"[..]));
        assert_eq!((&file).read_bytes_at_until(0..3, 0), Err(()), "it does not end there");
        assert_eq!((&file).read_bytes_at_until(end..end + 9, 0), Err(()));
    }
}

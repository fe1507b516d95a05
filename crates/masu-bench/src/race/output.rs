//! Whether two programs printed the same.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek};

/// How what is in `mine` differs from what is in `expected`, if it does.
pub fn difference(mine: &File, expected: &File) -> Option<String> {
    match compare(mine, expected) {
        Ok(difference) => difference,
        Err(error) => Some(format!("the output cannot be read: {error}")),
    }
}

fn compare(mut mine: &File, mut expected: &File) -> io::Result<Option<String>> {
    mine.rewind()?;
    expected.rewind()?;
    let lengths = (mine.metadata()?.len(), expected.metadata()?.len());
    let (mut mine, mut expected) = (BufReader::new(mine), BufReader::new(expected));
    let mut line = 1;
    loop {
        let (a, b) = (mine.fill_buf()?, expected.fill_buf()?);
        let common = a.len().min(b.len());
        let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        line += a[..same].iter().filter(|&&byte| byte == b'\n').count();
        if same < common || (common == 0 && a.len() != b.len()) {
            let bytes = match lengths {
                (mine, expected) if mine == expected => String::new(),
                (mine, expected) => format!(" ({mine} bytes instead of {expected})"),
            };
            return Ok(Some(format!("from line {line} on{bytes}")));
        }
        if common == 0 {
            return Ok(None);
        }
        mine.consume(common);
        expected.consume(common);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(text: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        file
    }

    #[test]
    fn the_same_is_the_same_and_can_be_asked_twice() {
        let long = b"0123456789\n".repeat(10_000);
        let (a, b) = (file(&long), file(&long));
        assert_eq!(difference(&a, &b), None);
        assert_eq!(difference(&a, &b), None);
        assert_eq!(difference(&file(b""), &file(b"")), None);
    }

    #[test]
    fn the_first_line_that_differs_is_named() {
        let how = difference(&file(b"a\nb\nX\n"), &file(b"a\nb\nc\n")).unwrap();
        assert_eq!(how, "from line 3 on");
    }

    #[test]
    fn a_missing_end_is_a_difference() {
        let how = difference(&file(b"a\nb\n"), &file(b"a\nb\nc\n")).unwrap();
        assert_eq!(how, "from line 3 on (4 bytes instead of 6)");
        assert!(difference(&file(b"a"), &file(b"")).is_some());
    }
}

//! Text without `core::fmt`: the engine's messages on stderr and in reports.
//!
//! An allocator may have to print inside `malloc`, before libc is ready or while it reports a damaged heap, so this
//! writer never allocates and never panics. It collects bytes in a fixed buffer and hands them to a sink that the
//! caller chose: `write(2)` on stderr, a `FILE *`, a test's vector. The buffer goes out when it is full, on
//! [`Text::flush`] and on drop, so a report of a few hundred bytes is one system call and its lines stay together.
//!
//! Numbers are formatted into a [`Short`], a small string by value, and then placed: as they are,
//! or padded to a width for tables.

/// Bytes collected before the sink is called: a report line or ten.
const BUFFER: usize = 512;

/// Most bytes shown of a text that came from outside.
const PRINTABLE: usize = 64;

/// Longest formatted number: 20 decimal digits of `u64::MAX`, or `1023.9 PiB`.
const SHORT: usize = 24;

/// A writer over a fixed buffer and a sink.
pub struct Text<'a> {
    buffer: [u8; BUFFER],
    len: usize,
    /// Bytes since the last line feed.
    column: usize,
    sink: &'a mut dyn FnMut(&[u8]),
}

impl<'a> Text<'a> {
    /// A writer that sends what it is given to `sink`.
    pub fn new(sink: &'a mut dyn FnMut(&[u8])) -> Self {
        Text { buffer: [0; BUFFER], len: 0, column: 0, sink }
    }

    /// Writes `bytes` as they are.
    #[inline(never)]
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        for &byte in bytes {
            self.byte(byte);
        }
        self
    }

    /// Writes `s`.
    pub fn str(&mut self, s: &str) -> &mut Self {
        self.bytes(s.as_bytes())
    }

    /// Writes `n` in decimal.
    pub fn decimal(&mut self, n: u64) -> &mut Self {
        self.bytes(decimal(n).as_bytes())
    }

    /// Writes a count of something: `1 byte`, `2 bytes`.
    pub fn count(&mut self, n: u64, what: &str) -> &mut Self {
        self.decimal(n).str(" ").str(what).str(if n == 1 { "" } else { "s" })
    }

    /// Writes `n` as `0x…` in hexadecimal.
    pub fn hex(&mut self, n: u64) -> &mut Self {
        self.bytes(hex(n).as_bytes())
    }

    /// Writes `s` and then spaces up to `width`.
    pub fn left(&mut self, s: &str, width: usize) -> &mut Self {
        self.str(s).spaces(width.saturating_sub(s.len()))
    }

    /// Writes spaces and then `s`, `width` wide together.
    pub fn right(&mut self, s: &str, width: usize) -> &mut Self {
        self.spaces(width.saturating_sub(s.len())).str(s)
    }

    /// Writes spaces until the line is `column` bytes long; at least one.
    pub fn tab(&mut self, column: usize) -> &mut Self {
        self.spaces(column.saturating_sub(self.column).max(1))
    }

    /// Writes `bytes` in capitals.
    pub fn upper(&mut self, bytes: &[u8]) -> &mut Self {
        for &byte in bytes {
            self.byte(byte.to_ascii_uppercase());
        }
        self
    }

    /// Writes foreign `bytes` fit for a message of one line: anything but printable ASCII becomes
    /// `?`, and a long text is cut.
    pub fn printable(&mut self, bytes: &[u8]) -> &mut Self {
        for &byte in bytes.iter().take(PRINTABLE) {
            self.byte(if byte == b' ' || byte.is_ascii_graphic() { byte } else { b'?' });
        }
        self.str(if bytes.len() > PRINTABLE { "..." } else { "" })
    }

    /// Writes foreign `bytes` [`printable`](Text::printable) and in double quotes.
    pub fn quoted(&mut self, bytes: &[u8]) -> &mut Self {
        self.str("\"").printable(bytes).str("\"")
    }

    /// Ends the line.
    pub fn line(&mut self) -> &mut Self {
        self.byte(b'\n');
        self
    }

    /// Hands the collected bytes to the sink.
    #[inline(never)]
    pub fn flush(&mut self) {
        // Empty before the sink is called, which may unwind: then this is dropped, and flushes once more.
        let len = core::mem::take(&mut self.len);
        if let Some(collected) = self.buffer.get(..len)
            && !collected.is_empty()
        {
            (self.sink)(collected);
        }
    }

    #[inline(never)]
    fn spaces(&mut self, count: usize) -> &mut Self {
        for _ in 0..count {
            self.byte(b' ');
        }
        self
    }

    /// Every write ends here. Out of line, like all functions that would otherwise copy its loop, because
    /// text is never hot and the shared object must stay small.
    #[inline(never)]
    fn byte(&mut self, byte: u8) {
        if self.len >= BUFFER {
            self.flush();
        }
        if let Some(slot) = self.buffer.get_mut(self.len) {
            *slot = byte;
            self.len += 1;
        }
        self.column = if byte == b'\n' { 0 } else { self.column + 1 };
    }
}

impl Drop for Text<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

/// A short ASCII string by value, filled from its end.
pub struct Short {
    buffer: [u8; SHORT],
    start: usize,
}

impl Short {
    const fn new() -> Self {
        Short { buffer: [0; SHORT], start: SHORT }
    }

    /// The formatted bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or(&[])
    }

    /// The formatted text.
    pub fn as_str(&self) -> &str {
        // Only ASCII is ever put in, so the fallback is never taken.
        core::str::from_utf8(self.as_bytes()).unwrap_or("")
    }

    /// Puts `byte` in front. A full string stays as it is.
    #[inline(always)]
    fn front(&mut self, byte: u8) {
        if let Some(slot) = self.start.checked_sub(1)
            && let Some(place) = self.buffer.get_mut(slot)
        {
            *place = byte;
            self.start = slot;
        }
    }

    /// Puts `s` in front.
    fn front_str(&mut self, s: &str) {
        self.front_bytes(s.as_bytes());
    }

    /// Puts `bytes`, which are ASCII, in front.
    fn front_bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes.iter().rev() {
            self.front(byte);
        }
    }

    /// Puts the decimal digits of `n` in front.
    fn front_decimal(&mut self, mut n: u64) {
        loop {
            self.front(b'0' + (n % 10) as u8);
            n /= 10;
            if n == 0 {
                break;
            }
        }
    }
}

/// `n` in decimal.
#[inline(never)]
pub fn decimal(n: u64) -> Short {
    let mut short = Short::new();
    short.front_decimal(n);
    short
}

/// `n` followed by `suffix`: a number with its unit.
#[inline(never)]
pub fn with_unit(n: u64, suffix: &str) -> Short {
    let mut short = Short::new();
    short.front_str(suffix);
    short.front_decimal(n);
    short
}

/// `n` in hexadecimal with `0x`, no leading zeros.
#[inline(never)]
pub fn hex(mut n: u64) -> Short {
    let mut short = Short::new();
    loop {
        let digit = (n & 15) as u8;
        short.front(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 });
        n >>= 4;
        if n == 0 {
            break;
        }
    }
    short.front_str("0x");
    short
}

/// The binary units, largest first, three letters each: in a table of strings each would take a relocation.
const UNITS: &[u8] = b"EiBPiBTiBGiBMiBKiB";

/// The binary units, largest first: name and power of two.
fn units() -> impl Iterator<Item = (&'static [u8], u32)> {
    let mut shift = 70;
    UNITS.chunks_exact(3).map(move |unit| {
        shift -= 10;
        (unit, shift)
    })
}

/// `n` bytes in readable form, cut to one decimal: `17 B`, `1.5 KiB`, `3.9 GiB`.
#[inline(never)]
pub fn human_bytes(n: u64) -> Short {
    for (unit, shift) in units() {
        let whole = n >> shift;
        if whole != 0 {
            let mut short = Short::new();
            short.front_bytes(unit);
            short.front(b' ');
            // The rest is below one unit; its top bits suffice for one digit.
            short.front_decimal(((n >> (shift - 10)) & 1023) * 10 / 1024);
            short.front(b'.');
            short.front_decimal(whole);
            return short;
        }
    }
    with_unit(n, " B")
}

/// `n` bytes exactly, in the largest unit that divides it: `4MiB`, `1000B`.
#[inline(never)]
pub fn exact_bytes(n: u64) -> Short {
    for (unit, shift) in units() {
        if n != 0 && n.trailing_zeros() >= shift {
            let mut short = Short::new();
            short.front_bytes(unit);
            short.front_decimal(n >> shift);
            return short;
        }
    }
    with_unit(n, "B")
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::String;
    use std::vec::Vec;

    fn written(write: impl FnOnce(&mut Text)) -> String {
        let mut out = Vec::new();
        let mut sink = |bytes: &[u8]| out.extend_from_slice(bytes);
        write(&mut Text::new(&mut sink));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers() {
        for (n, dec, hexa) in [
            (0, "0", "0x0"),
            (9, "9", "0x9"),
            (10, "10", "0xa"),
            (4096, "4096", "0x1000"),
            (u64::MAX, "18446744073709551615", "0xffffffffffffffff"),
        ] {
            assert_eq!(decimal(n).as_str(), dec);
            assert_eq!(hex(n).as_str(), hexa);
        }
        assert_eq!(with_unit(500, "ms").as_str(), "500ms");
    }

    #[test]
    fn bytes_for_people() {
        for (n, human, exact) in [
            (0, "0 B", "0B"),
            (1023, "1023 B", "1023B"),
            (1024, "1.0 KiB", "1KiB"),
            (1536, "1.5 KiB", "1536B"),
            (4 << 20, "4.0 MiB", "4MiB"),
            ((1 << 30) - 1, "1023.9 MiB", "1073741823B"),
            (u64::MAX, "15.9 EiB", "18446744073709551615B"),
        ] {
            assert_eq!(human_bytes(n).as_str(), human);
            assert_eq!(exact_bytes(n).as_str(), exact);
        }
    }

    #[test]
    fn counts() {
        let text = written(|t| {
            _ = t.count(0, "byte").str(", ").count(1, "byte").str(", ").count(2, "byte")
        });
        assert_eq!(text, "0 bytes, 1 byte, 2 bytes");
    }

    #[test]
    fn placing() {
        let text = written(|t| {
            t.left("ab", 4).right("cd", 4).line();
            t.left("long", 2).right("long", 2).tab(12).str("x").tab(3).str("y");
        });
        assert_eq!(text, "ab    cd\nlonglong    x y");
    }

    #[test]
    fn quoting_keeps_a_message_on_one_line() {
        assert_eq!(
            written(|t| {
                t.quoted(b"a b\n\x1b[1m\xff");
            }),
            "\"a b??[1m?\""
        );
        let long = [b'x'; 100];
        assert_eq!(
            written(|t| {
                t.quoted(&long);
            }),
            std::format!("\"{}...\"", "x".repeat(64))
        );
    }

    #[test]
    fn more_than_the_buffer_arrives_whole_and_in_order() {
        let mut calls = 0;
        let mut out = Vec::new();
        let mut sink = |bytes: &[u8]| {
            calls += 1;
            out.extend_from_slice(bytes);
        };
        let mut text = Text::new(&mut sink);
        for n in 0..1000 {
            text.decimal(n).line();
        }
        drop(text);
        let expected: String = (0..1000).map(|n| std::format!("{n}\n")).collect();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert_eq!(calls, expected.len().div_ceil(BUFFER));
    }

    #[test]
    fn short_text_is_one_call_and_nothing_is_none() {
        let mut calls = 0;
        let mut sink = |_: &[u8]| calls += 1;
        Text::new(&mut sink).str("one").line().str("two").line();
        Text::new(&mut sink).str("");
        assert_eq!(calls, 1);
    }
}

//! The unwinding tables of a module: `.eh_frame_hdr`, which is sorted by address, and the entries in `.eh_frame` that
//! it points to.
//!
//! Only a [`Cursor`] reads, within one loaded segment of the module.

use crate::module::Module;

/// Reads successive bytes up to an end.
///
/// Invariant: `at` is at most `end`, and all of `at..end` can be read as long as the cursor is used: it lies within a
/// segment of a loaded module.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    at: usize,
    end: usize,
}

impl Cursor {
    /// # Safety
    /// The caller must ensure the invariant.
    pub unsafe fn new(at: usize, end: usize) -> Self {
        Cursor { at, end: end.max(at) }
    }

    /// Returns a cursor over at most the first `length` bytes.
    pub fn first(self, length: usize) -> Cursor {
        Cursor { at: self.at, end: self.end.min(self.at.saturating_add(length)) }
    }

    /// The bytes that have not been read.
    #[inline(always)]
    fn left(&self) -> usize {
        self.end.wrapping_sub(self.at)
    }

    /// Whether everything has been read.
    pub fn is_empty(&self) -> bool {
        self.left() == 0
    }

    fn take<T: Copy>(&mut self) -> Option<T> {
        if self.left() < size_of::<T>() {
            return None;
        }
        // SAFETY: the invariant; any bytes are a valid integer.
        let value = unsafe { (self.at as *const T).read_unaligned() };
        self.at += size_of::<T>();
        Some(value)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.take()
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.take()
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.take()
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.take()
    }

    /// Reads a number in groups of seven bits.
    pub fn uleb(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.u8()?;
            if shift < 64 {
                value |= u64::from(byte & 0x7f) << shift;
            }
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
    }

    /// The same with a sign.
    pub fn sleb(&mut self) -> Option<i64> {
        let (mut value, mut shift) = (0i64, 0);
        loop {
            let byte = self.u8()?;
            if shift < 64 {
                value |= i64::from(byte & 0x7f) << shift;
            }
            shift += 7;
            if byte & 0x80 == 0 {
                let negative = byte & 0x40 != 0 && shift < 64;
                return Some(if negative { value | -1 << shift } else { value });
            }
        }
    }

    /// Reads a length, and that many bytes.
    pub fn block(&mut self) -> Option<Cursor> {
        let length = usize::try_from(self.uleb()?).ok()?;
        self.split(length)
    }

    /// Splits off the next `length` bytes.
    pub fn split(&mut self, length: usize) -> Option<Cursor> {
        if self.left() < length {
            return None;
        }
        let part = Cursor { at: self.at, end: self.at + length };
        self.at = part.end;
        Some(part)
    }

    /// Reads a pointer in one of the table's encodings; 0 for an omitted one.
    fn pointer(&mut self, encoding: u8) -> Option<usize> {
        let from = match encoding & 0x70 {
            0 => 0,
            0x10 => self.at,
            _ => return None,
        };
        let value = match encoding & 0x0f {
            0x0 | 0x4 | 0xc => self.u64()? as usize,
            0x2 => self.u16()?.into(),
            0x3 => self.u32()? as usize,
            0xa => self.u16()? as i16 as usize,
            0xb => self.u32()? as i32 as usize,
            _ => return None,
        };
        Some(if value == 0 { 0 } else { from.wrapping_add(value) })
    }
}

/// The table's information about a function.
pub struct Entry {
    /// Where it begins, and ends.
    pub start: usize,
    end: usize,
    /// The factors for code steps and for offsets.
    pub code: usize,
    /// As above.
    pub data: i64,
    /// Whether it returns from a signal handler.
    pub is_signal: bool,
    /// The program that functions share, and the function's own.
    pub shared: Cursor,
    /// As above.
    pub own: Cursor,
}

impl Entry {
    /// Returns the entry of the function of a module that contains an address.
    pub fn of(pc: usize, module: &Module) -> Option<Self> {
        let mut last = 0..0;
        let mut segment = |at| module.segment(at, &mut last);
        let place = search(pc, segment(module.header)?)?;
        let entry = Entry::read(segment(place)?, segment)?;
        (entry.start <= pc && pc < entry.end).then_some(entry)
    }

    /// Reads the entry that begins at a cursor. `segment` returns the segment of an address of the module, as a cursor
    /// from there to its end.
    #[inline(always)]
    fn read(mut at: Cursor, mut segment: impl FnMut(usize) -> Option<Cursor>) -> Option<Self> {
        let mut own = sized(&mut at)?;
        let here = own.at;
        let back = own.u32()? as usize;
        if back == 0 {
            return None;
        }
        let mut shared = sized(&mut segment(here.checked_sub(back)?)?)?;
        if shared.u32()? != 0 {
            return None;
        }
        let version = shared.u8()?;
        if version != 1 && version != 3 {
            return None;
        }
        let mut letters = shared;
        while shared.u8()? != 0 {}
        let code = usize::try_from(shared.uleb()?).ok()?;
        let data = shared.sleb()?;
        if version == 1 {
            shared.u8()?;
        } else {
            shared.uleb()?;
        }
        let mut encoding = 0;
        let mut is_signal = false;
        let has_length = {
            let first = letters.u8()?;
            if first != b'z' && first != 0 {
                return None;
            }
            first == b'z'
        };
        if has_length {
            let mut values = shared.block()?;
            loop {
                match letters.u8()? {
                    0 => break,
                    b'R' => encoding = values.u8()?,
                    b'L' => drop(values.u8()?),
                    b'P' => {
                        let personality = values.u8()?;
                        // Only its length matters.
                        values.pointer(personality & 0x0f)?;
                    }
                    b'S' => is_signal = true,
                    b'B' => {}
                    _ => return None,
                }
            }
        }
        let start = own.pointer(encoding)?;
        let length = own.pointer(encoding & 0x0f)?;
        if has_length {
            own.block()?;
        }
        Some(Entry { start, end: start.checked_add(length)?, code, data, is_signal, shared, own })
    }
}

/// Reads a length in four bytes, and the content of that length.
fn sized(at: &mut Cursor) -> Option<Cursor> {
    let length = at.u32()?;
    if length == u32::MAX {
        return None;
    }
    at.split(length as usize)
}

/// Returns the place of the entry of the last function that begins at or before an address.
fn search(pc: usize, header: Cursor) -> Option<usize> {
    /// The one form that linkers write: a count, and a table of pairs of offsets from the header.
    const FORM: [u8; 2] = [0x03, 0x3b];
    let from = header.at;
    let mut at = header;
    if at.u8()? != 1 {
        return None;
    }
    let frames = at.u8()?;
    if [at.u8()?, at.u8()?] != FORM {
        return None;
    }
    at.pointer(frames)?;
    let count = at.u32()? as usize;
    let table = at.split(count.checked_mul(8)?)?;
    let wanted = pc.wrapping_sub(from) as isize;
    let pair = |i: usize| {
        let mut at = Cursor { at: table.at + i * 8, end: table.end };
        Some((at.u32()? as i32 as isize, at.u32()? as i32 as isize))
    };
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if pair(middle)?.0 <= wanted {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Some(from.wrapping_add_signed(pair(low.checked_sub(1)?)?.1))
}

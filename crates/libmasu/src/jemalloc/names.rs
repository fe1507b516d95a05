//! From names to numbers and back.
//!
//! A name is a path in a tree, such as `stats.arenas.0.bins.3.curregs`, and has a number for each
//! of its components. A component that is a number stands for itself, so a program may translate a
//! name once and then vary the index. Any other component has the number of the first row in the
//! table of names that begins with the same path; the last one has the row's own. This makes a
//! row's numbers a function of the table alone, computed by the compiler.
//!
//! The table is text and small integers, without a single address.

use super::call::{ENOENT, Error, INDICES};
use super::tree::{NAMES, ROWS, TEXT};

/// Maximum number of components in a name.
pub const DEPTH: usize = 6;
/// Stands for "this component is a number".
const NUMBER: u8 = u8::MAX;

/// One name, with `#` in place of each number.
#[derive(Clone, Copy)]
struct Row {
    /// Its length in the text, where it directly follows the previous name.
    len: u8,
    /// Its components' numbers, followed by [`NONE`].
    numbers: [u8; DEPTH],
}

/// No component.
const NONE: u8 = u8::MAX - 1;

const _: () = assert!(ROWS < NONE as usize);

static TABLE: [Row; ROWS] = table();

const fn table() -> [Row; ROWS] {
    let mut rows = [Row { len: 0, numbers: [NONE; DEPTH] }; ROWS];
    let mut r = 0;
    while r < ROWS {
        let name = NAMES[r].as_bytes();
        rows[r].len = name.len() as u8;
        let (mut at, mut component) = (0, 0);
        while at <= name.len() {
            if at == name.len() || name[at] == b'.' {
                rows[r].numbers[component] =
                    if name[at - 1] == b'#' { NUMBER } else { first_with(name, at) };
                component += 1;
            }
            at += 1;
        }
        r += 1;
    }
    rows
}

/// Returns the first row whose name begins with the same `len` bytes, up to the end of a component.
const fn first_with(name: &[u8], len: usize) -> u8 {
    let mut r = 0;
    while r < ROWS {
        let other = NAMES[r].as_bytes();
        let mut same = 0;
        while same < len && same < other.len() && other[same] == name[same] {
            same += 1;
        }
        if same == len && (other.len() == len || other[len] == b'.') {
            return r as u8;
        }
        r += 1;
    }
    NUMBER
}

/// Yields the lengths of all names, in the order of their rows.
pub fn lengths() -> impl Iterator<Item = usize> {
    TABLE.iter().map(|row| row.len.into())
}

/// A name that was found: its row and the numbers in it.
pub struct Found {
    /// The row in the table.
    pub row: usize,
    /// The number of components.
    pub depth: usize,
    /// The numbers in the name, in order.
    pub index: [usize; INDICES],
    components: [usize; DEPTH],
}

impl Found {
    /// Returns the components' numbers.
    pub fn components(&self) -> &[usize] {
        self.components.get(..self.depth).unwrap_or(&[])
    }
}

impl Found {
    fn of(row: usize) -> Self {
        Found { row, depth: 0, index: [0; INDICES], components: [0; DEPTH] }
    }

    /// Takes the next component, which is `number` in the row and `value` in the call. Returns
    /// `false` if they differ.
    fn push(&mut self, number: u8, value: usize, indices: &mut usize) -> bool {
        if number == NUMBER {
            if let Some(index) = self.index.get_mut(*indices) {
                *index = value;
            }
            *indices += 1;
        } else if usize::from(number) != value {
            return false;
        }
        if let Some(component) = self.components.get_mut(self.depth) {
            *component = value;
        }
        self.depth += 1;
        true
    }
}

/// Finds a name in a program's notation.
pub fn find(name: &[u8]) -> Result<Found, Error> {
    let mut text: &[u8] = &TEXT;
    for (r, row) in TABLE.iter().enumerate() {
        let Some((pattern, rest)) = text.split_at_checked(row.len.into()) else { break };
        text = rest;
        if let Some(found) = matches(r, row, pattern, name) {
            return Ok(found);
        }
    }
    Err(ENOENT)
}

fn matches(r: usize, row: &Row, mut pattern: &[u8], mut name: &[u8]) -> Option<Found> {
    let (mut found, mut indices) = (Found::of(r), 0);
    for &number in row.numbers.iter().take_while(|&&n| n != NONE) {
        let (mut value, mut digits) = (0usize, 0);
        if number == NUMBER {
            while let [digit @ b'0'..=b'9', rest @ ..] = name {
                value = value.checked_mul(10)?.checked_add(usize::from(digit - b'0'))?;
                digits += 1;
                name = rest;
            }
            pattern = pattern.get(1..)?;
        } else {
            value = number.into();
            while let ([a, wanted @ ..], [b, rest @ ..]) = (pattern, name)
                && a == b
                && *a != b'.'
            {
                (pattern, name, digits) = (wanted, rest, 1);
            }
        }
        let _ = digits == 0 || found.push(number, value, &mut indices);
        match (pattern, name) {
            _ if digits == 0 => return None,
            ([b'.', wanted @ ..], [b'.', rest @ ..]) => (pattern, name) = (wanted, rest),
            ([], []) => {}
            _ => return None,
        }
    }
    Some(found)
}

/// Finds a name by its components' numbers.
pub fn find_numbers(numbers: &[usize]) -> Result<Found, Error> {
    // A name never ends in a number, so the last component has the row's own.
    let row_number = *numbers.last().ok_or(ENOENT)?;
    let row = TABLE.get(row_number).ok_or(ENOENT)?;
    let (mut found, mut indices) = (Found::of(row_number), 0);
    for (&wanted, &given) in row.numbers.iter().zip(numbers) {
        if wanted == NONE || !found.push(wanted, given, &mut indices) {
            return Err(ENOENT);
        }
    }
    // The name must have as many components as the row, and no more.
    let ended = row.numbers.get(found.depth).is_none_or(|&n| n == NONE);
    if ended && found.depth == numbers.len() { Ok(found) } else { Err(ENOENT) }
}

/// Parses a number in decimal digits.
pub fn decimal(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0usize, |n, &d| {
        let d = d.wrapping_sub(b'0');
        if d > 9 { None } else { n.checked_mul(10)?.checked_add(d.into()) }
    })
}

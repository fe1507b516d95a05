//! Lists of words, one string each with spaces between: what a user may write, and what is shown.
//!
//! A list in one string takes only the space of its letters. An array of strings takes sixteen
//! bytes more for each, and another twenty-four for the loader, which must adjust them at every
//! start.

/// A byte in its plain form: lower case, `_` between words of a name.
pub fn plain(byte: u8) -> u8 {
    match byte {
        b'.' | b'-' => b'_',
        _ => byte.to_ascii_lowercase(),
    }
}

/// The words of a list.
pub fn each(list: &'static str) -> impl Iterator<Item = &'static [u8]> {
    list.as_bytes().split(|&byte| byte == b' ')
}

/// Where `written`, in any case and with `.` or `-` for `_`, stands in a list.
#[inline(never)]
pub fn position(list: &'static str, written: &[u8]) -> Option<usize> {
    let same = |word: &[u8]| {
        word.len() == written.len() && word.iter().zip(written).all(|(&a, &b)| plain(a) == plain(b))
    };
    each(list).position(same)
}

/// The word at a place in a list; empty beyond its end.
#[inline(never)]
pub fn nth(list: &'static str, n: usize) -> &'static [u8] {
    each(list).nth(n).unwrap_or(&[])
}

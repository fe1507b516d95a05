//! The kinds of value a key can have: how each is read, shown, and described to somebody who got
//! it wrong.
//!
//! Numbers are decimal, may have a fraction (`1.5GiB`), and carry their unit. Sizes are binary:
//! `k`, `KB` and `KiB` all mean 1024 bytes. A bare number is bytes, or milliseconds.

use crate::text::{self, Text};

/// A kind of value.
pub trait Kind {
    /// The type a value is stored in.
    type Value: Copy;
    /// The accepted form, to complete "… is not".
    const FORM: &'static str;
    /// Reads what a user wrote; `None` if it has not this form.
    fn parse(written: &[u8]) -> Option<Self::Value>;
    /// Writes `value` in a form that [`parse`](Kind::parse) reads back.
    fn show(value: Self::Value, text: &mut Text);
}

/// Bytes.
pub struct Size;

impl Kind for Size {
    type Value = usize;
    const FORM: &'static str = "a size like 512KiB, 4MiB or 1GiB";

    fn parse(written: &[u8]) -> Option<usize> {
        let (number, unit) = Number::split(written)?;
        let shift = one_of(
            unit,
            &[
                (&["", "b"], 0),
                (&["k", "kb", "kib"], 10),
                (&["m", "mb", "mib"], 20),
                (&["g", "gb", "gib"], 30),
                (&["t", "tb", "tib"], 40),
            ],
        )?;
        usize::try_from(number.times(1 << shift)?).ok()
    }

    fn show(value: usize, text: &mut Text) {
        text.bytes(text::exact_bytes(value as u64).as_bytes());
    }
}

/// A plain number.
pub struct Count;

impl Kind for Count {
    type Value = u32;
    const FORM: &'static str = "a whole number like 32";

    fn parse(written: &[u8]) -> Option<u32> {
        match Number::split(written)? {
            (number, b"") if number.digits == 0 => u32::try_from(number.whole).ok(),
            _ => None,
        }
    }

    fn show(value: u32, text: &mut Text) {
        text.decimal(value.into());
    }
}

/// Yes or no.
pub struct Flag;

impl Kind for Flag {
    type Value = bool;
    const FORM: &'static str = "1 or 0 (or true, false, yes, no, on, off)";

    fn parse(written: &[u8]) -> Option<bool> {
        one_of(
            written,
            &[(&["1", "true", "yes", "on"], true), (&["0", "false", "no", "off"], false)],
        )
    }

    fn show(value: bool, text: &mut Text) {
        text.str(if value { "on" } else { "off" });
    }
}

/// A length of time, or for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// This many milliseconds; 0 is at once.
    Millis(u64),
    /// For ever.
    Never,
}

impl Kind for Delay {
    type Value = Delay;
    const FORM: &'static str = "a time like 500ms, 2s or never";

    fn parse(written: &[u8]) -> Option<Delay> {
        if one_of(written, &[(&["never", "-1"], ())]).is_some() {
            return Some(Delay::Never);
        }
        let (number, unit) = Number::split(written)?;
        let millis = one_of(
            unit,
            &[(&["", "ms"], 1), (&["s"], 1000), (&["m", "min"], 60_000), (&["h"], 3_600_000)],
        )?;
        Some(Delay::Millis(number.times(millis)?))
    }

    fn show(value: Delay, text: &mut Text) {
        match value {
            Delay::Never => text.str("never"),
            Delay::Millis(n) if n != 0 && n % 1000 == 0 => text.decimal(n / 1000).str("s"),
            Delay::Millis(n) => text.decimal(n).str("ms"),
        };
    }
}

/// Who gives memory back while the program is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackgroundThread {
    /// A thread once there is enough to give back and the program is already multi-threaded.
    Auto,
    /// A thread as soon as there is something to give back.
    On,
    /// Only the program's own calls.
    Off,
}

impl Kind for BackgroundThread {
    type Value = BackgroundThread;
    const FORM: &'static str = "auto, on or off";

    fn parse(written: &[u8]) -> Option<BackgroundThread> {
        if one_of(written, &[(&["auto"], ())]).is_some() {
            return Some(BackgroundThread::Auto);
        }
        Flag::parse(written).map(|on| if on { BackgroundThread::On } else { BackgroundThread::Off })
    }

    fn show(value: BackgroundThread, text: &mut Text) {
        text.str(match value {
            BackgroundThread::Auto => "auto",
            BackgroundThread::On => "on",
            BackgroundThread::Off => "off",
        });
    }
}

/// A decimal number with an optional fraction: `whole + fraction / 10^digits`.
struct Number {
    whole: u64,
    fraction: u64,
    digits: u32,
}

impl Number {
    /// Most digits read of a fraction. Six keep `fraction * unit` in 64 bits for every unit.
    const DIGITS: u32 = 6;

    /// Splits `4.5 MiB` into the number and the unit.
    fn split(written: &[u8]) -> Option<(Number, &[u8])> {
        let mut number = Number { whole: 0, fraction: 0, digits: 0 };
        let mut rest = written;
        while let [digit @ b'0'..=b'9', tail @ ..] = rest {
            number.whole = number.whole.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
            rest = tail;
        }
        if rest.len() == written.len() {
            return None;
        }
        if let [b'.', tail @ ..] = rest {
            rest = tail;
            while let [digit @ b'0'..=b'9', tail @ ..] = rest {
                if number.digits < Self::DIGITS {
                    number.fraction = number.fraction * 10 + u64::from(digit - b'0');
                    number.digits += 1;
                }
                rest = tail;
            }
            if number.digits == 0 {
                return None;
            }
        }
        Some((number, rest.trim_ascii_start()))
    }

    /// The number in units of `unit`, rounded down; `None` if it does not fit.
    fn times(&self, unit: u64) -> Option<u64> {
        let mut part = self.fraction.checked_mul(unit)?;
        for _ in 0..self.digits {
            part /= 10;
        }
        self.whole.checked_mul(unit)?.checked_add(part)
    }
}

/// The value whose words hold `written`, in any case.
fn one_of<T: Copy>(written: &[u8], choices: &[(&[&str], T)]) -> Option<T> {
    choices
        .iter()
        .find(|(words, _)| words.iter().any(|word| written.eq_ignore_ascii_case(word.as_bytes())))
        .map(|&(_, value)| value)
}

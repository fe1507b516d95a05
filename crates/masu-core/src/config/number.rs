//! Decimal numbers as a user writes them, with a unit behind.

/// A decimal number with an optional fraction: `whole + fraction / 10^digits`.
pub struct Number {
    pub whole: u64,
    fraction: u64,
    pub digits: u32,
}

impl Number {
    /// Most digits read of a fraction. Six keep `fraction * unit` in 64 bits for every unit.
    const DIGITS: u32 = 6;

    /// Splits `4.5 MiB` into the number and the unit.
    #[inline(never)]
    pub fn split(written: &[u8]) -> Option<(Number, &[u8])> {
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
    pub fn times(&self, unit: u64) -> Option<u64> {
        let mut part = self.fraction.checked_mul(unit)?;
        for _ in 0..self.digits {
            part /= 10;
        }
        self.whole.checked_mul(unit)?.checked_add(part)
    }
}

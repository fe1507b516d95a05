//! Natural numbers of any size, every result a new block: small blocks that die young.

use std::cmp::Ordering;

/// Digits of 32 bits, the lowest first, without leading zeros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Natural(Box<[u32]>);

impl Natural {
    /// The number of the given digits, the lowest first.
    pub fn of(digits: impl IntoIterator<Item = u32>) -> Self {
        let mut digits: Vec<u32> = digits.into_iter().collect();
        while digits.last() == Some(&0) {
            digits.pop();
        }
        Natural(digits.into_boxed_slice())
    }

    /// A small number.
    pub fn small(value: u32) -> Self {
        Self::of([value])
    }

    /// The digits, the lowest first.
    pub fn digits(&self) -> &[u32] {
        &self.0
    }

    fn digit(&self, place: usize) -> u64 {
        u64::from(self.0.get(place).copied().unwrap_or(0))
    }

    fn bit(&self, place: usize) -> bool {
        self.digit(place / 32) >> (place % 32) & 1 == 1
    }

    /// How many bits it has.
    fn bits(&self) -> usize {
        self.0.last().map_or(0, |top| self.0.len() * 32 - top.leading_zeros() as usize)
    }

    /// The sum.
    pub fn plus(&self, other: &Self) -> Self {
        let mut carry = 0;
        Self::of((0..=self.0.len().max(other.0.len())).map(|place| {
            let sum = self.digit(place) + other.digit(place) + carry;
            carry = sum >> 32;
            sum as u32
        }))
    }

    /// The difference; `other` must not be larger.
    pub fn minus(&self, other: &Self) -> Self {
        let mut borrow = 0;
        let digits = Self::of((0..self.0.len()).map(|place| {
            let (difference, below) =
                self.digit(place).overflowing_sub(other.digit(place) + borrow);
            borrow = u64::from(below);
            difference as u32
        }));
        assert_eq!(borrow, 0, "a difference below zero");
        digits
    }

    /// The product.
    pub fn times(&self, other: &Self) -> Self {
        let mut digits = vec![0u32; self.0.len() + other.0.len()];
        for (left, _) in self.0.iter().enumerate() {
            let mut carry = 0;
            for right in 0..=other.0.len().min(digits.len() - left - 1) {
                let place = &mut digits[left + right];
                let sum = self.digit(left) * other.digit(right) + u64::from(*place) + carry;
                *place = sum as u32;
                carry = sum >> 32;
            }
        }
        Self::of(digits)
    }

    /// Twice the number, plus one if asked.
    fn doubled(&self, plus_one: bool) -> Self {
        let mut carry = u32::from(plus_one);
        Self::of((0..=self.0.len()).map(|place| {
            let digit = self.digit(place) as u32;
            let shifted = digit << 1 | carry;
            carry = digit >> 31;
            shifted
        }))
    }

    /// Quotient and remainder, bit by bit.
    pub fn divided_by(&self, divisor: &Self) -> (Self, Self) {
        let mut quotient = vec![0u32; self.0.len()];
        let mut rest = Self::small(0);
        for place in (0..self.bits()).rev() {
            rest = rest.doubled(self.bit(place));
            if rest >= *divisor {
                rest = rest.minus(divisor);
                quotient[place / 32] |= 1 << (place % 32);
            }
        }
        (Self::of(quotient), rest)
    }

    /// The largest number whose square is not above this one, by Newton's method.
    pub fn root(&self) -> Self {
        let mut guess = Self::of((0..self.0.len() / 2 + 1).map(|_| u32::MAX));
        loop {
            let (better, _) = guess.plus(&self.divided_by(&guess).0).divided_by(&Self::small(2));
            if better >= guess {
                return guess;
            }
            guess = better;
        }
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Natural {
    fn cmp(&self, other: &Self) -> Ordering {
        let lengths = self.0.len().cmp(&other.0.len());
        lengths.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: u128) -> Natural {
        Natural::of((0..4).map(|digit| (value >> (32 * digit)) as u32))
    }

    #[test]
    fn arithmetic_agrees_with_the_machine() {
        let mut rng = fastrand::Rng::with_seed(9);
        for _ in 0..500 {
            let a = rng.u128(..) >> rng.u32(3..120);
            let b = (rng.u128(..) >> rng.u32(65..127)).max(1);
            assert_eq!(number(a).plus(&number(b)), number(a + b));
            assert_eq!(number(a.max(b)).minus(&number(a.min(b))), number(a.max(b) - a.min(b)));
            assert_eq!(number(a).divided_by(&number(b)), (number(a / b), number(a % b)));
            let low = a as u64;
            assert_eq!(
                number(low.into()).times(&number(b as u64 as u128)),
                number(u128::from(low) * u128::from(b as u64))
            );
            assert_eq!(number(a.max(1)).root(), number(a.max(1).isqrt()));
            assert_eq!(number(a).cmp(&number(b)), a.cmp(&b));
        }
    }
}

//! Digits after the point, between bounds.

use super::number::{Made, refused};
use crate::regex::{Arena, ByteSet, Expr};
use alloc::vec::Vec;

impl Arena {
    /// A digit of a set with any digits after it.
    fn then_any(&mut self, from: u8, to: u8) -> Expr {
        let digit = self.bytes_of(ByteSet::range(from, to));
        let rest = self.some_digits(0);
        self.seq(digit, rest)
    }

    fn then(&mut self, digit: u8, rest: Expr) -> Expr {
        let digit = self.literal(&[digit]);
        self.seq(digit, rest)
    }

    /// Digits after the point that are not below some, which themselves count if `reached`.
    pub(super) fn digits_from(&mut self, digits: &[u8], reached: bool) -> Expr {
        match digits {
            [] if reached => self.some_digits(0),
            [] => {
                let any = self.some_digits(0);
                let last = self.digits(1, 9);
                self.seq(any, last)
            }
            [last] if reached => self.then_any(*last, b'9'),
            [first, rest @ ..] => {
                let rest = self.digits_from(rest, reached);
                let mut parts: Vec<Expr> = [self.then(*first, rest)].into();
                if *first < b'9' {
                    parts.push(self.then_any(first + 1, b'9'));
                }
                self.or(parts)
            }
        }
    }

    /// Digits after the point that are not above some.
    pub(super) fn digits_up_to(&mut self, digits: &[u8], reached: bool) -> Made {
        Ok(match digits {
            [] if reached => Self::EMPTY,
            [] | [b'0'] if !reached => {
                return Err(refused("there is no number below the maximum"));
            }
            [last] if !reached => self.then_any(b'0', last - 1),
            [] => Self::EMPTY,
            [first, rest @ ..] => {
                let rest = self.digits_up_to(rest, reached)?;
                let mut parts: Vec<Expr> = [self.then(*first, rest)].into();
                if *first > b'0' {
                    parts.push(self.then_any(b'0', first - 1));
                }
                self.or(parts)
            }
        })
    }

    /// Digits after the point between two texts of the same length.
    pub(super) fn digits_between(&mut self, low: (&str, bool), high: (&str, bool)) -> Made {
        let ((low, with_low), (high, with_high)) = (low, high);
        let (from, to) = (low.as_bytes(), high.as_bytes());
        let ([first, from_rest @ ..], [last, to_rest @ ..]) = (from, to) else {
            return if with_low && with_high {
                Ok(Self::EMPTY)
            } else {
                Err(refused("there is no number between minimum and maximum"))
            };
        };
        if from == to {
            return if with_low && with_high {
                Ok(self.literal(from))
            } else {
                Err(refused("there is no number between minimum and maximum"))
            };
        }
        if first == last {
            let rest = self.digits_between((&low[1..], with_low), (&high[1..], with_high))?;
            return Ok(self.then(*first, rest));
        }
        if first > last {
            return Err(refused("the minimum is above the maximum"));
        }
        let rest = self.digits_from(without_zeros(from_rest), with_low);
        let mut parts: Vec<Expr> = [self.then(*first, rest)].into();
        if first + 1 < *last {
            parts.push(self.then_any(first + 1, last - 1));
        }
        let end = without_zeros(to_rest);
        if !end.is_empty() || with_high {
            let rest = self.digits_up_to(end, with_high)?;
            parts.push(self.then(*last, rest));
        }
        Ok(self.or(parts))
    }
}

fn without_zeros(digits: &[u8]) -> &[u8] {
    let end = digits.iter().rposition(|digit| *digit != b'0');
    &digits[..end.map_or(0, |last| last + 1)]
}

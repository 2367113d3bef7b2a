//! Numbers between bounds, as expressions over their digits.
//!
//! A number with bounds has no exponent. Of the ways to write a number, those are taken that begin with its digits: what
//! is between two bounds is found digit by digit.

use super::{Decimal, Number, Problem};
use crate::regex::{Arena, ByteSet, ENDLESS, Expr};
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use libm::{ceil, floor, trunc};

pub(super) type Made = Result<Expr, Problem>;

pub(super) fn refused(reason: &str) -> Problem {
    Problem::Refused(reason.to_string())
}

impl Decimal {
    fn new(mut coefficient: u32, mut scale: u32) -> Self {
        if coefficient == 0 {
            scale = 0;
        }
        while scale > 0 && coefficient.is_multiple_of(10) {
            coefficient /= 10;
            scale -= 1;
        }
        Self { coefficient, scale }
    }

    /// A positive number, if it has few digits.
    pub(super) fn of(value: f64) -> Result<Self, Problem> {
        let (mut value, mut scale) = (value, 0);
        while value != trunc(value) && scale < 400 {
            value *= 10.0;
            scale += 1;
        }
        if value > f64::from(u32::MAX) {
            return Err(refused("multipleOf has too many digits"));
        }
        Ok(Self::new(value as u32, scale))
    }

    /// The least number that both divide.
    pub(super) fn common_multiple(self, other: Self) -> Result<Self, Problem> {
        if self.coefficient == 0 || other.coefficient == 0 {
            return Ok(Self::new(0, 0));
        }
        let scale = self.scale.max(other.scale);
        let scaled = |one: Self| {
            let factor = 10u64.checked_pow(scale - one.scale)?;
            factor.checked_mul(u64::from(one.coefficient))
        };
        let product = || {
            let (a, b) = (scaled(self)?, scaled(other)?);
            let product = a.checked_mul(b).filter(|p| *p <= u64::from(u32::MAX))?;
            u32::try_from(product / greatest_divisor(a, b)).ok()
        };
        let coefficient =
            product().ok_or_else(|| refused("the common multiple of multipleOf is too large"))?;
        Ok(Self::new(coefficient, scale))
    }

    fn value(self) -> f64 {
        f64::from(self.coefficient) / power_of_ten(self.scale)
    }
}

fn greatest_divisor(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        greatest_divisor(b, a % b)
    }
}

fn power_of_ten(exponent: u32) -> f64 {
    (0..exponent).fold(1.0, |power, _| power * 10.0)
}

impl Number {
    /// The lower bound, and whether it is left out.
    fn lower(&self) -> (Option<f64>, bool) {
        match (self.minimum, self.above) {
            (Some(least), Some(above)) if above >= least => (Some(above), true),
            (None, Some(above)) => (Some(above), true),
            (least, _) => (least, false),
        }
    }

    /// The upper bound, and whether it is left out.
    fn upper(&self) -> (Option<f64>, bool) {
        match (self.maximum, self.below) {
            (Some(most), Some(below)) if below <= most => (Some(below), true),
            (None, Some(below)) => (Some(below), true),
            (most, _) => (most, false),
        }
    }

    fn whole_bounds(&self) -> (Option<i64>, Option<i64>) {
        let least = match self.lower() {
            (Some(bound), true) if bound == trunc(bound) => Some(bound + 1.0),
            (bound, _) => bound.map(ceil),
        };
        let most = match self.upper() {
            (Some(bound), true) if bound == trunc(bound) => Some(bound - 1.0),
            (bound, _) => bound.map(floor),
        };
        (
            least.map(|bound| bound as i64),
            most.map(|bound| bound as i64),
        )
    }

    /// Why no number is within the bounds, if none is.
    fn contradiction(&self) -> Option<&'static str> {
        let (lower, no_lower) = self.lower();
        let (upper, no_upper) = self.upper();
        if let (Some(least), Some(most)) = (lower, upper) {
            if least > most || (least == most && (no_lower || no_upper)) {
                return Some("the minimum is above the maximum");
            }
            if let (true, (Some(least), Some(most))) = (self.integer, self.whole_bounds())
                && least > most
            {
                return Some("there is no integer between minimum and maximum");
            }
        }
        let multiple = self.multiple_of?;
        if multiple.coefficient == 0 {
            let above = lower.is_some_and(|least| least > 0.0 || (no_lower && least >= 0.0));
            let below = upper.is_some_and(|most| most < 0.0 || (no_upper && most <= 0.0));
            return (above || below).then_some("0 is not between minimum and maximum");
        }
        let (least, most) = (lower?, upper?);
        let step = multiple.value();
        let mut first = ceil(least / step) * step;
        if no_lower && first == least {
            first += step;
        }
        let mut last = floor(most / step) * step;
        if no_upper && last == most {
            last -= step;
        }
        if self.integer {
            (first, last) = (ceil(first), floor(last));
        }
        (first > last).then_some("there is no multiple between minimum and maximum")
    }
}

impl Arena {
    /// The numbers that a schema allows.
    pub(super) fn number(&mut self, number: &Number) -> Made {
        if let Some(why) = number.contradiction() {
            return Err(Problem::Never(why.to_string()));
        }
        let range = if number.integer {
            let (least, most) = number.whole_bounds();
            self.integers(least, most)?
        } else {
            let (lower, no_lower) = number.lower();
            let (upper, no_upper) = number.upper();
            self.decimals((lower, !no_lower), (upper, !no_upper))?
        };
        let Some(Decimal { coefficient, scale }) = number.multiple_of else {
            return Ok(range);
        };
        if coefficient == 0 {
            return Err(refused("multipleOf must not be 0"));
        }
        // The remainders must be numbers of 32 bits.
        let largest = 10u64.checked_pow(scale).map(|power| 9 * power);
        let largest = largest.map(|digits| digits + 10 * u64::from(coefficient));
        if largest.is_none_or(|largest| largest > u64::from(u32::MAX)) {
            return Err(refused("multipleOf has too many digits"));
        }
        let minus = self.optional_minus();
        let multiple = self.multiple(coefficient, scale);
        let multiple = self.seq(minus, multiple);
        Ok(self.and([range, multiple].into()))
    }

    pub(super) fn digits(&mut self, from: u8, to: u8) -> Expr {
        self.bytes_of(ByteSet::range(b'0' + from, b'0' + to))
    }

    /// Digits, so many at least.
    pub(super) fn some_digits(&mut self, least: u32) -> Expr {
        let digit = self.digits(0, 9);
        self.repeat(digit, least, ENDLESS)
    }

    fn optional_minus(&mut self) -> Expr {
        let minus = self.literal(b"-");
        self.repeat(minus, 0, 1)
    }

    fn negative(&mut self, number: Expr) -> Expr {
        let minus = self.literal(b"-");
        self.seq(minus, number)
    }

    /// The same, or nothing.
    fn maybe(&mut self, part: Expr) -> Expr {
        self.repeat(part, 0, 1)
    }

    /// A point and digits.
    fn fraction(&mut self) -> Expr {
        let point = self.literal(b".");
        let digits = self.some_digits(1);
        self.seq(point, digits)
    }

    /// Numbers with more digits than `digits`.
    fn longer_than(&mut self, digits: usize) -> Expr {
        let first = self.digits(1, 9);
        let rest = self.some_digits(digits as u32);
        self.seq(first, rest)
    }

    fn any_integer(&mut self) -> Expr {
        let zero = self.literal(b"0");
        let other = self.longer_than(0);
        self.or([zero, other].into())
    }

    fn integers(&mut self, least: Option<i64>, most: Option<i64>) -> Made {
        Ok(match (least, most) {
            (None, None) => {
                let minus = self.optional_minus();
                let number = self.any_integer();
                self.seq(minus, number)
            }
            (Some(least), None) if least < 0 => {
                let below = self.integers(Some(least), Some(-1))?;
                let above = self.integers(Some(0), None)?;
                self.or([below, above].into())
            }
            (Some(least), None) => {
                let digits = least.to_string().len();
                let nines = "9".repeat(digits).parse();
                let nines = nines.map_err(|_| refused("minimum has too many digits"))?;
                let short = self.integers(Some(least), Some(nines))?;
                let long = self.longer_than(digits);
                self.or([short, long].into())
            }
            (None, Some(most)) if most >= 0 => {
                let above = self.integers(Some(0), Some(most))?;
                let below = self.integers(None, Some(-1))?;
                self.or([above, below].into())
            }
            (None, Some(most)) => {
                let number = self.integers(Some(-most), None)?;
                self.negative(number)
            }
            (Some(least), Some(most)) if least > most => {
                return Err(refused("the minimum is above the maximum"));
            }
            (Some(least), Some(most)) if least < 0 => {
                if most < 0 {
                    let number = self.integers(Some(-most), Some(-least))?;
                    return Ok(self.negative(number));
                }
                let below = self.integers(Some(0), Some(-least))?;
                let below = self.negative(below);
                let above = self.integers(Some(0), Some(most))?;
                self.or([below, above].into())
            }
            (Some(least), Some(most)) => self.naturals(least, most),
        })
    }

    /// Integers from one that is not negative to another.
    pub(super) fn naturals(&mut self, least: i64, most: i64) -> Expr {
        let (from, to) = (least.to_string(), most.to_string());
        let mut parts = Vec::new();
        for digits in from.len()..=to.len() {
            let first = if digits == from.len() {
                from.clone()
            } else {
                format!("1{}", "0".repeat(digits - 1))
            };
            let last = if digits == to.len() {
                to.clone()
            } else {
                "9".repeat(digits)
            };
            parts.push(self.between(first.as_bytes(), last.as_bytes()));
        }
        self.or(parts)
    }

    /// Texts of digits between two of the same length.
    fn between(&mut self, from: &[u8], to: &[u8]) -> Expr {
        let ([first, from_rest @ ..], [last, to_rest @ ..]) = (from, to) else {
            return Self::EMPTY;
        };
        let head = |arena: &mut Self, digit: u8, rest: Expr| {
            let digit = arena.literal(&[digit]);
            arena.seq(digit, rest)
        };
        if first == last {
            let rest = self.between(from_rest, to_rest);
            return head(self, *first, rest);
        }
        let nines: Vec<u8> = from_rest.iter().map(|_| b'9').collect();
        let zeros: Vec<u8> = to_rest.iter().map(|_| b'0').collect();
        let low = self.between(from_rest, &nines);
        let high = self.between(&zeros, to_rest);
        let mut parts: Vec<Expr> = [head(self, *first, low), head(self, *last, high)].into();
        if last - first > 1 {
            let digit = self.bytes_of(ByteSet::range(first + 1, last - 1));
            let any = self.digits(0, 9);
            let count = from_rest.len() as u32;
            let rest = self.repeat(any, count, count);
            parts.push(self.seq(digit, rest));
        }
        self.or(parts)
    }

    /// Numbers between bounds, each with whether it is reached.
    fn decimals(&mut self, lower: (Option<f64>, bool), upper: (Option<f64>, bool)) -> Made {
        let (with_least, with_most) = (lower.1, upper.1);
        const ZERO: Option<f64> = Some(0.0);
        Ok(match (lower.0, upper.0) {
            (None, None) => self.any_number(),
            (Some(least), None) if least < 0.0 => {
                let below = self.decimals((Some(least), with_least), (ZERO, false))?;
                let above = self.decimals((ZERO, true), (None, false))?;
                self.or([below, above].into())
            }
            (Some(least), None) => {
                let digits = (least as i64).to_string().len();
                let next = Some(power_of_ten(digits as u32));
                let short = self.decimals((Some(least), with_least), (next, false))?;
                let long = self.longer_than(digits);
                let fraction = self.fraction();
                let fraction = self.maybe(fraction);
                let long = self.seq(long, fraction);
                self.or([short, long].into())
            }
            (None, Some(most)) if most < 0.0 => {
                let number = self.decimals((Some(-most), with_most), (None, false))?;
                self.negative(number)
            }
            (None, Some(most)) => {
                let below = self.decimals((ZERO, false), (None, false))?;
                let mut parts: Vec<Expr> = [self.negative(below)].into();
                if most > 0.0 {
                    parts.push(self.decimals((ZERO, true), (Some(most), with_most))?);
                } else if with_most {
                    parts.push(self.literal(b"0"));
                }
                self.or(parts)
            }
            (Some(least), Some(most)) if least > most => {
                return Err(refused("the minimum is above the maximum"));
            }
            (Some(least), Some(most)) if least == most => {
                if !with_least || !with_most {
                    return Err(refused("there is no number between minimum and maximum"));
                }
                self.literal(format!("{least}").as_bytes())
            }
            (Some(least), Some(most)) if least < 0.0 && most < 0.0 => {
                let number = self.decimals((Some(-most), with_most), (Some(-least), with_least))?;
                self.negative(number)
            }
            (Some(least), Some(most)) if least < 0.0 => {
                let below = self.decimals((ZERO, false), (Some(-least), with_least))?;
                let mut parts: Vec<Expr> = [self.negative(below)].into();
                if most > 0.0 || with_most {
                    parts.push(self.decimals((ZERO, true), (Some(most), with_most))?);
                }
                self.or(parts)
            }
            (Some(least), Some(most)) => {
                self.positive_decimals((least, with_least), (most, with_most))?
            }
        })
    }

    fn any_number(&mut self) -> Expr {
        let minus = self.optional_minus();
        let integer = self.any_integer();
        let fraction = self.fraction();
        let fraction = self.maybe(fraction);
        let e = self.bytes_of(ByteSet::of(b"eE"));
        let sign = self.bytes_of(ByteSet::of(b"+-"));
        let sign = self.maybe(sign);
        let digits = self.some_digits(1);
        let exponent = self.seq_of(&[e, sign, digits]);
        let exponent = self.maybe(exponent);
        self.seq_of(&[minus, integer, fraction, exponent])
    }

    /// Numbers between two that differ, the lower one not negative.
    fn positive_decimals(&mut self, lower: (f64, bool), upper: (f64, bool)) -> Made {
        let ((least, with_least), (most, with_most)) = (lower, upper);
        if !least.is_finite() || !most.is_finite() {
            return Err(refused("a bound is infinite"));
        }
        let (least, most) = (format!("{least}"), format!("{most}"));
        let (from, from_digits) = halves(&least)?;
        let (to, to_digits) = halves(&most)?;
        let whole = |arena: &mut Self, number: i64| arena.literal(number.to_string().as_bytes());
        let point = self.literal(b".");
        if from == to {
            let length = from_digits.len().max(to_digits.len());
            let padded = |digits: &str| format!("{digits:0<length$}");
            let (low, high) = (padded(from_digits), padded(to_digits));
            let digits = self.digits_between((&low, with_least), (&high, with_most))?;
            let mut rest = self.seq(point, digits);
            if low.parse::<i64>().unwrap_or(0) == 0 {
                rest = self.maybe(rest);
            }
            let number = whole(self, from);
            return Ok(self.seq(number, rest));
        }
        let mut parts = Vec::new();
        let mut next = from;
        if !from_digits.is_empty() || !with_least {
            let digits = self.digits_from(from_digits.as_bytes(), with_least);
            let number = whole(self, from);
            parts.push(self.seq_of(&[number, point, digits]));
            next += 1;
        }
        if to > next {
            let inner = self.integers(Some(next), Some(to - 1))?;
            let fraction = self.fraction();
            let fraction = self.maybe(fraction);
            parts.push(self.seq(inner, fraction));
        }
        let number = whole(self, to);
        if !to_digits.is_empty() {
            let digits = self.digits_up_to(to_digits.as_bytes(), with_most)?;
            let fraction = self.seq(point, digits);
            let fraction = self.maybe(fraction);
            parts.push(self.seq(number, fraction));
        } else if with_most {
            let zero = self.literal(b"0");
            let zeros = self.repeat(zero, 1, ENDLESS);
            let fraction = self.seq(point, zeros);
            let fraction = self.maybe(fraction);
            parts.push(self.seq(number, fraction));
        }
        Ok(self.or(parts))
    }
}

/// What stands before the point and after it.
fn halves(number: &str) -> Result<(i64, &str), Problem> {
    let (whole, digits) = number.split_once('.').unwrap_or((number, ""));
    let whole = whole.parse();
    let whole: i64 = whole.map_err(|_| refused("a bound has too many digits"))?;
    Ok((whole, digits))
}

#[cfg(test)]
mod tests;

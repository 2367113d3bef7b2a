//! `exp` for weights relative to the largest, which is most of the work on a vocabulary of 256k tokens.
//!
//! Additions and multiplications only, in one order and without branches: the same bits on every platform, and loops
//! over it become vector code.

/// Under this the result is 0: less than 1.2e-38, no share of any distribution that could be drawn.
const LEAST: f32 = -87.0;
/// Adding it rounds to an integer, which is then in the low bits.
const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts, the first short enough for its multiples to be exact.
const LN_2_HIGH: f32 = 355.0 / 512.0;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// (exp(r) − 1 − r) / r² on |r| ≤ ln 2 / 2, the highest power first (Cephes's minimax polynomial).
const TERMS: [f32; 6] = [
    1.987_569_1e-4,
    1.398_199_9e-3,
    8.333_452e-3,
    4.166_579_6e-2,
    1.666_666_5e-1,
    5e-1,
];

/// e to the power of x, for x from minus infinity to 0.
#[inline]
pub(crate) fn exp(x: f32) -> f32 {
    let clamped = if x > LEAST { x } else { LEAST };
    let shifted = clamped * core::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = clamped - n * LN_2_HIGH - n * LN_2_LOW;
    let mut series = 0.0;
    for term in TERMS {
        series = series * r + term;
    }
    let mantissa = series * (r * r) + r + 1.0;
    // 2ⁿ, from the integer in the low bits of `shifted`.
    let scale = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0f32.to_bits()));
    if x > LEAST { mantissa * scale } else { 0.0 }
}

/// How many numbers [`sum`] keeps apart, so that they can be added side by side.
const LANES: usize = 8;

/// The sum of numbers, in an order that depends on their count only.
pub(crate) fn sum(numbers: &[f32]) -> f64 {
    let mut lanes = [0.0; LANES];
    for chunk in numbers.chunks(LANES) {
        for (lane, &number) in lanes.iter_mut().zip(chunk) {
            *lane += f64::from(number);
        }
    }
    lanes.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_exponential_to_two_units_in_the_last_place() {
        let mut x = 0.0f32;
        while x > LEAST {
            let exact = f64::from(x).exp();
            let error = (f64::from(exp(x)) - exact).abs() / exact;
            assert!(error < 1.5e-7, "exp({x}) is off by {error:e}");
            x -= 0.000_7;
        }
    }

    #[test]
    fn the_ends_are_exact() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-0.0), 1.0);
        assert_eq!(exp(-88.0), 0.0);
        assert_eq!(exp(f32::MIN), 0.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
    }

    /// Any platform on which this fails would sample other texts.
    #[test]
    fn its_bits_are_fixed() {
        let bits = [-0.1f32, -1.0, -10.0, -86.9].map(|x| exp(x).to_bits());
        assert_eq!(
            bits,
            [1_063_756_653, 1_052_531_378, 943_614_926, 12_980_105]
        );
    }
}

//! ALiBi (<https://arxiv.org/abs/2108.12409>): scores shrink with the distance, in each head at its own rate.

use alloc::vec::Vec;

/// The heads' rates: powers of 2^(−bias/n) for n heads, n a power of two; heads beyond that take every other power of the
/// next such series.
pub(crate) fn slopes(heads: usize, bias: f32) -> Vec<f32> {
    let whole = 1 << heads.ilog2();
    let power = |of: usize, exponent: usize| {
        libm::pow(2.0, -f64::from(bias) * exponent as f64 / of as f64) as f32
    };
    (0..heads)
        .map(|head| match head.checked_sub(whole) {
            None => power(whole, head + 1),
            Some(beyond) => power(2 * whole, 2 * beyond + 1),
        })
        .collect()
}

/// Lowers the scores for keys from position `first` on by their distance from `position`.
pub(super) fn lower(slope: f32, position: usize, first: usize, scores: &mut [f32]) {
    for (j, score) in scores.iter_mut().enumerate() {
        *score -= slope * (first + j).abs_diff(position) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::slopes;

    #[test]
    fn heads_beyond_a_power_of_two_lie_between_the_others() {
        assert_eq!(slopes(4, 8.0), [0.25, 0.0625, 0.015625, 0.00390625]);
        assert_eq!(slopes(6, 8.0)[..4], slopes(4, 8.0)[..]);
        assert_eq!(slopes(6, 8.0)[4..], [slopes(8, 8.0)[0], slopes(8, 8.0)[2]]);
    }
}
